"""cxxrun.checkpoint_wanted(): the same answer on all ranks in the same step."""
import signal
import sys
import threading
import weakref
from typing import Any, Callable, Optional, Tuple

from cxxrun import _page, _process
from cxxrun._errors import RefusedError

NOTHING, SAVE, SAVE_AND_END = range(3)


class Requests:
    """The requests that one rank has received, and the answer that all ranks agree on: src/runtime/comm/requests.hpp. Pure."""

    def __init__(self) -> None:
        self.last = NOTHING
        self._answered = 0
        self._ended = False

    def mine(self, asked: int, ends: bool) -> int:
        """Returns the requests to this rank that are not answered yet. `asked`: requests so far; `ends`: whether it was told to
        end."""
        if ends and not self._ended and self.last != SAVE_AND_END:
            return SAVE_AND_END
        return SAVE if asked != self._answered and self.last == NOTHING else NOTHING

    def answer(self, agreed: int, asked: int, ends: bool) -> int:
        """Handles one call: `agreed` is its answer on all ranks. Returns what this rank contributes to the next one."""
        if self.last != NOTHING:
            self._answered = asked
            self._ended = self._ended or self.last == SAVE_AND_END
        self.last = agreed
        return self.mine(asked, ends)


class Saves:
    """Finds out when a checkpoint is complete on all ranks. A rank writes its own between two calls of checkpoint_wanted(), so
    all have written theirs when all have made the second one. Pure; instants of CLOCK_BOOTTIME, 0: none."""

    def __init__(self) -> None:
        self._called = self._written = self._passed = 0

    def written(self) -> None:
        """This rank writes a checkpoint before the next call."""
        self._written = self._called

    def call(self, now: int) -> int:
        """The next call; all ranks have made the one before it. Returns the instant whose state is in the checkpoint that has
        become complete by that."""
        complete, self._passed = self._passed, self._written
        self._called, self._written = now, 0
        return complete


def device_of(group: Any, backend: str) -> Any:
    """Returns a device whose tensors the group can carry. PyTorch 2 knows which devices each group serves: the name of the
    backend may be "cuda:nccl", or "undefined" if the script named none."""
    import torch

    kinds = [device.type for device in getattr(group, "_device_types", [])] or ["cuda" if backend == "nccl" else "cpu"]
    return "cpu" if "cpu" in kinds else torch.device(kinds[0], getattr(torch, kinds[0]).current_device())


def _nothing() -> None:
    pass


class Agreement:
    """A maximum over the default group of the script. Each call starts one, and the next call reads it."""

    def __init__(self) -> None:
        self._work: Any = None
        # One tensor for all calls: if a gloo thread dropped the last reference, it would need Python's lock, which
        # destroy_process_group() of PyTorch 2.6 holds while it waits for them.
        self._tensor: Any = None
        # Weak, so that the group ends when the script ends it, and not with the interpreter while gloo's threads still run.
        self._group: Callable[[], Any] = _nothing

    def ready(self) -> Optional[int]:
        """Returns the maximum that the previous call started, or None if it started none in this group."""
        dist = sys.modules.get("torch.distributed")
        group = dist.group.WORLD if dist is not None and dist.is_available() and dist.is_initialized() else None
        if group is not self._group():
            self._group, self._work = _nothing if group is None else weakref.ref(group), None
            self._tensor = None
        if self._work is None:
            return None
        self._work.wait()
        return int(self._tensor.item())

    def is_alone(self) -> bool:
        group = self._group()
        return group is None or group.size() == 1

    def begin(self, mine: int) -> None:
        import torch
        import torch.distributed as dist

        if self._tensor is None:
            self._tensor = torch.empty(1, dtype=torch.int32, device=device_of(self._group(), dist.get_backend()))
        self._tensor.fill_(mine)
        self._work = dist.all_reduce(self._tensor, op=dist.ReduceOp.MAX, async_op=True)


_requests = Requests()
saves = Saves()
_agreement = Agreement()
_told_to_end = False
_listens = False


def checkpoint_wanted() -> bool:
    """Whether a checkpoint is wanted: because of --checkpoint-signal, or because the job has been told to end (SIGTERM,
    preemption, time limit). Collective: every rank calls it once after each step, from its main thread. All ranks get the
    same answer in the same step, although the requests reach them at different moments. The answer lags by one call.
    After the first call SIGTERM no longer ends this process, unless the script handles it itself.

    If it is true, save before the next call: with that call of all ranks the checkpoint counts as complete, and cxxrunctl
    shows how old it is."""
    wanted = agree()
    if wanted:
        saves.written()
    return wanted


def agree() -> bool:
    """checkpoint_wanted() for a caller that may save later, and calls saves.written() then."""
    if _process.has_elastic():
        raise RefusedError("cxxrun.checkpoint_wanted(): this process has an Elastic: call its checkpoint_wanted()")
    listen()
    page = _process.page()
    asked, ends = _asked(page)
    agreed = _agreement.ready()
    if _agreement.is_alone():
        agreed = _requests.mine(asked, ends)
    complete = saves.call(_page.now())
    if page is not None and complete and agreed is not None:
        page.saved(complete)
    mine = _requests.answer(NOTHING if agreed is None else agreed, asked, ends)
    if not _agreement.is_alone():
        _agreement.begin(mine)
    return _requests.last != NOTHING


def job_ends() -> bool:
    """Whether the last checkpoint_wanted() was true because the job has been told to end; the same on all ranks. Save, then
    leave the loop."""
    if _process.has_elastic():
        raise RefusedError("cxxrun.job_ends(): this process has an Elastic, whose running() is false when the job ends")
    return _requests.last == SAVE_AND_END


def _asked(page: Optional[_page.Page]) -> Tuple[int, bool]:
    if page is None:
        return 0, _told_to_end
    return page.half(_page.CHECKPOINTS), _told_to_end or page.half(_page.ENDS) != 0


def listen(instead: bool = False) -> None:
    """Installs a handler of SIGTERM if the script has none; with `instead`, in place of the one that it has."""
    global _listens
    if (_listens and not instead) or threading.current_thread() is not threading.main_thread():
        return
    _listens = True
    if instead or signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        _process.handle_sigterm(note_end)


def note_end(*_: Any) -> None:
    """The handler of SIGTERM."""
    global _told_to_end
    _told_to_end = True
