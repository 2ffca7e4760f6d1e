"""A torch process group over libcxxrun_c. DDP, get_rank() and torch.distributed's functions are torch's own; the group that
carries their calls outlives the death of a peer. Unsupported calls are refused by name.

Only all_reduce runs in the background. The other calls are done when they return, even with async_op."""
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from cxxrun import _lib
from cxxrun._errors import RefusedError
from cxxrun.torch import _device
from cxxrun.torch._buckets import is_from_backward
from cxxrun.torch._carrier import Carrier, done

BACKEND = "cxxrun"
_OPS = ("SUM", "MIN", "MAX", "AVG", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
_TYPES = {getattr(torch, name): code for name, code in _lib.TYPES.items()}
_REFUSED = """gather_into_tensor gather_single merge_remote_group monitored_barrier recv recv_anysource send split_group
_start_coalescing""".split()
Tensors = List[torch.Tensor]
Begin = Callable[[torch.Tensor, torch.Tensor, int], _lib.Work]  # takes source, target and stream


class Group(ProcessGroup):
    """The whole world, or a group that is split from it. Ranks are those of the group, as in the library."""

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
        """For torch's new_group(), which every rank calls. Returns None if this rank is not in the new group."""
        if backend not in (None, BACKEND):
            refuse(f"new_group() of the backend {backend}")
        if self._carrier.agree is not None:
            refuse("new_group() beside node_mesh()")
        is_mine = self._rank in ranks
        key = list(ranks).index(self._rank) if is_mine else 0
        comm = self._carrier.together(lambda: self._carrier.split(0 if is_mine else -1, key))
        return Group(self._carrier, comm, key, len(ranks)) if comm is not None else None

    def renew(self) -> None:
        """Takes over the size and rank of a new world."""
        self._rank, self._size = self._carrier.facts.rank, self._carrier.facts.world_size

    # ---- who carries a call

    def _carry(self, begin: Begin, source: torch.Tensor, target: torch.Tensor) -> None:
        """Makes one call. When it returns, the call is done for the host, or for the current stream if the device carries it."""
        its = self._carrier
        if its.gpu.carries(target):
            if self._size > 1 or source is not target:
                its.start_on_device(self._comm, lambda stream: begin(source, target, stream), None, [source, target]).wait()
        else:
            self._carry_on_host(begin, source, target)

    def _carry_on_host(self, begin: Begin, source: torch.Tensor, target: torch.Tensor) -> None:
        def run(source: torch.Tensor, target: torch.Tensor) -> None:
            self._carrier.run(lambda: begin(source, target, 0))

        if self._carrier.gpu.stages(target):
            _device.staged(source, target, run)
        else:
            run(source, target)

    # ---- reductions

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work:
        (tensor,) = tensors if len(tensors) == 1 else refuse("all_reduce of several tensors in one call")
        reduction = kind, op, scale = self._reduction(opts, tensor, "all_reduce")
        _multiplied(opts, tensor, self._size, tensor)
        its, comm, count = self._carrier, self._comm, tensor.numel()
        if its.gpu.carries(tensor) and not _is_lacking(tensor, op):
            if self._size == 1:
                return done(tensors)
            address = tensor.data_ptr()
            return its.start_on_device(comm, lambda stream: comm.start_all_reduce(address, address, count, kind, op, scale,
                                                                                  None, stream), tensors, [tensor])
        if its.gpu.stages(tensor):
            return its.start_blocking(lambda: self._all_reduce(tensor, tensor, reduction), tensors)
        is_bucket = is_from_backward()
        place = its.place(comm, tensor) if is_bucket else tensor.data_ptr()
        return (its.start_in_backward if is_bucket else its.start)(
            lambda: comm.start_all_reduce(place, place, count, kind, op, scale, tensor), tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        reductions = [self._reduction(opts, tensor, "all_reduce") for tensor in tensors]
        for tensor, reduction in zip(tensors, reductions):
            self._all_reduce(_multiplied(opts, tensor, self._size, tensor), tensor, reduction)
        return done(tensors)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Work:
        (tensor,) = tensors if len(tensors) == 1 else refuse("reduce of several tensors in one call")
        target = tensor if opts.rootRank == self._rank else torch.empty_like(tensor)
        reduction = self._reduction(opts, tensor, "reduce")
        self._all_reduce(_multiplied(opts, tensor, self._size), target, reduction)
        return done(tensors)

    def _all_reduce(self, tensor: torch.Tensor, target: torch.Tensor, reduction: Tuple[int, int, float]) -> None:
        kind, op, scale = reduction
        carry = self._carry_on_host if _is_lacking(tensor, op) else self._carry
        carry(lambda source, target, stream: self._comm.start_all_reduce(
            source.data_ptr(), target.data_ptr(), source.numel(), kind, op, scale, (source, target), stream), tensor, target)

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
        kind, op, scale = self._reduction(opts, tensor, call)
        self._check_sizes(output, tensor, call)
        tensor = _multiplied(opts, tensor, self._size)
        carry = self._carry_on_host if _is_lacking(tensor, op) else self._carry
        carry(lambda source, target, stream: self._comm.start_reduce_scatter(
            source.data_ptr(), target.data_ptr(), target.numel(), kind, op, scale, (source, target), stream), tensor, output)

    def _reduction(self, opts: Any, tensor: torch.Tensor, call: str) -> Tuple[int, int, float]:
        kind = kind_of(tensor, call)
        self._check_device(tensor, call)
        return (kind, *_op(opts, tensor, self._size, call))

    # ---- moves: tensors of any type

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work:
        for tensor in tensors:
            self._check_memory(tensor, "broadcast")
            self._broadcast(tensor, opts.rootRank if opts is not None else 0)
        return done(tensors)

    def _broadcast(self, tensor: torch.Tensor, root: int) -> None:
        self._carry(lambda _, target, stream: self._comm.start_broadcast(target.data_ptr(), *_units(target), root, target,
                                                                         stream), tensor, tensor)

    def allgather(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        if len(inputs) != 1:
            refuse("all_gather of several tensors in one call")
        return self._all_gather_each(outputs, inputs, outputs)

    def allgather_coalesced(self, outputs: List[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """outputs[rank][i] becomes inputs[i] of that rank."""
        return self._all_gather_each([list(each) for each in zip(*outputs)], inputs, outputs)

    def _all_gather_each(self, outputs: List[Tensors], inputs: Tensors, result: Any) -> Work:
        for output, tensor in zip(outputs, inputs):
            self._check_parts(output, tensor, "all_gather")
            self._check_memory(tensor, "all_gather")
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
        self._check_memory(tensor, "gather")
        if opts.rootRank == self._rank:
            self._check_parts(outputs[0], tensor, "gather")
        gathered = self._gathered(tensor)
        if opts.rootRank == self._rank:
            _copy(torch.unbind(gathered), outputs[0])
        return done(outputs)

    def scatter(self, outputs: Tensors, inputs: List[Tensors], opts: Any = None) -> Work:
        (output,) = outputs
        self._check_memory(output, "scatter")
        if opts.rootRank == self._rank:
            self._check_parts(inputs[0], output, "scatter")
            parts = torch.stack(inputs[0])
        else:
            parts = torch.empty((self._size, *output.shape), dtype=output.dtype, device=output.device)
        self._broadcast(parts, opts.rootRank)
        output.copy_(parts[self._rank])
        return done(outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        for each in (*outputs, *inputs):
            self._check_memory(each, "all_to_all")
        kinds = {(each.dtype, each.device) for each in (*outputs, *inputs)}
        if not len(outputs) == self._size == len(inputs) or len(kinds) != 1:
            refuse("all_to_all with lists that are not of a tensor of one type for each rank")
        self._all_to_all_parts(outputs, inputs, "all_to_all")
        return done(outputs)

    def all_to_all_single(self, output: torch.Tensor, tensor: torch.Tensor, output_splits: Any = None,
                          input_splits: Any = None, opts: Any = None) -> Work:
        """The parts may differ in size if all ranks give splits."""
        call = "all_to_all_single"
        self._check_memory(tensor, call)
        self._check_memory(output, call)
        if tensor.dtype != output.dtype or tensor.device != output.device:
            refuse(f"{call} of tensors that differ in type or device")
        if output_splits or input_splits:
            self._all_to_all_parts(self._parts(output, output_splits, call), self._parts(tensor, input_splits, call), call)
        else:
            if tensor.shape != output.shape or tensor.shape[0] % self._size:
                refuse(f"{call} of parts that differ in size, without splits,")
            self._all_to_all(output, tensor)
        return done(output)

    alltoall_base = all_to_all_single

    def _parts(self, tensor: torch.Tensor, splits: Any, call: str) -> Tensors:
        sizes = list(splits) if splits else [tensor.shape[0] // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != tensor.shape[0]:
            refuse(f"{call} with splits {sizes} of {tensor.shape[0]} for {self._size} ranks")
        return list(tensor.detach().split(sizes))

    def _all_to_all_parts(self, outputs: Tensors, inputs: Tensors, call: str) -> None:
        """Sends every part with the size of the largest part of any rank. Raises on all ranks if two ranks disagree on a size."""
        its, comm, kind = self._carrier, self._comm, _lib.TYPES["int64"]
        given, due = (torch.tensor([part.numel() for part in parts]) for parts in (inputs, outputs))
        told = torch.empty_like(given)
        its.run(lambda: comm.start_all_to_all(given.data_ptr(), told.data_ptr(), 1, kind, (given, told)))
        most = torch.stack([given.max(), (told != due).any().long()])
        its.run(lambda: comm.start_all_reduce(most.data_ptr(), most.data_ptr(), 2, kind, _lib.OPS["max"], 1.0, most))
        if most[1]:
            refuse(f"{call} of parts that one rank gives in another size than the other one takes")
        sent = inputs[0].new_zeros((self._size, int(most[0])))
        received = torch.empty_like(sent)
        with torch.no_grad():
            for row, part in zip(sent, inputs):
                row[:part.numel()] = part.reshape(-1)
            if sent.numel() > 0:
                self._all_to_all(received, sent)
            for row, part in zip(received, outputs):
                part.copy_(row[:part.numel()].view(part.shape))

    def _all_to_all(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        count, kind = _units(tensor)
        self._carry(lambda source, target, stream: self._comm.start_all_to_all(
            source.data_ptr(), target.data_ptr(), count // self._size, kind, (source, target), stream), tensor, output)

    def _gathered(self, tensor: torch.Tensor) -> torch.Tensor:
        target = torch.empty((self._size, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
        self._gather(tensor, target)
        return target

    def _gather(self, tensor: torch.Tensor, target: torch.Tensor) -> None:
        self._carry(lambda source, target, stream: self._comm.start_all_gather(
            source.data_ptr(), target.data_ptr(), *_units(source), (source, target), stream), tensor, target)

    def barrier(self, opts: Any = None) -> Work:
        self._carrier.run(self._comm.start_barrier)
        return done(None)

    # ---- what is refused

    def _check_parts(self, parts: Sequence[torch.Tensor], like: torch.Tensor, call: str) -> None:
        if len(parts) != self._size or any(each.shape != like.shape or each.dtype != like.dtype for each in parts):
            refuse(f"{call} with a list of tensors that is not one of the same shape and type for each rank")

    def _check_memory(self, tensor: torch.Tensor, call: str) -> None:
        _check_memory(tensor, call)
        self._check_device(tensor, call)

    def _check_device(self, tensor: torch.Tensor, call: str) -> None:
        if self._carrier.gpu.is_elsewhere(tensor):
            refuse(f"{call} of a tensor that is on {tensor.device}, where this rank's are on {self._carrier.gpu.device},")

    def _check_sizes(self, part: torch.Tensor, whole: torch.Tensor, call: str) -> None:
        self._check_memory(part, call)
        self._check_memory(whole, call)
        if part.device != whole.device:
            refuse(f"{call} of tensors that are on {part.device} and on {whole.device}")
        if whole.numel() != self._size * part.numel() or whole.dtype != part.dtype:
            refuse(f"{call} with tensors whose sizes or types do not fit")


def _units(tensor: torch.Tensor) -> Tuple[int, int]:
    """Returns the number of elements and their type. A type that the library lacks is carried as bytes."""
    if tensor.dtype in _TYPES:
        return tensor.numel(), _TYPES[tensor.dtype]
    return tensor.numel() * tensor.element_size(), _lib.TYPES["uint8"]


def _copy(parts: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
    for part, target in zip(parts, targets):
        target.copy_(part)


def _multiplied(opts: Any, tensor: torch.Tensor, size: int, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Multiplies by the factor of PREMUL_SUM, which may differ between ranks, or for AVG by that of float64, since the library's
    scale is a float32. `out`: the tensor itself, to change it in place."""
    if opts is not None and opts.reduceOp == getattr(dist.ReduceOp, "PREMUL_SUM", None):
        factor = opts.reduceOp.__getstate__()[1]
    elif opts is not None and opts.reduceOp == dist.ReduceOp.AVG and tensor.dtype == torch.float64:
        factor = 1.0 / size
    else:
        return tensor
    return (tensor.detach().clone() if out is None else out.detach()).mul_(factor)


def refuse(what: str) -> Any:
    raise RefusedError(f"cxxrun.torch: {what} is not carried by the group that survives; "
                       "docs/use/elastic_pytorch.md says what is")


def _refusal(name: str) -> Callable[..., Any]:
    return lambda self, *arguments, **named: refuse(name)


for _name in _REFUSED:
    setattr(Group, _name, _refusal(_name))


def _check_memory(tensor: torch.Tensor, call: str) -> None:
    if tensor.layout != torch.strided:
        refuse(f"{call} of a tensor that is sparse")
    if tensor.device.type not in ("cpu", "cuda"):
        refuse(f"{call} of a tensor that is on {tensor.device}")
    if not tensor.is_contiguous():
        refuse(f"{call} of a tensor that is not contiguous")


def kind_of(tensor: torch.Tensor, call: str) -> int:
    """Returns the library's number of the type, for a reduction. Refuses types that cannot be reduced."""
    _check_memory(tensor, call)
    return _TYPES[tensor.dtype] if tensor.dtype in _TYPES else refuse(f"{call} of {tensor.dtype}")


def _is_lacking(tensor: torch.Tensor, op: int) -> bool:
    """Whether the plugin lacks this reduction: MIN and MAX of floating point, in which NCCL loses NaNs."""
    return op != _lib.OPS["sum"] and tensor.is_floating_point()


def _op(options: Any, tensor: torch.Tensor, size: int, call: str) -> Any:
    op = dist.ReduceOp.SUM if options is None else options.reduceOp
    name = next((name for name in _OPS if op == getattr(dist.ReduceOp, name, None)), str(op))
    if name == "AVG" and tensor.is_floating_point():
        return _lib.OPS["sum"], 1.0 if tensor.dtype == torch.float64 else 1.0 / size  # see _multiplied()
    if name == "PREMUL_SUM" and tensor.is_floating_point() and options.reduceOp.__getstate__():  # 1.13 keeps its factor
        return _lib.OPS["sum"], 1.0
    if name.lower() in _lib.OPS:
        return _lib.OPS[name.lower()], 1.0
    return refuse(f"{call} with {name} of {tensor.dtype}")
