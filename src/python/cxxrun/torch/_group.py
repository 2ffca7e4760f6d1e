"""torch's process group over libcxxrun_c: DDP, get_rank() and the collectives of torch are torch's own, and who carries
them outlives the death of a peer. Calls that are not carried are refused by name.

all_reduce alone goes on in the background; the others are done when they return, with async_op too."""
import sys
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from cxxrun import _lib
from cxxrun.torch._buckets import is_from_backward
from cxxrun.torch._carrier import Carrier, done

BACKEND = "cxxrun"
_OPS = ("SUM", "MIN", "MAX", "AVG", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
_TYPES = {getattr(torch, name): code for name, code in _lib.TYPES.items()}
_REFUSED = """gather_into_tensor gather_single merge_remote_group monitored_barrier recv recv_anysource send split_group
_start_coalescing""".split()
Tensors = List[torch.Tensor]


class Group(ProcessGroup):
    """The whole world, or a group split from it. A rank is the group's, as for the library."""

    def __init__(self, carrier: Carrier, comm: _lib.Communicator, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._carrier, self._comm, self._rank, self._size = carrier, comm, rank, size

    def getBackendName(self) -> str:  # noqa: N802: torch's names
        return BACKEND

    name = getBackendName

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank, getSize = rank, size

    def new_group(self, ranks: Sequence[int], backend: Optional[str] = None, **_: Any) -> Optional["Group"]:
        """Of torch's new_group(), which every rank calls; None where this rank is not in it."""
        if backend not in (None, BACKEND):
            refuse(f"new_group() of the backend {backend}")
        if self._carrier.agree is not None:
            refuse("new_group() beside node_mesh()")
        is_mine = self._rank in ranks
        key = list(ranks).index(self._rank) if is_mine else 0
        comm = self._carrier.together(lambda: self._carrier.split(0 if is_mine else -1, key))
        return Group(self._carrier, comm, key, len(ranks)) if comm is not None else None

    def renew(self) -> None:
        """The whole world is another one now."""
        self._rank, self._size = self._carrier.facts.rank, self._carrier.facts.world_size

    # ---- reductions

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work:
        (tensor,) = tensors if len(tensors) == 1 else refuse("all_reduce of several tensors in one call")
        is_bucket = is_from_backward(sys._getframe(1))
        begin = self._all_reduction(tensor, tensor, opts, "all_reduce", is_bucket)
        return (self._carrier.start_in_backward if is_bucket else self._carrier.start)(begin, tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        for begin in [self._all_reduction(tensor, tensor, opts, "all_reduce") for tensor in tensors]:
            self._carrier.run(begin)
        return done(tensors)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Work:
        (tensor,) = tensors if len(tensors) == 1 else refuse("reduce of several tensors in one call")
        target = tensor if opts.rootRank == self._rank else torch.empty_like(tensor)
        self._carrier.run(self._all_reduction(tensor, target, opts, "reduce"))
        return done(tensors)

    def _all_reduction(self, tensor: torch.Tensor, target: torch.Tensor, opts: Any, call: str,
                       is_bucket: bool = False) -> Callable[[], _lib.Work]:
        op, scale = _op(opts, tensor, self._size, call)
        kind = kind_of(tensor, call)
        if is_bucket:
            place = self._carrier.place(self._comm, tensor)
            return lambda: self._comm.start_all_reduce(place, place, tensor.numel(), kind, op, scale, tensor)
        return lambda: self._comm.start_all_reduce(tensor.data_ptr(), target.data_ptr(), tensor.numel(), kind, op, scale,
                                                   (tensor, target))

    def reduce_scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any = None) -> Work:
        (output,) = outputs if len(outputs) == 1 else refuse("reduce_scatter of several tensors in one call")
        self._check_parts(inputs[0], output, "reduce_scatter")
        self._reduce_scatter(output, torch.stack(inputs[0]), opts, "reduce_scatter")
        return done(outputs)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Work:
        self._reduce_scatter(output, tensor, opts, "reduce_scatter_tensor")
        return done(output)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        for output, tensor in zip(outputs, inputs):
            self._reduce_scatter(output, tensor, opts, "reduce_scatter_tensor")
        return done(outputs)

    _reduce_scatter_base, reduce_scatter_tensor_coalesced = reduce_scatter_single, reduce_scatter_single_coalesced

    def _reduce_scatter(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any, call: str) -> None:
        op, scale = _op(opts, tensor, self._size, call)
        kind = kind_of(tensor, call)
        self._check_sizes(output, tensor, call)
        self._carrier.run(lambda: self._comm.start_reduce_scatter(
            tensor.data_ptr(), output.data_ptr(), output.numel(), kind, op, scale, (tensor, output)))

    # ---- moves: tensors of any type

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work:
        for tensor in tensors:
            _check_memory(tensor, "broadcast")
            self._broadcast(tensor, opts.rootRank if opts is not None else 0)
        return done(tensors)

    def _broadcast(self, tensor: torch.Tensor, root: int) -> None:
        self._carrier.run(lambda: self._comm.start_broadcast(tensor.data_ptr(), *_units(tensor), root, tensor))

    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        if len(inputs) != 1:
            refuse("all_gather of several tensors in one call")
        return self._all_gather_each(outputs, inputs, outputs)

    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """outputs[rank][i] is inputs[i] of that rank."""
        return self._all_gather_each([list(each) for each in zip(*outputs)], inputs, outputs)

    def _all_gather_each(self, outputs: List[Tensors], inputs: Tensors, result: Any) -> Work:
        for output, tensor in zip(outputs, inputs):
            self._check_parts(output, tensor, "all_gather")
            _check_memory(tensor, "all_gather")
            _copy(torch.unbind(self._gathered(tensor)), output)
        return done(result)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Work:
        self._check_sizes(tensor, output, "all_gather_into_tensor")
        self._gather(tensor, output)
        return done(output)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        for output, tensor in zip(outputs, inputs):
            self.all_gather_single(output, tensor)
        return done(outputs)

    _allgather_base, allgather_into_tensor_coalesced = all_gather_single, all_gather_single_coalesced

    def gather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        (tensor,) = inputs
        _check_memory(tensor, "gather")
        if opts.rootRank == self._rank:
            self._check_parts(outputs[0], tensor, "gather")
        gathered = self._gathered(tensor)
        if opts.rootRank == self._rank:
            _copy(torch.unbind(gathered), outputs[0])
        return done(outputs)

    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any = None) -> Work:
        (output,) = outputs
        _check_memory(output, "scatter")
        if opts.rootRank == self._rank:
            self._check_parts(inputs[0], output, "scatter")
            parts = torch.stack(inputs[0])
        else:
            parts = torch.empty((self._size, *output.shape), dtype=output.dtype)
        self._broadcast(parts, opts.rootRank)
        output.copy_(parts[self._rank])
        return done(outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        self._check_parts(inputs, inputs[0], "all_to_all")
        self._check_parts(outputs, inputs[0], "all_to_all")
        parts = torch.stack(inputs)
        _check_memory(parts, "all_to_all")
        received = torch.empty_like(parts)
        self._all_to_all(received, parts)
        _copy(torch.unbind(received), outputs)
        return done(outputs)

    def all_to_all_single(self, output: torch.Tensor, tensor: torch.Tensor, output_splits: Any = None,
                          input_splits: Any = None, opts: Any = None) -> Work:
        if len(set(output_splits or ())) > 1 or len(set(input_splits or ())) > 1 or tensor.shape != output.shape or (
                tensor.dtype != output.dtype or tensor.shape[0] % self._size):
            refuse("all_to_all_single of parts that differ in size or type")
        _check_memory(tensor, "all_to_all_single")
        _check_memory(output, "all_to_all_single")
        self._all_to_all(output, tensor)
        return done(output)

    alltoall_base = all_to_all_single

    def _all_to_all(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        count, kind = _units(tensor)
        self._carrier.run(lambda: self._comm.start_all_to_all(
            tensor.data_ptr(), output.data_ptr(), count // self._size, kind, (tensor, output)))

    def _gathered(self, tensor: torch.Tensor) -> torch.Tensor:
        target = torch.empty((self._size, *tensor.shape), dtype=tensor.dtype)
        self._gather(tensor, target)
        return target

    def _gather(self, tensor: torch.Tensor, target: torch.Tensor) -> None:
        self._carrier.run(lambda: self._comm.start_all_gather(
            tensor.data_ptr(), target.data_ptr(), *_units(tensor), (tensor, target)))

    def barrier(self, opts: Any = None) -> Work:
        self._carrier.run(self._comm.start_barrier)
        return done(None)

    # ---- what is refused

    def _check_parts(self, parts: Sequence[torch.Tensor], like: torch.Tensor, call: str) -> None:
        if len(parts) != self._size or any(each.shape != like.shape or each.dtype != like.dtype for each in parts):
            refuse(f"{call} with a list of tensors that is not one of the same shape and type for each rank")

    def _check_sizes(self, part: torch.Tensor, whole: torch.Tensor, call: str) -> None:
        _check_memory(part, call)
        _check_memory(whole, call)
        if whole.numel() != self._size * part.numel() or whole.dtype != part.dtype:
            refuse(f"{call} with tensors whose sizes or types do not fit")


def _units(tensor: torch.Tensor) -> Tuple[int, int]:
    """Its elements and their type; of a type that the library lacks its bytes."""
    if tensor.dtype in _TYPES:
        return tensor.numel(), _TYPES[tensor.dtype]
    return tensor.numel() * tensor.element_size(), _lib.TYPES["uint8"]


def _copy(parts: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
    for part, target in zip(parts, targets):
        target.copy_(part)


def refuse(what: str) -> Any:
    raise NotImplementedError(f"cxxrun.torch: {what} is not carried by the group that survives; "
                              "docs/use/elastic_pytorch.md says what is")


def _refusal(name: str) -> Callable[..., Any]:
    return lambda self, *arguments, **named: refuse(name)


for _name in _REFUSED:
    setattr(Group, _name, _refusal(_name))


def _check_memory(tensor: torch.Tensor, call: str) -> None:
    if tensor.layout != torch.strided:
        refuse(f"{call} of a tensor that is sparse")
    if tensor.device.type != "cpu":
        refuse(f"{call} of a tensor that is on {tensor.device}")
    if not tensor.is_contiguous():
        refuse(f"{call} of a tensor that is not contiguous")


def kind_of(tensor: torch.Tensor, call: str) -> int:
    """The number of its type, for a call that adds up."""
    _check_memory(tensor, call)
    return _TYPES[tensor.dtype] if tensor.dtype in _TYPES else refuse(f"{call} of {tensor.dtype}")


def _op(options: Any, tensor: torch.Tensor, size: int, call: str) -> Any:
    op = dist.ReduceOp.SUM if options is None else options.reduceOp
    name = next((name for name in _OPS if op == getattr(dist.ReduceOp, name, None)), str(op))
    if name == "AVG" and tensor.is_floating_point():
        return _lib.OPS["sum"], 1.0 / size
    if name.lower() in _lib.OPS:
        return _lib.OPS[name.lower()], 1.0
    return refuse(f"{call} with {name} of {tensor.dtype}")
