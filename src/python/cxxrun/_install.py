"""cxxrun.install(): what makes the launcher see a PyTorch script."""
import functools
import importlib.abc
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, List, Optional

from cxxrun import _process, _stacks, _watch

_C10D = "torch.distributed.distributed_c10d"
_installed = False
_complained = False


def install() -> bool:
    """Has the launcher see this worker's collectives, so that --hang-timeout names and ends the rank that others wait for,
    with its Python stack in hang.txt. Call it first in the script, before or after torch is imported. Nothing starts
    before init_process_group() has returned. True: seen; False: no cxxrun launcher, which rank 0 says in a line. Calling
    it again changes nothing."""
    global _installed, _complained
    if not os.environ.get("CXXRUN_AGENT"):
        if not _complained:
            _process.complain("install(): CXXRUN_AGENT is not set, so no launcher of cxxrun sees this script: hangs are "
                              "not named; start it with cxxrun")
        _complained = True
        return False
    if not _installed:
        _installed = True
        _stacks.arm()
        if _C10D in sys.modules:
            _wrap(sys.modules[_C10D])
        else:
            sys.meta_path.insert(0, _Finder())
    return True


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps init_process_group when torch is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _C10D:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _wrap(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _wrap(c10d: ModuleType) -> None:
    init = c10d.init_process_group
    watch: List[_watch.Watch] = []

    def begin() -> None:
        global _complained
        if _process.has_elastic():  # libcxxrun shows what this process does
            return
        page = _process.page()
        if page is None:
            if not _complained:
                _process.complain("install(): hangs are not named: " + _process.why_not())
            _complained = True
            return
        if not watch:
            watch.append(_watch.Watch(page, c10d))
        watch[0].begin()

    @functools.wraps(init)
    def init_process_group(*arguments: Any, **named: Any) -> Any:
        result = init(*arguments, **named)
        begin()
        return result

    _put_in_place(init, init_process_group)
    if sys.modules["torch"].__version__.startswith("1."):
        _note_groups(c10d, watch)
    else:  # whose numbers do not count these
        for name in ("send", "recv", "recv_anysource"):
            _note_calls(c10d.ProcessGroup, name, watch)
    if c10d.is_initialized():
        begin()


def _put_in_place(old: Any, new: Any) -> None:
    """Wherever torch.distributed has it by name: device_mesh, for one, has taken it when it was imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and vars(module).get(old.__name__) is old:
            setattr(module, old.__name__, new)


def _note_groups(c10d: ModuleType, watch: List[_watch.Watch]) -> None:
    """A group's number begins anywhere in PyTorch 1."""
    make = c10d.new_group

    @functools.wraps(make)
    def new_group(*arguments: Any, **named: Any) -> Any:
        group = make(*arguments, **named)
        if watch:
            watch[0].begin_group(group)
        return group

    _put_in_place(make, new_group)


def _note_calls(kind: Any, name: str, watch: List[_watch.Watch]) -> None:
    method: Optional[Callable[..., Any]] = getattr(kind, name, None)
    if method is None:
        return

    @functools.wraps(method)
    def call(group: Any, *arguments: Any, **named: Any) -> Any:
        if watch:
            watch[0].between_two(group)
        return method(group, *arguments, **named)

    setattr(kind, name, call)
