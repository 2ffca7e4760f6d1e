"""Who carries torch's collectives: the Communicator of the process, and the groups split from it."""
import queue
import threading
from typing import Any, Callable, List, Optional

import torch
from torch._C._distributed_c10d import Work, _create_work_from_future

from cxxrun import _lib


class Carrier:
    """A failure is kept as `failure`, since torch's reducer turns it into a RuntimeError of its own."""

    def __init__(self) -> None:
        self.comm = _lib.Communicator.init(survive=True)
        self.facts = self.comm.facts()
        self.failure: Optional[_lib.PeerFailure] = None
        self.agree: Optional[Callable[[], None]] = None  # with the other ranks of the node, whether a call failed
        self._groups: List[_lib.Communicator] = []
        self._begun: Any = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._complete, name="cxxrun", daemon=True)
        self._thread.start()

    def note(self, failure: _lib.PeerFailure) -> _lib.PeerFailure:
        self.failure = self.failure or failure
        return self.failure

    def start(self, begin: Callable[[], _lib.Work], result: Any) -> Work:
        """torch's Work of ours; its future has `result`, or raises what the call failed with. A PeerFailure is never
        raised here: torch's reducer would be in the middle of a backward pass."""
        future = torch.futures.Future()
        checked = future.then(_value_of)
        try:
            if self.agree is None:
                self._begun.put((begin(), future, result))
            else:
                self.run(begin)
                future.set_result(result)
        except _lib.PeerFailure as failure:
            future.set_result(self.note(failure))
        return _create_work_from_future(checked)

    def run(self, begin: Callable[[], _lib.Work]) -> None:
        """Blocks until it is done."""
        self.together(lambda: begin().wait())

    def together(self, call: Callable[[], Any]) -> Any:
        """What call() returns, after all ranks of a node that fails or goes on as a whole have made it."""
        result = None
        try:
            result = call()
        except _lib.PeerFailure as failure:
            self.note(failure)
            if self.agree is None:
                raise
        if self.agree is not None:
            self.agree()
        return result

    def split(self, color: int, key: int) -> Optional[_lib.Communicator]:
        """A group of the ranks that give the same color, in the order of their keys; None for a negative one. Every rank
        calls it."""
        group = self.comm.split(color, key)
        if group is not None:
            self._groups.append(group)
        return group

    def rebuild(self) -> None:
        """After a failure: meets the next world. Nothing of the one before is under way then."""
        self.comm.rebuild()
        self._settle()
        self.facts = self.comm.facts()
        self.failure = None

    def close(self) -> None:
        self._settle()
        self._begun.put(None)
        self._thread.join()
        self.comm.free()

    def _settle(self) -> None:
        settled = threading.Event()
        self._begun.put(settled)
        settled.wait()
        while self._groups:
            self._groups.pop().free()

    def _complete(self) -> None:
        while True:
            begun = self._begun.get()
            if begun is None:
                return
            if isinstance(begun, threading.Event):
                begun.set()
            else:
                self._finish(*begun)
            del begun  # or it would keep its tensors until the next one comes

    def _finish(self, work: _lib.Work, future: Any, result: Any) -> None:
        try:
            work.wait()
        except Exception as failure:  # as a value: Future.set_exception works from Python in some releases only
            if isinstance(failure, _lib.PeerFailure):
                self.note(failure)
            result = failure
        future.set_result(result)


def _value_of(future: Any) -> Any:
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


def done(result: Any) -> Work:
    """Of a call that has blocked."""
    future = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future)
