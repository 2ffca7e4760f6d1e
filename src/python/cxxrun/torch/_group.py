"""torch's default process group over libcxxrun_c: DDP, get_rank() and the collectives of torch are torch's own, and who
carries them outlives the death of a peer.

A failure is kept as `Carrier.failure`, since torch's reducer turns it into a RuntimeError of its own. Calls that are
not carried are refused by name."""
import functools
import queue
import threading
from typing import Any, Callable, List, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work, _create_work_from_future

from cxxrun import _lib

BACKEND = "cxxrun"
_OPS = ("SUM", "MIN", "MAX", "AVG", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
_TYPES = {getattr(torch, name): code for name, code in _lib.TYPES.items()}
_REFUSED = """all_gather_single all_gather_single_coalesced all_to_all_single allgather_coalesced
allgather_into_tensor_coalesced allreduce_coalesced alltoall alltoall_base gather gather_into_tensor gather_single
monitored_barrier recv recv_anysource reduce reduce_scatter reduce_scatter_single reduce_scatter_single_coalesced
reduce_scatter_tensor_coalesced _reduce_scatter_base scatter send split_group merge_remote_group""".split()


class Carrier:
    """The one Communicator of the process, and the thread that completes torch's futures."""

    def __init__(self) -> None:
        self.comm = _lib.Communicator(survive=True)
        self.failure: Optional[_lib.PeerFailure] = None
        self._world = 0
        self._begun: Any = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._complete, name="cxxrun", daemon=True)
        self._thread.start()

    def start(self, begin: Callable[[], _lib.Work], result: Any) -> Work:
        """torch's Work of ours; its future has `result`, or raises what the call failed with. A PeerFailure is never
        raised here: torch's reducer would be in the middle of a backward pass."""
        future = torch.futures.Future()
        checked = future.then(_value_of)
        try:
            self._begun.put((begin(), future, result, self._world))
        except _lib.PeerFailure as failure:
            self.failure = self.failure or failure
            future.set_result(failure)
        return _create_work_from_future(checked)

    def next_world(self) -> None:
        self._world += 1
        self.failure = None

    def run(self, begin: Callable[[], _lib.Work]) -> None:
        """Blocks until it is done."""
        try:
            begin().wait()
        except _lib.PeerFailure as failure:
            self.failure = self.failure or failure
            raise

    def _complete(self) -> None:
        while True:
            begun = self._begun.get()
            if begun is None:
                return
            work, future, result, world = begun
            try:
                work.wait()
            except Exception as failure:  # as a value: Future.set_exception works from Python in some releases only
                if isinstance(failure, _lib.PeerFailure) and world == self._world:  # not of one that has been left
                    self.failure = self.failure or failure
                result = failure
            future.set_result(result)

    def close(self) -> None:
        self._begun.put(None)
        self._thread.join()
        self.comm.free()


def _value_of(future: Any) -> Any:
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


class Group(ProcessGroup):
    def __init__(self, carrier: Carrier, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._carrier, self._rank, self._size = carrier, rank, size

    def getBackendName(self) -> str:  # noqa: N802: torch's names
        return BACKEND

    def name(self) -> str:
        return BACKEND

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank, getSize = rank, size

    def _done(self, result: Any) -> Work:
        future = torch.futures.Future()
        future.set_result(result)
        return _create_work_from_future(future)

    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        (tensor,) = tensors if len(tensors) == 1 else _refuse("all_reduce of several tensors in one call")
        op, scale = _op(opts, tensor, self._size)
        kind = _check(tensor, "all_reduce")
        comm = self._carrier.comm
        return self._carrier.start(
            lambda: comm.start_all_reduce(tensor.data_ptr(), tensor.numel(), kind, op, scale, tensor), tensors)

    def broadcast(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        root = opts.rootRank if opts is not None else 0
        for tensor in tensors:
            begin = functools.partial(self._carrier.comm.start_broadcast, tensor.data_ptr(), tensor.numel(),
                                      _check(tensor, "broadcast"), root, tensor)
            self._carrier.run(begin)
        return self._done(tensors)

    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        (tensor,) = inputs if len(inputs) == 1 else _refuse("all_gather of several tensors in one call")
        _check(tensor, "all_gather")
        if len(outputs[0]) != self._size or any(o.shape != tensor.shape or o.dtype != tensor.dtype for o in outputs[0]):
            _refuse("all_gather into tensors that are not one of the input's shape and type for each rank")
        gathered = torch.empty((self._size, *tensor.shape), dtype=tensor.dtype)
        self._gather(tensor, gathered)
        for output, part in zip(outputs[0], gathered):
            output.copy_(part)
        return self._done(outputs)

    def _allgather_base(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Work:
        _check(tensor, "all_gather_into_tensor")
        _check(output, "all_gather_into_tensor")
        if output.numel() != self._size * tensor.numel() or output.dtype != tensor.dtype:
            _refuse("all_gather_into_tensor into a tensor of another size or type")
        self._gather(tensor, output)
        return self._done(output)

    def barrier(self, opts: Any = None) -> Work:
        self._carrier.run(self._carrier.comm.start_barrier)
        return self._done(None)

    def _gather(self, tensor: torch.Tensor, target: torch.Tensor) -> None:
        self._carrier.run(lambda: self._carrier.comm.start_all_gather(
            tensor.data_ptr(), target.data_ptr(), tensor.numel() * tensor.element_size(), _lib.TYPES["uint8"],
            (tensor, target)))


def _refuse(what: str) -> Any:
    raise NotImplementedError(f"cxxrun.torch: {what} is not carried by the group that survives; carried are "
                              "all_reduce, broadcast, all_gather and barrier of contiguous tensors on the CPU")


def _refusal(name: str) -> Callable[..., Any]:
    return lambda self, *arguments, **named: _refuse(name)


for _name in _REFUSED:
    setattr(Group, _name, _refusal(_name))


def _check(tensor: torch.Tensor, call: str) -> int:
    """The type's number; all_gather moves bytes and takes any type."""
    if tensor.device.type != "cpu" or tensor.is_sparse or not tensor.is_contiguous():
        _refuse(f"{call} of a tensor that is " + ("sparse" if tensor.is_sparse else f"on {tensor.device}"
                                                  if tensor.device.type != "cpu" else "not contiguous"))
    if tensor.dtype not in _TYPES and not call.startswith("all_gather"):
        _refuse(f"{call} of {tensor.dtype}")
    return _TYPES.get(tensor.dtype, _lib.TYPES["uint8"])


def _op(options: Any, tensor: torch.Tensor, size: int) -> Any:
    op = dist.ReduceOp.SUM if options is None else options.reduceOp
    name = next((name for name in _OPS if op == getattr(dist.ReduceOp, name, None)), str(op))
    if name == "AVG" and tensor.is_floating_point():
        return _lib.OPS["sum"], 1.0 / size
    if name.lower() in _lib.OPS:
        return _lib.OPS[name.lower()], 1.0
    return _refuse(f"all_reduce with {name} of {tensor.dtype}")


_making: Optional[Carrier] = None


def _create(*arguments: Any, **_: Any) -> Group:
    """(store, rank, size, timeout) in 1.13; the same, or one object, in later releases."""
    rank, size = arguments[1:3] if len(arguments) >= 3 else (arguments[0].group_rank, arguments[0].group_size)
    if _making is None:
        _refuse("new_group()")
    return Group(_making, rank, size)


try:
    dist.Backend.register_backend(BACKEND, _create, devices=["cpu"])
except TypeError:  # 1.13
    dist.Backend.register_backend(BACKEND, _create)


def install(carrier: Carrier) -> None:
    """Makes the world that the Communicator has met torch's default group, in the place of the one before."""
    global _making
    remove()
    facts = carrier.comm.facts()
    carrier.next_world()
    store = dist.HashStore()
    if torch.__version__.startswith("1."):  # it waits until all ranks have counted there; here is one
        store.add(f"store_based_barrier_key:{dist.distributed_c10d._group_count + 1}", facts.world_size - 1)
    _making = carrier
    try:
        dist.init_process_group(BACKEND, store=store, rank=facts.rank, world_size=facts.world_size)
    finally:
        _making = None


def remove() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
