"""Sends the state of one rank to others. Its structure is pickled. Tensors go in pieces, from device to device if they are on
one, into the tensors that the receiver already has."""
import copy
import weakref
from typing import Any, Callable, Iterator, List, Tuple

import torch

from cxxrun import _lib
from cxxrun.torch._pickled import packed, unpacked

_PIECE = 256 << 20  # bytes


class Shard:
    """A DTensor without its mesh, which belongs to one process."""

    def __init__(self, local: torch.Tensor, placements: Any, shape: Any, stride: Any) -> None:
        self.local, self.placements, self.shape, self.stride = local, placements, shape, stride


def of(its: Any) -> Any:
    """Returns the state without bound methods: OneCycleLR of torch 1.13 includes its own, and with each the whole object.
    CyclicLR includes a weak reference to its own, which nothing can copy."""
    state = its.state_dict()
    own = [name for name, value in state.items() if getattr(value, "__self__", None) is its or isinstance(
        value, weakref.WeakMethod)] if type(state) is dict else []
    return {name: value for name, value in state.items() if name not in own} if own else state


def share(gpu: Any, comm: _lib.Communicator, root: int, gives: bool, mine: Any) -> Any:
    """Returns the state of `root`. Collective. `mine`: on `root` the state to give; elsewhere this rank's state, whose tensors
    are overwritten, or None if this rank wants nothing."""
    told: List[_Told] = []
    tensors: List[torch.Tensor] = []

    def tell(tensor: torch.Tensor, _: Any) -> _Told:
        told.append(_Told(tensor))
        tensors.append(tensor.detach())
        return told[-1]

    def place(its: _Told, own: Any) -> Any:
        told.append(its)
        if mine is not None:
            tensors.append(its.place(own))
        return tensors[-1] if tensors else None

    if gives:
        comm.broadcast_bytes(packed(_replaced(mine, None, _is_plain, tell)), root)
        state = mine
    else:
        state = _replaced(unpacked(comm.broadcast_bytes(None, root)), mine, lambda its: isinstance(its, _Told), place)
    for kind in ("cpu", "cuda"):
        numbers = [number for number, its in enumerate(told) if its.device == kind]
        its_tensors = [tensors[number] for number in numbers] if tensors else []
        device = gpu.device if kind == "cuda" and gpu.on_device else torch.device("cpu")
        with torch.no_grad():
            _pass_on(gpu, comm, root, gives, [told[number].bytes for number in numbers], its_tensors, device)
    return state


class _Told:
    """Stands for a tensor in the pickled structure."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device.type
        self.bytes = tensor.numel() * tensor.element_size()

    def place(self, own: Any) -> torch.Tensor:
        """Returns `own` if its shape and type match, else a new tensor."""
        if _is_plain(own) and own.is_contiguous() and (
                own.shape, own.dtype, own.device.type) == (self.shape, self.dtype, self.device):
            return torch.Tensor.detach(own)
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)


def _is_plain(its: Any) -> bool:
    return type(its) in (torch.Tensor, torch.nn.Parameter) and its.layout == torch.strided and (
        its.device.type in ("cpu", "cuda") and not its.is_quantized and not its.is_complex())


def _replaced(state: Any, own: Any, is_leaf: Callable[[Any], bool], change: Callable[[Any, Any], Any]) -> Any:
    """Returns a copy with each leaf replaced. `own` is walked in parallel as far as its structure matches."""
    if is_leaf(state):
        return change(state, own)
    if isinstance(state, dict):
        changed = copy.copy(state)  # keeps attributes that torch adds to the dict
        for key, value in state.items():
            changed[key] = _replaced(value, own.get(key) if isinstance(own, dict) else None, is_leaf, change)
        return changed
    if isinstance(state, Shard):
        changed = copy.copy(state)
        changed.local = _replaced(state.local, own.local if isinstance(own, Shard) else None, is_leaf, change)
        return changed
    if type(state) in (list, tuple):
        others = own if type(own) is type(state) and len(own) == len(state) else [None] * len(state)
        return type(state)(_replaced(value, other, is_leaf, change) for value, other in zip(state, others))
    return state


def _pass_on(gpu: Any, comm: _lib.Communicator, root: int, gives: bool, sizes: List[int], tensors: List[torch.Tensor],
             device: torch.device) -> None:
    """Sends the tensors of one device, piece by piece. A rank without tensors takes part, and keeps nothing."""
    buffer = torch.empty(min(_PIECE, sum(sizes)), dtype=torch.uint8, device=device)
    for piece in _pieces(sizes, buffer.numel()):
        parts = [(buffer[at:at + size], _bytes_of(tensors[number])[begin:begin + size])
                 for number, begin, size, at in piece] if tensors else []
        for within, its in parts if gives else ():
            within.copy_(its)
        _, _, size, at = piece[-1]
        whole = buffer[:at + size]
        gpu.begin(lambda stream: comm.start_broadcast(whole.data_ptr(), whole.numel(), _lib.TYPES["uint8"], root, whole, stream),
                  [whole], []).wait()
        for within, its in parts if not gives else ():
            its.copy_(within)


def _pieces(sizes: List[int], most: int) -> Iterator[List[Tuple[int, int, int, int]]]:
    """Yields pieces. Each is a list of (tensor number, its first byte, byte count, offset in the piece)."""
    piece, room = [], most
    for number, size in enumerate(sizes):
        begin = 0
        while begin < size:
            taken = min(size - begin, room)
            piece.append((number, begin, taken, most - room))
            begin, room = begin + taken, room - taken
            if room == 0:
                yield piece
                piece, room = [], most
    if piece:
        yield piece


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
