"""cxxrun.install(): what makes the launcher see a PyTorch script."""
import faulthandler
import functools
import importlib.util
import os
import signal
import sys
from types import ModuleType
from typing import Any, Callable, List, Optional

from cxxrun import _flight, _imports, _late, _process, _watch

_C10D = "torch.distributed.distributed_c10d"
_installed = False
_complained = False
_says = False
SIGNAL = int(signal.SIGRTMIN) + 13
_armed: Optional[int] = None  # the descriptor of the stacks: faulthandler keeps its number, not the file


def install(says: bool = True) -> bool:
    """Shows this worker's collectives to the launcher, so that --hang-timeout can name and end the rank that others wait for,
    with its Python stack in hang.txt. Call it anywhere in the script, before or after torch is imported; the launcher's
    --watch calls it by itself where it can. Nothing starts until the script has a process group. Returns False if there is
    no cxxrun launcher; rank 0 says so in one line, unless `says` is False. Calling it again has no effect."""
    global _installed, _says
    _says = _says or says
    _imports.begin()
    if not os.environ.get("CXXRUN_AGENT"):
        _complain("CXXRUN_AGENT is not set, so no launcher of cxxrun sees this script: hangs are not named; start it with "
                  "cxxrun")
        return False
    if not _installed:
        _installed = True
        arm()
        if _C10D in sys.modules:
            _join(sys.modules[_C10D])
        else:
            sys.meta_path.insert(0, _Finder())
    return True


def arm() -> None:
    """Arms faulthandler, so that the launcher can get the Python stacks of this process (launcher/hangs/python_stack.hpp): once
    in a process, and not if the program uses the signal itself.

    On the signal, the stacks are written to a memfd whose name holds its number. C code does that: it needs neither the
    interpreter's lock nor a debugger. Programs that this process executes do not inherit the descriptor."""
    global _armed
    _armed = _armed or getattr(sys.modules.get("_cxxrun_bootstrap"), "stacks", None)
    if _armed is None and signal.getsignal(SIGNAL) == signal.SIG_DFL:
        _armed = os.memfd_create(f"cxxrun-stacks-{SIGNAL}", os.MFD_CLOEXEC)
        faulthandler.register(SIGNAL, file=_armed, all_threads=True)


def armed() -> Optional[int]:
    """Returns the descriptor of the file with the stacks, or None."""
    return _armed


def _complain(text: str) -> None:
    global _complained
    if _says and not _complained:
        _complained = True
        _process.complain("install(): " + text)


class _Finder:  # not importlib.abc.MetaPathFinder: importing that takes longer than all of this package
    """Waits until torch.distributed is imported."""

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
            _join(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _join(c10d: ModuleType) -> None:
    """Watches every default group of this process, even if other code has wrapped or replaced the functions that make one."""
    watch: List[_watch.Watch] = []
    _flight.turn_on(sys.modules["torch"].__version__)

    def begin(group: Any) -> None:
        if not hasattr(group, "rank") or _process.has_elastic():  # libcxxrun itself shows its collectives
            return
        if not _is_the_workers(group):
            return _complain("hangs are not named: the script's default group has other ranks than the launcher's: "
                             f"{group.rank()} of {group.size()} is rank {os.environ.get('RANK')} of "
                             f"{os.environ.get('WORLD_SIZE')}")
        page = _process.page(gives_way=not _says)
        if page is None:
            return _complain("hangs are not named: " + _process.why_not())
        if not watch:
            watch.append(_watch.Watch(page, c10d))
            parallel = getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
            if parallel is not None:
                _note(parallel, "__init__", after=_late.add)
            _late.count_updates(sys.modules.get("torch.optim.optimizer"), page)
            _late.time_loader(sys.modules.get("torch.utils.data.dataloader"), page)
        watch[0].begin()

    if sys.modules["torch"].__version__.startswith("1."):
        # The sequence number of a group may start anywhere, but starts alike on all ranks.
        def numbered(group: Any) -> None:
            if group is _watch.default_group(c10d):
                begin(group)
            elif watch:
                watch[0].begin_group(group)

        _note(c10d.ProcessGroup, "_set_sequence_number_for_group", after=numbered)
    else:
        def between_two(group: Any, *_: Any, **__: Any) -> None:
            if watch:
                watch[0].between_two(group)

        _note(c10d, "_update_default_pg", after=begin)
        for name in ("send", "recv", "recv_anysource"):  # not counted by the sequence numbers
            _note(c10d.ProcessGroup, name, before=between_two)
    if c10d.is_initialized():
        begin(_watch.default_group(c10d))


def _is_the_workers(group: Any) -> bool:
    """Whether the group has the ranks that the launcher gave: only those can be compared."""
    return [str(group.rank()), str(group.size())] == [os.environ.get("RANK"), os.environ.get("WORLD_SIZE")]


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _note(owner: Any, name: str, before: Callable[..., None] = _nothing, after: Callable[..., None] = _nothing) -> None:
    function: Optional[Callable[..., Any]] = getattr(owner, name, None)
    if function is None:
        return

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        before(*arguments, **named)
        result = function(*arguments, **named)
        after(*arguments, **named)
        return result

    setattr(owner, name, call)
