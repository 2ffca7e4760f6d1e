"""Makes wheels (PEP 517, PEP 427). It needs no build tool: a cluster's login node may not reach the network.

  pip install TREE                                        the Python package alone
  python3 cxxrun_wheel.py PREFIX PLATFORM WHEEL_DIRECTORY also the programs, libcxxrun_c and, where it is
                                                          there, the plugin for GPUs that are installed in PREFIX

SOURCE_DATE_EPOCH sets the time of the files in the wheel."""
import base64
import hashlib
import os
import pathlib
import re
import stat
import sys
import time
import zipfile

_PACKAGE = pathlib.Path(__file__).parent / "cxxrun"
_VERSION = re.search(r'VERSION = "(.+)"', (_PACKAGE / "_version.py").read_text())[1]
_INFO = f"cxxrun-{_VERSION}.dist-info"
_METADATA = f"""Metadata-Version: 2.1
Name: cxxrun
Version: {_VERSION}
Summary: Starts distributed training on a Slurm cluster and keeps it running
License: Apache-2.0
Requires-Python: >=3.8
"""
# A wheel cannot hold links. cxxrun runs the program whose name it is called by.
_OTHER_NAME = """#!python
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
os.execv(os.path.join(here, "cxxrun"), [__file__, *sys.argv[1:]])
"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, "py3-none-any", {})


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("cxxrun is not distributed as a source archive of its Python package: use the tree")


def build_platform_wheel(prefix, platform, wheel_directory):
    scripts = f"cxxrun-{_VERSION}.data/scripts"
    more = {f"{scripts}/cxxrun": (prefix / "bin/cxxrun").read_bytes(),
            f"{scripts}/cxxrunctl": (prefix / "bin/cxxrunctl").read_bytes(),
            f"{scripts}/cxxrun-rendezvous": _OTHER_NAME.encode(), f"{scripts}/cxxrun-store": _OTHER_NAME.encode(),
            "cxxrun/libcxxrun_c.so.0": (prefix / "lib/libcxxrun_c.so.0").read_bytes()}
    plugin = prefix / "lib/cxxrun/libcxxrun_cuda.so"
    if plugin.exists():
        more[f"cxxrun/{plugin.name}"] = plugin.read_bytes()
    for name in ("LICENSE", "NOTICES"):
        more[f"{_INFO}/{name}"] = (prefix / "share/doc/cxxrun" / name).read_bytes()
    return _write(wheel_directory, f"py3-none-{platform}", more)


def _write(wheel_directory, tag, more):
    files = {f"cxxrun/{path.relative_to(_PACKAGE).as_posix()}": path.read_bytes() for path in sorted(_PACKAGE.rglob("*"))
             if path.suffix in (".py", ".typed")}
    files.update(more)
    files[f"{_INFO}/METADATA"] = _METADATA.encode()
    pure = str(not more).lower()
    files[f"{_INFO}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: cxxrun\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{_INFO}/RECORD"] = "\n".join([*rows, f"{_INFO}/RECORD,,", ""]).encode()
    name = f"cxxrun-{_VERSION}-{tag}.whl"
    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = stat.S_IFREG << 16 | (0o755 if "/scripts/" in path or ".so" in path else 0o644) << 16
            archive.writestr(entry, data)
    return name


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    print(build_platform_wheel(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
