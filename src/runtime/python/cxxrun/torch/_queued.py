"""Calls that the device carries out. The host queues them and runs ahead of it, and what they give may yet be ended by the
death of a peer: then the stream goes on with garbage. commit() says whether that has happened."""
import collections
import threading
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Union

import torch
from torch._C._distributed_c10d import Work

from cxxrun import _lib

_LOOKS = 8  # so many calls are kept until somebody looks which are done


class Queued(Work):
    """torch's Work of such a call. Its future never tells of a failure, because torch's reducer would be in the middle of a
    backward pass; wait() tells of one that is known, and commit() of all."""

    def __init__(self, queue: "Queue", its: Union[_lib.Work, _lib.PeerFailure], result: Any,
                 tensors: List[torch.Tensor]) -> None:
        """`its`: a PeerFailure where it could not even be begun."""
        super().__init__()
        self._queue, self._result, self._tensors = queue, result, tensors
        self.its, self._failure = (None, its) if isinstance(its, _lib.PeerFailure) else (its, None)
        self._future: Any = None

    def wait(self, timeout: timedelta = timedelta()) -> bool:
        """The current stream waits, and the host only where a time is given."""
        if self.its is None:
            raise self._failure
        if timeout > timedelta() and not self.its.is_done(int(timeout.total_seconds() * 1000)):
            raise RuntimeError(f"cxxrun: the call was not done within {timeout.total_seconds():g} s")
        try:
            self._queue.gpu.let_wait(self.its)
        except _lib.PeerFailure as failure:
            raise self._queue.note(failure) from None
        return True

    def get_future(self) -> Any:
        if self._future is None:
            self._future = self._queue.gpu.future(self._result, self._let_wait)
        return self._future

    def _let_wait(self, stream: Any) -> None:
        if self.its is not None:
            try:
                self._queue.gpu.let_wait(self.its, stream)
            except _lib.PeerFailure as failure:
                self._queue.note(failure)

    def let_go(self) -> None:
        """Of what was kept for the call; this is kept for longer where C++ does not keep it."""
        self._tensors = []
        if self.its is not None and not self.its.is_done():
            self.its.forget()

    def result(self) -> Any:
        return self._result

    def is_completed(self) -> bool:
        return self.its is None or self.its.is_done()

    def is_success(self) -> bool:
        return self.its is not None and self.its.is_done() and self.its.error is None


class Queue:
    def __init__(self, gpu: Any, note: Callable[[_lib.PeerFailure], _lib.PeerFailure]) -> None:
        self.gpu, self.note = gpu, note
        self._kept: Deque[Queued] = collections.deque()  # with their tensors, until they are known to be done
        self._newest: Dict[_lib.Communicator, _lib.Work] = {}  # that nobody has committed
        self._lock = threading.Lock()
        self.calls = 0

    def start(self, comm: _lib.Communicator, begin: Callable[[int], _lib.Work], result: Any,
              tensors: List[torch.Tensor]) -> Queued:
        """`begin` is given a stream. Never raises a PeerFailure. NCCL may hang where calls of two communicators are under
        way at once, unless all ranks have them in one order: so each begins when those of all others are done."""
        with self._lock:
            its: Union[_lib.Work, _lib.PeerFailure]
            try:
                others = [each for of, each in self._newest.items() if of is not comm and not each.has_ended]
                its = self.gpu.begin(begin, tensors, others)
                self._newest[comm] = its
                self.calls += 1
            except _lib.PeerFailure as failure:
                its = self.note(failure)
            queued = Queued(self, its, result, tensors)
            self._kept.append(queued)
            while len(self._kept) > _LOOKS and self._kept[0].is_completed():
                self._kept.popleft().let_go()
        return queued

    def newest(self) -> List[_lib.Work]:
        """Of each communicator."""
        with self._lock:
            return list(self._newest.values())

    def commit(self) -> None:
        """Waits for all; raises a PeerFailure where one has failed. What an abort has ended is not done for the library."""
        with self._lock:
            newest, self._newest = list(self._newest.values()), {}
        for its in newest:  # those of one communicator are done in their order
            try:
                its.wait()
            except _lib.PeerFailure as failure:
                raise self.note(failure) from None
        self._let_go()

    def settle(self) -> None:
        """After a failure. A kernel behind one that was ended may still write to what is let go here."""
        self.gpu.settle()
        with self._lock:
            self._newest = {}
        self._let_go()

    def _let_go(self) -> None:
        while self._kept:
            self._kept.popleft().let_go()
