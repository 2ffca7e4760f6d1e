"""Carries torch's collectives over the Communicator of the process and the groups that are split from it."""
import atexit
import collections
import os
import queue
import threading
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Optional, Union

import torch
from torch._C._distributed_c10d import Work, _create_work_from_future

from cxxrun import _lib
from cxxrun._errors import RefusedError
from cxxrun.torch import _device
from cxxrun.torch._buckets import Buckets, make_buckets


class Begun(Work):
    """torch's Work for a call in the background. torch's own Work for a future does not raise in wait()."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._done, self._result = threading.Event(), None
        self._future = torch.futures.Future(**_device.devices_of(result))
        self._checked = self._future.then(_value_of)

    def finish(self, result: Any) -> None:
        """A failure is passed as a value: Future.set_exception works from Python in some releases only."""
        self._result = result
        self._done.set()
        self._future.set_result(result)

    def await_end(self) -> None:
        while not self._done.wait(_SLICE):  # so that Ctrl-C is seen
            pass

    def wait(self, timeout: timedelta = timedelta()) -> bool:
        """As in torch: waits without a limit if `timeout` is zero. A call that takes longer than `timeout` goes on."""
        if timeout <= timedelta():
            self.await_end()
        elif not self._done.wait(timeout.total_seconds()):
            raise RuntimeError(f"cxxrun: the call was not done within {timeout.total_seconds():g} s")
        if isinstance(self._result, Exception):
            raise self._result
        return True

    def get_future(self) -> Any:
        return self._checked

    def result(self) -> Any:
        return self._result

    def is_completed(self) -> bool:
        return self._done.is_set()

    def is_success(self) -> bool:
        return self._done.is_set() and not isinstance(self._result, Exception)


_SLICE = 0.1  # seconds
_LOOKS = 8  # how many calls are queued on the device between two looks at which are done
_AT_THE_END = 5.0  # seconds for callbacks of futures
# The C++ of 1.13 and 2.6 keeps only the C++ part of a Work that is made in Python; that of 2.11 keeps all of it. So these are
# kept here. No Work is waited for after this many others, nor after the step that follows its own.
_KEPT = 1024 if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11) else 0


class Queued(Work):
    """torch's Work of a call that the device carries out. Its future never reports a failure, because torch's reducer would be in the middle of a
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
    """Calls that the device carries out. The host queues them and runs ahead of the device. The death of a peer may abort them
    later, and then the stream goes on with garbage. commit() tells whether that has happened."""

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


class Carrier:
    """Keeps the first failure of a world, which all calls of that world raise. torch's reducer turns it into a RuntimeError,
    which is recognized by its text."""

    def __init__(self, gpu: _device.Host, shrink: bool = False) -> None:
        self.gpu = gpu
        self.comm = _lib.Communicator.init(survive=True, on_device=self.gpu.on_device, shrink=shrink)
        self.facts = self.comm.facts()
        if self.gpu.on_device and not self.facts.on_device:
            raise RefusedError(f'Elastic: device="cuda", and CXXRUN_BACKEND is "{os.environ.get("CXXRUN_BACKEND", "")}"')
        self.gpu.choose(self.facts.local_rank)
        self.in_step = False
        self.failure: Optional[_lib.PeerFailure] = None
        self.carries = True  # torch's collectives; False if torch has groups of its own
        self.agree: Optional[Callable[[], None]] = None  # agrees with the other ranks of the node on whether a call failed
        self.before_call: Callable[[], None] = lambda: None  # called before a call of the script; may refuse it
        self._groups: List[_lib.Communicator] = []
        self._buckets: Optional[Buckets] = None  # of the current world
        self._begun: Any = queue.SimpleQueue()
        self.queue = Queue(self.gpu, self.note)
        self._kept: Deque[Work] = collections.deque(maxlen=_KEPT)
        self._kept_before: List[Work] = []  # those of the previous step
        self._finishing = threading.Lock()
        atexit.register(self._stop_finishing)
        self._thread = threading.Thread(target=self._complete, name="cxxrun", daemon=True)
        self._thread.start()

    def note(self, failure: _lib.PeerFailure) -> _lib.PeerFailure:
        if failure.generation < self.facts.generation:  # a call of an earlier world, waited for too late
            return failure
        self.failure = self.failure or failure
        return self.failure

    def start(self, begin: Callable[[], _lib.Work], result: Any) -> Work:
        """Begins a call in the background. The Work's wait() and its future raise the error of the call. A PeerFailure is
        never raised here, because torch's reducer would be in the middle of a backward pass."""
        self._may_call()
        if self.agree is not None:
            return self.start_blocking(lambda: self.run(begin), result)
        begun = Begun(result)
        self._kept.append(begun)
        try:
            self._begun.put((begin(), begun, result))
        except _lib.PeerFailure as failure:
            begun.finish(self.note(failure))
        return begun

    def start_blocking(self, call: Callable[[], None], result: Any) -> Work:
        """Like start(), for a call that is done when this returns."""
        begun = Begun(result)
        self._kept.append(begun)
        try:
            call()
            begun.finish(result)
        except _lib.PeerFailure as failure:
            begun.finish(self.note(failure))
        return begun

    def start_in_backward(self, begin: Callable[[], _lib.Work], result: Any) -> Work:
        """For calls of torch's reducer, which waits in C++, where Ctrl-C is not seen. The callback added here runs after those
        of the calls, so that it finds them done."""
        begun = self.start(begin, result)
        torch.autograd.Variable._execution_engine.queue_callback(begun.await_end)
        return begun

    def start_on_device(self, comm: _lib.Communicator, begin: Callable[[int], _lib.Work], result: Any,
                        tensors: List[torch.Tensor]) -> Work:
        """Begins a call on the device; `begin` is given a stream. In a step the host goes on, and commit() raises the error of
        the call. Outside of steps there is no commit(), so the call is done when this returns."""
        self._may_call()
        queued = self.queue.start(comm, begin, result, tensors)
        self._kept.append(queued)
        if not self.in_step:
            self.queue.commit()
        return queued

    def commit(self) -> None:
        """Called before results of this step's calls get into the state, and at the end of the step: waits for the calls on
        the device, and raises their failure. The caller of a host call waits for it by itself."""
        if self.gpu.on_device:
            self.together(self.queue.commit)
            if self.failure is not None:
                raise self.failure

    def settle(self) -> None:
        """Called after a failure, before anything is taken back: waits until nothing queued can write any more."""
        self.queue.settle()

    def run(self, begin: Callable[[], _lib.Work]) -> None:
        """Begins a call and blocks until it is done."""
        self._may_call()
        self.together(lambda: begin().wait())

    def together(self, call: Callable[[], Any]) -> Any:
        """Returns what call() returns. If the node fails or goes on as a whole, all of its ranks have made the call by then."""
        result = None
        try:
            result = call()
        except _lib.PeerFailure as failure:
            self.note(failure)
            if self.agree is None:
                raise self.failure from None
        if self.agree is not None:
            self.agree()
        return result

    def split(self, color: int, key: int) -> Optional[_lib.Communicator]:
        """Returns a group of the ranks that give the same color, ordered by key, or None for a negative color. Collective."""
        self._may_call()
        self.commit()
        self.gpu.make_room()
        group = self.comm.split(color, key)
        if group is not None:
            self._groups.append(group)
        return group

    def _may_call(self) -> None:
        if threading.current_thread() is self._thread:  # it would wait for itself, and ranks would differ in the order of calls
            raise RefusedError("cxxrun.torch: a call that begins in then() of another one's future, as in powerSGD_hook, "
                               "is not carried by the group that survives; docs/use/elastic_pytorch.md says what is")
        self.before_call()

    def end_step(self) -> None:
        self._kept_before = list(self._kept)
        self._kept.clear()

    def share_buckets(self, size: int) -> None:
        """Makes room for `size` bytes of DDP's buckets. Collective."""
        if self.carries and self.facts.world_size > 1 and self.agree is None:
            self._buckets = self.together(lambda: make_buckets(self.comm, size, self.facts))

    def place(self, comm: _lib.Communicator, bucket: torch.Tensor) -> int:
        """Returns the address of a bucket for a call of that communicator."""
        if self._buckets is None or comm is not self.comm:
            return bucket.data_ptr()
        return self._buckets.place(bucket)

    def rebuild(self) -> None:
        """Meets the next world after a failure. No call of the old world is under way then."""
        self.gpu.make_room()
        self.comm.rebuild()
        self._settle()
        self.facts = self.comm.facts()
        self.failure = None

    def close(self) -> None:
        self._settle()
        self._begun.put(None)
        self._thread.join()
        atexit.unregister(self._stop_finishing)
        self.comm.free()

    def _settle(self) -> None:
        settled = threading.Event()
        self._begun.put(settled)
        settled.wait()
        self.settle()
        self._kept.clear()
        self._kept_before.clear()
        self._buckets = None
        while self._groups:
            self._groups.pop().free()

    def _complete(self) -> None:
        while True:
            begun = self._begun.get()
            if begun is None:
                return
            if isinstance(begun, threading.Event):
                begun.set()
                continue
            result = self._result_of(*begun)
            with self._finishing:
                begun[1].finish(result)
                begun = result = None  # or their tensors would be kept until the next call

    def _result_of(self, work: _lib.Work, _: Begun, result: Any) -> Any:
        try:
            work.wait()
        except Exception as failure:
            return self.note(failure) if isinstance(failure, _lib.PeerFailure) else failure
        return result

    def _stop_finishing(self) -> None:
        """Called when the script ends, perhaps by an exception. If the interpreter ended this thread inside torch's C++, the
        process would abort; so the thread has to return to Python first."""
        self._finishing.acquire(timeout=_AT_THE_END)


def _value_of(future: Any) -> Any:
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


def done(result: Any) -> Work:
    """Returns the Work of a call that has blocked, or that the current stream waits for."""
    future = torch.futures.Future(**_device.devices_of(result))
    future.set_result(result)
    return _create_work_from_future(future)
