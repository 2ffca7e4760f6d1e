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
    """What one rank has been asked for, and what all ranks have agreed to answer: src/runtime/comm/requests.hpp. Pure."""

    def __init__(self) -> None:
        self.last = NOTHING
        self._answered = 0
        self._ended = False

    def mine(self, asked: int, ends: bool) -> int:
        """What this rank has been asked for and nobody has answered. `asked`: requests in its life; `ends`: whether it has
        been told to end."""
        if ends and not self._ended and self.last != SAVE_AND_END:
            return SAVE_AND_END
        return SAVE if asked != self._answered and self.last == NOTHING else NOTHING

    def answer(self, agreed: int, asked: int, ends: bool) -> int:
        """One call: `agreed` is its answer on all ranks. Returns what this rank says for the next one."""
        if self.last != NOTHING:
            self._answered = asked
            self._ended = self._ended or self.last == SAVE_AND_END
        self.last = agreed
        return self.mine(asked, ends)


def device_of(group: Any, backend: str) -> Any:
    """Where a tensor for a call of that group may be. PyTorch 2 knows of each group which devices it serves: the backend's
    name may be "cuda:nccl", or "undefined" where the script has named none."""
    import torch

    kinds = [device.type for device in getattr(group, "_device_types", [])] or ["cuda" if backend == "nccl" else "cpu"]
    return "cpu" if "cpu" in kinds else torch.device(kinds[0], getattr(torch, kinds[0]).current_device())


def _nothing() -> None:
    pass


class Agreement:
    """A maximum over the script's default group that each call begins and the next one reads."""

    def __init__(self) -> None:
        self._work: Any = None
        # One for all calls: if gloo's threads were the last to drop it they would want Python's lock for that, which
        # destroy_process_group() of PyTorch 2.6 holds while it waits for them.
        self._tensor: Any = None
        # Weak: the script ends its group, and not the interpreter, in which gloo's threads still run.
        self._group: Callable[[], Any] = _nothing

    def ready(self) -> Optional[int]:
        """The maximum that was begun in the call before; None: none was, in this group."""
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
_agreement = Agreement()
_told_to_end = False
_listens = False


def checkpoint_wanted() -> bool:
    """Whether a checkpoint has been asked for: by --checkpoint-signal, or because the job has been told to end (SIGTERM,
    preemption, time limit). Collective: every rank calls it once after each step, from its main thread, and all get the
    same answer in the same step, although they are asked at different moments. The answer is what was known one call ago.
    From the first call on SIGTERM no longer ends this process, unless the script handles it itself."""
    if _process.has_elastic():
        raise RefusedError("cxxrun.checkpoint_wanted(): this process has an Elastic: call its checkpoint_wanted()")
    listen()
    asked, ends = _asked()
    agreed = _agreement.ready()
    if _agreement.is_alone():
        agreed = _requests.mine(asked, ends)
    mine = _requests.answer(NOTHING if agreed is None else agreed, asked, ends)
    if not _agreement.is_alone():
        _agreement.begin(mine)
    return _requests.last != NOTHING


def job_ends() -> bool:
    """Whether the last checkpoint_wanted() was true because the job has been told to end, on all ranks alike: save, and
    leave the loop."""
    if _process.has_elastic():
        raise RefusedError("cxxrun.job_ends(): this process has an Elastic, whose running() is false when the job ends")
    return _requests.last == SAVE_AND_END


def _asked() -> Tuple[int, bool]:
    page = _process.page()
    if page is None:
        return 0, _told_to_end
    return page.half(_page.CHECKPOINTS), _told_to_end or page.half(_page.ENDS) != 0


def listen(instead: bool = False) -> None:
    """From now on SIGTERM is noted, where the script has no handler; `instead`: of the one that it has."""
    global _listens
    if (_listens and not instead) or threading.current_thread() is not threading.main_thread():
        return
    _listens = True
    if instead or signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, note_end)


def note_end(*_: Any) -> None:
    """A handler of SIGTERM."""
    global _told_to_end
    _told_to_end = True
