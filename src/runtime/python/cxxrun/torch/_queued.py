"""Calls that the device carries out. The host queues them and runs ahead of the device. The death of a peer may abort them
later, and then the stream goes on with garbage. commit() tells whether that has happened."""
import collections
import threading
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Union

import torch
from torch._C._distributed_c10d import Work

from cxxrun import _lib

_LOOKS = 8  # how many calls are queued between two looks at which are done


class Queued(Work):
    """torch's Work of such a call. Its future never reports a failure, because torch's reducer would be in the middle of a
    backward pass. wait() raises a failure that is known already, commit() any failure."""

    def __init__(self, queue: "Queue", its: Union[_lib.Work, _lib.PeerFailure], result: Any,
                 tensors: List[torch.Tensor]) -> None:
        """`its`: the call, or a PeerFailure if it could not be begun."""
        super().__init__()
        self._queue, self._result, self._tensors = queue, result, tensors
        self.its, self._failure = (None, its) if isinstance(its, _lib.PeerFailure) else (its, None)
        self._future: Any = None

    def wait(self, timeout: timedelta = timedelta()) -> bool:
        """Makes the current stream wait. The host waits only if a timeout is given."""
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
        """Releases what was kept for the call. This object lives longer, where C++ does not keep it."""
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
        self._newest: Dict[_lib.Communicator, _lib.Work] = {}  # not committed yet
        self._lock = threading.Lock()
        self.calls = 0

    def start(self, comm: _lib.Communicator, begin: Callable[[int], _lib.Work], result: Any,
              tensors: List[torch.Tensor]) -> Queued:
        """`begin` is given a stream. Never raises a PeerFailure. NCCL may hang if calls of two communicators run at once in
        different orders on different ranks, so a call waits on the device for those of all other communicators."""
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
        """Returns the newest call of each communicator."""
        with self._lock:
            return list(self._newest.values())

    def commit(self) -> None:
        """Waits for all calls. Raises a PeerFailure if one has failed; the library does not take an aborted call for done."""
        with self._lock:
            newest, self._newest = list(self._newest.values()), {}
        for its in newest:  # calls of one communicator finish in order
            try:
                its.wait()
            except _lib.PeerFailure as failure:
                raise self.note(failure) from None
        self._let_go()

    def settle(self) -> None:
        """Called after a failure: waits for the device before it releases tensors, because queued kernels may still write to
        them."""
        self.gpu.settle()
        with self._lock:
            self._newest = {}
        self._let_go()

    def _let_go(self) -> None:
        while self._kept:
            self._kept.popleft().let_go()
