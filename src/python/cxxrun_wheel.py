"""Makes the wheel for pip (PEP 517), because a cluster's login node need not reach the network for a builder."""
import base64
import hashlib
import pathlib
import re
import zipfile

_PACKAGE = pathlib.Path(__file__).parent / "cxxrun"
_VERSION = re.search(r'VERSION = "(.+)"', (_PACKAGE / "_version.py").read_text())[1]
_INFO = f"cxxrun-{_VERSION}.dist-info"
_METADATA = f"Metadata-Version: 2.1\nName: cxxrun\nVersion: {_VERSION}\nRequires-Python: >=3.8\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: cxxrun\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {f"cxxrun/{path.relative_to(_PACKAGE).as_posix()}": path.read_bytes() for path in sorted(_PACKAGE.rglob("*.py"))}
    files[f"{_INFO}/METADATA"] = _METADATA.encode()
    files[f"{_INFO}/WHEEL"] = _WHEEL.encode()
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{_INFO}/RECORD"] = "\n".join([*rows, f"{_INFO}/RECORD,,", ""]).encode()
    name = f"cxxrun-{_VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("cxxrun is not distributed as a source archive of its Python package: use the tree")


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
