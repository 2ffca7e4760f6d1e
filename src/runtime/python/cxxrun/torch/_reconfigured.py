"""torch's own groups, of PyTorch 2.14, whose default one is given other members in each generation. libcxxrun says who they
are, shares the state, and hears of a death, which ends what torch waits for."""
import ctypes
import os
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any, List, Optional

import torch.distributed as dist

from cxxrun import _lib
from cxxrun.torch import _world
from cxxrun.torch._carrier import Carrier
from cxxrun.torch._connections import Connections
from cxxrun.torch._store import Store

_c10d = dist.distributed_c10d
_HEARS = 20.0  # seconds: that long after an error of torch's the launcher may tell whose it is. A lost node takes 5
_OF_GLOO = "gloo/", "pair closure"  # in the text of its errors
_LOOK_MS = 1000
_HANDLE = 256  # bytes


class World:
    """In the place of cxxrun.torch._world, whose functions its methods are."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._connections = Connections()
        self._store = Store(self._go_on, self._connections.note)
        self._carrier: Any = None
        self._lock = threading.Lock()
        self._generation: Optional[int] = None  # whose end is waited for
        self._over = threading.Event()
        self._connected = False  # at least once: another process that has not may have the same handle
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
            self._init(facts)  # who asks for its rank is told

    def leave(self) -> None:
        """Others may be waiting for this rank, which makes none of the calls of this generation any more."""
        with self._lock:
            self._generation = None
        self._connections.end()
        self._connections.forget()

    def remove(self) -> None:
        _c10d._new_group_with_tag = self._new_group
        self.leave()
        _world.remove()

    def is_of_a_peer(self, error: RuntimeError) -> bool:
        """Whether it comes from torch's calls because a peer has failed. They tell of connections, not of who has died."""
        if not isinstance(error, (_lib.PeerFailure, dist.DistError)) and all(each not in str(error) for each in _OF_GLOO):
            return False
        self._connections.end()
        if self._carrier.failure is None and self._carrier.facts.can_rebuild and not self._over.wait(_HEARS):
            with suppress(_lib.PeerFailure):  # who does not come is the one that torch has waited for
                self._carrier.together(lambda: self._carrier.comm.start_barrier().wait())  # also after an update
        return self._carrier.failure is not None

    # ---- one generation

    def _make_group(self, *arguments: Any, **named: Any) -> Any:
        """Aside: gloo tries to reach a rank that has died for as long as a collective may take."""
        return _lib.Aside(lambda: self._new_group(*arguments, **named)).wait(self._go_on)

    def _init(self, facts: _lib.Facts) -> None:
        _world.remove()
        dist.init_process_group(self._backend, store=self._store, rank=facts.rank, world_size=facts.world_size,
                                timeout=_longest(), enable_reconfigure=True)

    def _connect(self, facts: _lib.Facts) -> None:
        """Collective. Groups that scripts have made are of one generation, and their names are counted on all ranks."""
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


def _longest() -> timedelta:
    """How long one collective waits for a peer, as with libcxxrun."""
    return timedelta(seconds=float(os.environ.get("CXXRUN_OP_TIMEOUT") or 300))
