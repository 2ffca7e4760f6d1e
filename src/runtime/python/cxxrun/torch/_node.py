"""FSDP2 between nodes. torch shards inside a node, libcxxrun averages gradients between nodes, and a node lives or ends as a
whole.

torch's calls inside a node do not learn of a failure elsewhere. If a rank left its step while another rank of its node went
on, that rank would wait for it for ever. So after each call between nodes, the ranks of a node tell each other whether it
failed."""
import atexit
import os
import select
import sys
import threading
import time
from datetime import timedelta
from typing import Any, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_map_only

from cxxrun import _lib
from cxxrun.torch import _world
from cxxrun.torch._carrier import Carrier
from cxxrun.torch._group import kind_of
from cxxrun.torch._state import Shard

_c10d = dist.distributed_c10d
_LONG = timedelta(minutes=30)
# A thread of torch's NCCL group asks the store every second whether another rank has reported a timeout. It uses the store of
# the generation in which the group was made, which ends with that generation. The launcher finds hung ranks by itself.
_NO_MONITOR = "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT"
_OWN_END = 0.2  # seconds for a process that fails by itself, perhaps of the same error, to report that
_TRY_AGAIN = 75  # docs/use/exit_codes.md


class Node:
    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        facts = carrier.facts
        self._local_rank, self._size = facts.local_rank, facts.local_world_size
        self.between: Optional[_lib.Communicator] = None
        self._nodes, self._queued = 0, False
        self._error: Optional[Exception] = None
        self._device = carrier.gpu.device.type if carrier.gpu.on_device else "cpu"
        self._group = self._make_group(facts)
        self._mates = Mates(self._group, self._local_rank, self._size) if carrier.gpu.on_device else None
        self.mesh = DeviceMesh.from_group(self._group, self._device, mesh_dim_names=("node",))
        carrier.agree = self.agree

    def _make_group(self, facts: _lib.Facts) -> Any:
        """Makes torch's own group, which lasts as long as the process. Its ranks meet in the store of this generation."""
        first = facts.rank - facts.local_rank
        ranks = list(range(first, first + self._size))
        store = dist.PrefixStore(f"cxxrun/node/{first}", _world.store_of(facts, _LONG))
        backend = "cpu:gloo,cuda:nccl" if self._device == "cuda" else "gloo"
        for name in _NO_MONITOR:
            os.environ.setdefault(name, "0")
        group, _ = _c10d._new_process_group_helper(self._size, self._local_rank, ranks, backend, store, "cxxrun_node",
                                                   timeout=_LONG)
        _c10d._world.pg_group_ranks[group] = {rank: each for each, rank in enumerate(ranks)}
        return group

    # ---- worlds

    def connect(self) -> None:
        """Connects the ranks that have the same shards. Called in every world; collective."""
        facts = self._carrier.facts
        if (facts.local_rank, facts.local_world_size) != (self._local_rank, self._size):
            raise _lib.Failure("cxxrun: this node has got another number of ranks: the process ends, to be started anew",
                               _lib.CLOSED)
        if facts.world_size != facts.group_world_size * self._size or facts.rank != facts.group_rank * self._size + (
                facts.local_rank):
            raise _lib.Failure("cxxrun: shards are the same on each node where all have as many ranks, one after the other",
                               _lib.USAGE)
        self.between = self._carrier.split(facts.local_rank, facts.group_rank)
        self._nodes = facts.group_world_size
        self.lives_as_a_whole(True)

    def lives_as_a_whole(self, does: bool) -> None:
        """Sets whether the end of another process of the node ends this one. It does not once training is over."""
        if self._mates is not None:
            self._mates.matter = does

    def places(self, donor: int) -> Tuple[int, int]:
        """Returns the number of this node and that of the donor's node."""
        return self._carrier.facts.group_rank, donor // self._size

    # ---- agreement inside the node

    def any(self, *flags: bool) -> List[bool]:
        """Returns, for each flag, whether any rank of the node sets it. Collective inside the node."""
        told = torch.tensor(flags, dtype=torch.int32)
        try:
            dist.all_reduce(told, op=dist.ReduceOp.MAX, group=self._group)
        except RuntimeError as error:
            raise _lib.Failure("cxxrun: another rank of this node has ended, and its shards with it: the process ends, to "
                               "be started anew with the node", _lib.CLOSED) from error
        return [bool(each) for each in told]

    def agree(self) -> None:
        """Called after a call between nodes. Raises PeerFailure if the call failed on any rank of this node."""
        (failed,) = self.any(self._carrier.failure is not None)
        if failed:
            raise self._carrier.note(_lib.PeerFailure("another rank of this node has seen a peer fail", "stopped", -1, "",
                                                      self._carrier.facts.generation))

    # ---- gradients

    def begin_step(self) -> None:
        """Resets what was queued for the end of a backward pass: a pass that raised has dropped it."""
        self._queued, self._error = False, None

    def hook(self, gradients: torch.Tensor) -> None:
        """For FSDPModule.set_all_reduce_hook(). Never raises, because FSDP would skip the hooks of the next backward pass. The
        failure is raised at the end of this pass."""
        if self._carrier.failure is None and self._error is None:
            try:
                self._average(gradients)
            except _lib.PeerFailure as failure:
                self._carrier.note(failure)
            except Exception as error:
                self._error = error
        if not self._queued:
            self._queued = True
            self._at_the_end(2)

    def _average(self, gradients: torch.Tensor) -> None:
        comm, address, count = self.between, gradients.data_ptr(), gradients.numel()
        kind, op, scale = kind_of(gradients, "all_reduce"), _lib.OPS["sum"], 1.0 / self._nodes
        assert comm is not None

        def begin(stream: int) -> _lib.Work:
            return comm.start_all_reduce(address, address, count, kind, op, scale, gradients, stream)

        if self._carrier.gpu.carries(gradients):
            self._carrier.start_on_device(comm, begin, None, [gradients]).wait()
        else:
            self._carrier.before_call()
            begin(0).wait()

    def _at_the_end(self, after: int) -> None:
        """Runs after FSDP's own callbacks, which are queued before ours returns for the first time."""
        def call() -> None:
            if after:
                self._at_the_end(after - 1)
                return
            self._queued = False
            error, self._error = self._error, None
            if error is not None:
                raise error
            if not self._carrier.gpu.on_device:  # with a device: before the update, when all calls are done
                self.agree()

        torch.autograd.Variable._execution_engine.queue_callback(call)

    def replicate(self, model: Any) -> int:
        """Adds the hooks. Returns how many modules of the model are sharded."""
        from torch.distributed.fsdp import FSDPModule

        sharded = [module for module in model.modules() if isinstance(module, FSDPModule)]
        for module in sharded:
            module.set_all_reduce_hook(self.hook)
        return len(sharded)

    # ---- shards in a state

    def plain(self, state: Any) -> Any:
        return tree_map_only(DTensor, lambda its: Shard(its.to_local(), its.placements, its.shape, its.stride()), state)

    def sharded(self, state: Any) -> Any:
        return tree_map_only(Shard, lambda its: DTensor.from_local(its.local, self.mesh, its.placements, run_check=False,
                                                                   shape=its.shape, stride=its.stride), state)


class Mates:
    """Ends this process when another process of its node ends. On a GPU, torch's calls inside the node are NCCL kernels, which
    wait on NVLink for ever, and the main thread with them. Nothing in torch notices."""

    def __init__(self, group: Any, local_rank: int, size: int) -> None:
        """Collective. Without pidfd_open(), or if the processes are in different PID namespaces, the agent ends this process,
        which takes longer."""
        self.matter = False  # whether the death of another process ends this one
        told = torch.zeros(size, 2, dtype=torch.int64)
        told[local_rank] = torch.tensor([os.getpid(), os.stat("/proc/self/ns/pid").st_ino])
        dist.all_reduce(told, group=group)
        self._poll = select.poll()
        for pid, space in told.tolist():
            if pid != os.getpid() and space == told[local_rank, 1]:
                self._watch(pid)
        atexit.register(lambda: setattr(self, "matter", False))
        threading.Thread(target=self._await, name="cxxrun mates", daemon=True).start()

    def _watch(self, pid: int) -> None:
        try:
            self._poll.register(os.pidfd_open(pid), select.POLLIN)
        except (AttributeError, OSError):
            pass

    def _await(self) -> None:
        while True:
            for ended, _ in self._poll.poll():
                self._poll.unregister(ended)
            time.sleep(_OWN_END)
            if self.matter:
                print("cxxrun: another rank of this node has ended, and its shards with it: this process ends with code "
                      f"{_TRY_AGAIN}, to be started anew with the node", file=sys.stderr, flush=True)
                os._exit(_TRY_AGAIN)
