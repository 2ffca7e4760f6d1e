"""Makes the world that the Communicator has met torch's own: its default process group, and what new_group() gives."""
import sys
from typing import Any, Optional

import torch
import torch.distributed as dist

from cxxrun.torch._carrier import Carrier
from cxxrun.torch._group import BACKEND, Group, refuse

_c10d = dist.distributed_c10d
_IS_1 = torch.__version__.startswith("1.")
_made: Optional[Group] = None  # what torch asks for next


def _create(*_: Any, **__: Any) -> Group:
    if _made is None:
        raise RuntimeError("cxxrun.torch: the backend cxxrun is made by Elastic()")
    return _made


try:
    dist.Backend.register_backend(BACKEND, _create, devices=["cpu", "cuda"])
except TypeError:  # 1.13
    dist.Backend.register_backend(BACKEND, _create)


def of(backend: Optional[str]) -> Any:
    """What has install(), leave(), remove() and is_of_a_peer() for Elastic(backend=…): this module, or a class."""
    if backend is None:
        return sys.modules[__name__]
    if backend == "nccl":
        raise NotImplementedError('Elastic: backend="nccl" has not been run on a GPU yet; "gloo" is there')
    if backend != "gloo":
        raise ValueError(f'Elastic: backend={backend!r}: there is "gloo", and None for the group over libcxxrun')
    if not hasattr(dist, "_reconfigure"):
        raise NotImplementedError('Elastic: backend="gloo" takes PyTorch 2.14, whose groups can be given other members; '
                                  f"this one is {torch.__version__}")
    from cxxrun.torch._reconfigured import World

    return World(backend)


def install(carrier: Carrier) -> None:
    """In the place of the world before."""
    global _made
    remove()
    facts = carrier.facts
    _made = Group(carrier, carrier.comm, facts.rank, facts.world_size)
    try:
        dist.init_process_group(BACKEND, store=_counted(dist.HashStore(), facts.world_size), rank=facts.rank,
                                world_size=facts.world_size)
    finally:
        _made = None


def leave() -> None:
    """Nobody waits for this rank: libcxxrun tells the others."""


def is_of_a_peer(error: RuntimeError) -> bool:
    """Beside what Elastic knows by itself."""
    return False


def remove() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _counted(store: Any, world_size: int) -> Any:
    """1.13 waits until all ranks have counted in the store; here is one."""
    if _IS_1:
        store.add(f"store_based_barrier_key:{_c10d._group_count + 1}", world_size - 1)
    return store


def _wrap_new_group() -> None:
    """1.13 asks the default group for nothing, and a rank that is not in the new group asks nobody."""
    new_group = _c10d.new_group

    def call(ranks: Any = None, *arguments: Any, **named: Any) -> Any:
        global _made
        world = dist.group.WORLD
        if not isinstance(world, Group):
            return new_group(ranks, *arguments, **named)
        backend = named.get("backend", arguments[1] if len(arguments) > 1 else None)
        _made = world.new_group(sorted(ranks) if ranks is not None else range(world.size()), backend)
        _counted(_c10d._pg_map[world][1], world.size())
        try:
            return new_group(ranks, *arguments, **named)
        finally:
            _made = None

    _c10d.new_group = dist.new_group = call


def _refuse_local_synchronization() -> None:
    """Ranks that are not in such a group do not call new_group(), for which the others would wait."""
    new_group = _c10d._new_group_with_tag

    def call(*arguments: Any, **named: Any) -> Any:
        if named.get("use_local_synchronization") and isinstance(dist.group.WORLD, Group):
            refuse("new_group() with use_local_synchronization")
        return new_group(*arguments, **named)

    _c10d._new_group_with_tag = call


if _IS_1:
    _wrap_new_group()
else:
    _refuse_local_synchronization()
