"""Makes the Communicator's world torch's default process group, and supports new_group() in it."""
import sys
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

from cxxrun import _lib
from cxxrun._errors import RefusedError
from cxxrun.torch._carrier import Carrier
from cxxrun.torch._group import BACKEND, Group, refuse

_c10d = dist.distributed_c10d
_made: Optional[Group] = None  # the group that torch asks for next


def _create(*_: Any, **__: Any) -> Group:
    if _made is None:
        raise RefusedError("cxxrun.torch: the backend cxxrun is made by Elastic()")
    return _made


try:
    dist.Backend.register_backend(BACKEND, _create, devices=["cpu", "cuda"])
except TypeError:  # 1.13
    dist.Backend.register_backend(BACKEND, _create)


def of(backend: Optional[str]) -> Any:
    """Returns the implementation of install(), leave(), remove() and is_of_a_peer() for Elastic(backend=…)."""
    if backend is None:
        return sys.modules[__name__]
    if backend == "nccl":
        raise RefusedError('Elastic: backend="nccl" has not been run on a GPU yet; "gloo" is there')
    if backend != "gloo":
        raise RefusedError(f'Elastic: backend={backend!r}: there is "gloo", and None for the group over libcxxrun')
    if not hasattr(dist, "_reconfigure"):
        raise RefusedError('Elastic: backend="gloo" takes PyTorch 2.14, whose groups can be given other members; '
                           f"this one is {torch.__version__}")
    from cxxrun.torch._reconfigured import World

    return World(backend)


def store_of(facts: _lib.Facts, timeout: timedelta) -> Any:
    """Connects to the store of this generation. The environment of a survivor still names an earlier one."""
    if facts.store_port == 0:  # a world of one has no store
        return dist.HashStore()
    return dist.TCPStore(facts.store_host.decode(), facts.store_port, is_master=False, wait_for_workers=False,
                         timeout=timeout, use_libuv=False)


def install(carrier: Carrier) -> None:
    """Replaces the previous world."""
    global _made
    remove()
    facts = carrier.facts
    _made = Group(carrier, carrier.comm, facts.rank, facts.world_size)
    try:
        dist.init_process_group(BACKEND, store=dist.HashStore(), rank=facts.rank, world_size=facts.world_size)
    finally:
        _made = None


def leave() -> None:
    """Does nothing: libcxxrun tells the other ranks that this one has left."""


def is_of_a_peer(error: RuntimeError) -> bool:
    """Whether a peer's failure caused this error, beyond what Elastic recognizes by itself."""
    return False


def remove() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _make_groups() -> None:
    """Patches torch where new_group() makes a group. That of PyTorch 2.14 asks the default group. Earlier releases ask the
    creator of a backend, but only on ranks in the new group; all ranks come here, with ranks that torch has checked."""
    helper = _c10d._new_process_group_helper

    def call(size: int, rank: Optional[int], ranks: Any, backend: str, store: Any, *arguments: Any, **named: Any) -> Any:
        global _made
        world = dist.group.WORLD
        if isinstance(world, Group) and store is _c10d._get_default_store():
            _made = world.new_group(ranks, backend)
        try:
            return helper(size, rank, ranks, backend, store, *arguments, **named)
        finally:
            _made = None

    _c10d._new_process_group_helper = call


def _leave_out_barriers() -> None:
    """Skips the barrier of some releases, which counts ranks in the group's store. Here each rank has a store of its own, and all
    ranks have met already."""
    barrier = _c10d._store_based_barrier

    def call(*arguments: Any, **named: Any) -> None:
        if not isinstance(dist.group.WORLD, Group):
            barrier(*arguments, **named)

    _c10d._store_based_barrier = call


def _refuse_local_synchronization() -> None:
    """Refuses use_local_synchronization: ranks outside such a group do not call new_group(), and the others would wait."""
    new_group = _c10d._new_group_with_tag

    def call(*arguments: Any, **named: Any) -> Any:
        if named.get("use_local_synchronization") and isinstance(dist.group.WORLD, Group):
            refuse("new_group() with use_local_synchronization")
        return new_group(*arguments, **named)

    _c10d._new_group_with_tag = call


_make_groups()
_leave_out_barriers()
if hasattr(_c10d, "_new_group_with_tag"):  # from 2.0 on
    _refuse_local_synchronization()
