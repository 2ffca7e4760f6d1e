"""torch's own groups, with PyTorch 2.14. The default group gets new members in each generation. libcxxrun tells who they are,
shares the state, and learns of a death, which ends what torch waits for."""
import ctypes
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

import torch.distributed as dist

from cxxrun import _lib
from cxxrun.torch import _world
from cxxrun.torch._carrier import Carrier

_c10d = dist.distributed_c10d
_HEARS = 20.0  # seconds after an error of torch's in which the launcher may say whose fault it is. A lost node takes 5
_OF_GLOO = "gloo/", "pair closure"  # occurs in the text of gloo's errors
_LOOK_MS = 1000
_HANDLE = 256  # bytes
_LONG = timedelta(minutes=5)
_PAUSES = 0.0005, 0.02  # seconds between two looks at the store: the first pause, and the longest
_PASSED_ON = "add check compare_set delete_key num_keys".split()
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class World:
    """Has the functions of cxxrun.torch._world as methods, and is used in its place."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._connections = Connections()
        self._store = Store(self._go_on, self._connections.note)
        self._carrier: Any = None
        self._lock = threading.Lock()
        self._generation: Optional[int] = None  # the generation that is being watched
        self._over = threading.Event()
        self._connected = False  # at least once; another process that has not connected may have the same handle
        self._new_group = _c10d._new_group_with_tag
        _c10d._new_group_with_tag = self._make_group

    def install(self, carrier: Carrier) -> None:
        self._carrier, carrier.carries = carrier, False
        facts = carrier.facts
        self._watch(facts)
        try:
            self._store.renew(facts)
            if not self._connected:
                self._init(facts)
            self._connect(facts)
        except RuntimeError as error:
            self._connected = False
            if not self.is_of_a_peer(error):
                raise
            self._init(facts)  # so that get_rank() answers

    def leave(self) -> None:
        """Ends this rank's connections: others may be waiting for it, and it makes no more calls in this generation."""
        with self._lock:
            self._generation = None
        self._connections.end()
        self._connections.forget()

    def remove(self) -> None:
        _c10d._new_group_with_tag = self._new_group
        self.leave()
        _world.remove()

    def is_of_a_peer(self, error: RuntimeError) -> bool:
        """Whether a peer's failure caused this error of a torch call. gloo reports broken connections, not which rank died."""
        if not isinstance(error, (_lib.PeerFailure, dist.DistError)) and all(each not in str(error) for each in _OF_GLOO):
            return False
        self._connections.end()
        if self._carrier.failure is None and self._carrier.facts.can_rebuild and not self._over.wait(_HEARS):
            with suppress(_lib.PeerFailure):  # a rank that does not come is the one that torch waited for
                self._carrier.together(lambda: self._carrier.comm.start_barrier().wait())  # also after an update
        return self._carrier.failure is not None

    # ---- one generation

    def _make_group(self, *arguments: Any, **named: Any) -> Any:
        """Runs on its own thread: gloo tries to reach a dead rank for as long as a collective may take."""
        return _lib.Aside(lambda: self._new_group(*arguments, **named)).wait(self._go_on)

    def _init(self, facts: _lib.Facts) -> None:
        _world.remove()
        dist.init_process_group(self._backend, store=self._store, rank=facts.rank, world_size=facts.world_size,
                                timeout=_longest(), enable_reconfigure=True)

    def _connect(self, facts: _lib.Facts) -> None:
        """Collective. Groups of the script belong to one generation, so the counter of their names starts again on all ranks."""
        for group in [each for each in _c10d._world.pg_map if each is not dist.group.WORLD]:
            dist.destroy_process_group(group)
        _c10d._world.group_count = 1
        handles = self._gather(dist._get_reconfigure_handle(), facts)
        done = _lib.Aside(lambda: dist._reconfigure(uuid=facts.generation, handles=handles, timeout=_longest()).wait())
        done.wait(self._go_on)
        self._connected = True
        _c10d._world.pg_group_ranks[dist.group.WORLD] = {rank: rank for rank in range(facts.world_size)}

    def _gather(self, text: str, facts: _lib.Facts) -> List[str]:
        mine = ctypes.create_string_buffer(text.encode(), _HANDLE)
        all_of_them = ctypes.create_string_buffer(_HANDLE * facts.world_size)
        self._carrier.run(lambda: self._carrier.comm.start_all_gather(
            ctypes.addressof(mine), ctypes.addressof(all_of_them), _HANDLE, _lib.TYPES["uint8"], (mine, all_of_them)))
        return [all_of_them[at:at + _HANDLE].rstrip(b"\0").decode() for at in range(0, len(all_of_them), _HANDLE)]

    # ---- its end

    def _watch(self, facts: _lib.Facts) -> None:
        self._generation = facts.generation
        self._over.clear()
        if facts.can_rebuild:
            threading.Thread(target=self._hear, args=(facts.generation,), name="cxxrun watch", daemon=True).start()

    def _hear(self, generation: int) -> None:
        failure = None
        while failure is None and self._generation == generation:
            failure = self._carrier.comm.watch(_LOOK_MS)
        with self._lock:
            if failure is not None and self._generation == generation:
                self._carrier.note(failure)
                self._connections.end()
                self._over.set()

    def _go_on(self) -> None:
        if self._over.is_set():
            raise self._carrier.failure


# ---- the store


class Store(dist.Store):
    """The store of a torch group that outlives generations. Each generation has a store of its own, which an agent serves and
    ends. This object forwards requests to that of the current generation.

    `go_on` raises if the generation is over. `told` is called with each value that is set."""

    def __init__(self, go_on: Callable[[], None], told: Callable[[bytes], None]) -> None:
        super().__init__()
        self._go_on, self._told = go_on, told
        self._its: Any = dist.HashStore()

    def renew(self, facts: _lib.Facts) -> None:
        self._its = dist.PrefixStore("cxxrun/torch", _world.store_of(facts, _LONG))

    def set(self, key: str, value: Any) -> None:
        self._told(value if isinstance(value, bytes) else str(value).encode())
        self._its.set(key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return bytes(self._its.get(key))

    def wait(self, keys: List[str], timeout: Optional[timedelta] = None) -> None:
        """Polls, because torch's own wait would block on a rank that has died."""
        until = time.monotonic() + (timeout or _LONG).total_seconds()
        pause, longest = _PAUSES
        while not self._its.check(keys):
            self._go_on()
            if time.monotonic() > until:
                raise dist.DistStoreError(f"cxxrun.torch: nobody has set {', '.join(keys)}")
            time.sleep(pause)
            pause = min(2 * pause, longest)


def _passing_on(name: str) -> Callable[..., Any]:
    return lambda self, *arguments: getattr(self._its, name)(*arguments)


for _name in _PASSED_ON:
    setattr(Store, _name, _passing_on(_name))


# ---- the connections


class Connections:
    """Ends gloo's connections of this process when a peer has failed. A rank that waits in a gloo call for a rank that is alive
    would not learn of the failure otherwise. ProcessGroupGloo.abort() does nothing.

    Gloo tells its peers through the store where it listens. A connection that it has accepted has the port of the listening
    socket. One end of each connection was accepted, so all connections end when every rank ends those that it accepted."""

    def __init__(self) -> None:
        self._places: Set[Tuple[int, int]] = set()

    def note(self, told: bytes) -> None:
        """Takes what gloo tells its peers: it contains the addresses of its listening sockets, in the kernel's format."""
        for its in _sockets():
            place = its.family, its.getsockname()[1]
            if _listens(its) and struct.pack("=H", place[0]) + struct.pack(">H", place[1]) in told:
                self._places.add(place)

    def end(self) -> None:
        for its in _sockets():
            if not _listens(its) and (its.family, its.getsockname()[1]) in self._places:
                with suppress(OSError):  # it has ended already
                    its.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        self._places = set()


def _sockets() -> Iterator[socket.socket]:
    """Yields the IP sockets of this process. Each is a duplicate, so that no other thread can close it and reuse its number."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as its:
                    if its.family in _FAMILIES and its.type == socket.SOCK_STREAM:
                        yield its


def _listens(its: socket.socket) -> bool:
    return bool(its.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _longest() -> timedelta:
    """How long one collective waits for a peer, as with libcxxrun."""
    return timedelta(seconds=float(os.environ.get("CXXRUN_OP_TIMEOUT") or 300))
