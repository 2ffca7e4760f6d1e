"""Records what a worker imports and how long that takes, for --warm (docs/use/warm.md). The launcher reads it from the file
that CXXRUN_IMPORTS names. Each line has seconds, a module, and the module that imported it, or "-". Only installed modules
that took a noticeable time by themselves are listed."""
import _frozen_importlib
import atexit
import os
import sys
import time
from _thread import get_ident
from typing import Any, Dict, List, Optional

_LEAST = 0.02  # seconds
_QUIET = 1.0  # seconds without another import until the list is written
_MOST = 500

# Import errors are shown without the frames of such a file.
_WRAPPER = compile("""def find_and_load(name, import_):
    load = begin(name)
    try:
        return inner(name, import_)
    finally:
        end(load)
""", "<frozen importlib._bootstrap>", "exec")


class Load:
    def __init__(self, name: str, parent: "Optional[Load]") -> None:
        self.name, self.parent, self.began, self.seconds = name, parent, time.monotonic(), 0.0


class Imports:
    def __init__(self, path: str) -> None:
        self._path, self._pid = path, os.getpid()
        self._open: Dict[int, Optional[Load]] = {}  # by thread
        self._loads: List[Load] = []  # in the order in which they ended
        self._told = 0  # how many of those have been written
        scope: Dict[str, Any] = {"begin": self._begin, "end": self._end, "inner": _frozen_importlib._find_and_load}
        exec(_WRAPPER, scope)
        _frozen_importlib._find_and_load = scope["find_and_load"]
        atexit.register(self.tell)

    def _begin(self, name: str) -> Load:
        thread = get_ident()
        load = self._open[thread] = Load(name, self._open.get(thread))
        return load

    def _end(self, load: Load) -> None:
        self._open[get_ident()] = load.parent
        load.seconds = time.monotonic() - load.began
        if load.seconds >= _LEAST:
            self._loads.append(load)

    def settle(self) -> None:
        """Training has begun: writes what has been imported, unless imports are still going on."""
        if len(self._loads) > self._told:
            last = self._loads[-1]
            if time.monotonic() - last.began - last.seconds > _QUIET:
                self.tell()

    def tell(self) -> None:
        if os.getpid() != self._pid:
            return  # a child that was forked
        self._told = len(self._loads)
        lines = []
        for load in self._loads[:self._told]:
            if _is_installed(load.name):
                parent = load.parent
                while parent is not None and not _is_installed(parent.name):
                    parent = parent.parent
                lines.append(f"{load.seconds:.3f} {load.name} {parent.name if parent else '-'}\n")
        from cxxrun import _files  # whose own imports take longer than all of this file

        try:
            _files.replace(self._path, "".join(lines[:_MOST]).encode(), own=3)
        except OSError:  # the launcher does without it
            pass


def _is_installed(name: str) -> bool:
    """Whether the module is installed. Modules of the script may change, and this package is always warm; neither counts."""
    origin = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)
    if name.partition(".")[0] in ("cxxrun", "__main__") or not isinstance(origin, str):
        return False
    return ("/site-packages/" in origin or "/dist-packages/" in origin or
            origin.startswith(os.path.dirname(os.__file__) + "/"))


_imports: Optional[Imports] = None


def begin() -> None:
    """Begins to record, in a worker whose environment asks for it. The processes that it starts do not record."""
    global _imports
    path = os.environ.pop("CXXRUN_IMPORTS", None)
    if path and _imports is None:
        _imports = Imports(path)


def settle() -> None:
    if _imports is not None:
        _imports.settle()
