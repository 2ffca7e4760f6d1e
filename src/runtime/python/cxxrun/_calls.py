"""What is known about the collective that a rank is in, from any source; and what its Python stack tells of that, for releases
of torch without a flight recorder."""
from types import FrameType
from typing import Any, Callable, NamedTuple, Optional

from cxxrun import _page

_C10D = "torch/distributed/distributed_c10d.py"
_AUTOGRAD = "torch/autograd/__init__.py"
# These wait for one peer, or consist of calls that do. Not every release of PyTorch numbers them.
_UNNUMBERED = {"send", "recv", "monitored_barrier", "new_group", "_store_based_barrier"}
# Names in torch.distributed and in the flight recorder; numbers of src/base/core/call.hpp.
KINDS = {
    "all_reduce": 0, "allreduce": 0,
    "reduce_scatter": 1, "reduce_scatter_tensor": 1, "_reduce_scatter_base": 1,
    "all_gather": 2, "allgather": 2, "all_gather_into_tensor": 2, "_all_gather_base": 2, "_allgather_base": 2,
    "broadcast": 3,
    "all_to_all": 4, "alltoall": 4, "all_to_all_single": 4, "alltoall_base": 4,
    "barrier": 5,
}
_TYPES = {"float": 0, "double": 1, "half": 2, "bfloat16": 3, "int": 4, "long": 5, "byte": 6,
          "float32": 0, "float64": 1, "float16": 2, "int32": 4, "int64": 5, "uint8": 6}


class Told(NamedTuple):
    """The newest collective of the default group, in the terms of _page.Page.show. `here`: True if the rank is in a collective
    of a counted group, or in none; False if it may be waiting in another group, or for one peer; None if that is not known.
    `idle`: it is in no collective."""

    what: int = _page.BEGUN
    count: int = 0
    here: Optional[bool] = None
    idle: bool = False


def packed(name: str, dtype: str) -> int:
    """Returns `what` of control_page.hpp, or UNKNOWN if the runtime has no such kind or type."""
    kind, kind_of_type = KINDS.get(name), _TYPES.get(dtype.lower().replace("torch.", ""))
    if kind is None or kind_of_type is None:
        return _page.UNKNOWN
    return kind | kind_of_type << 8 | _page.UNKNOWN_OP << 16


def told(frame: Optional[FrameType], is_default: Callable[[Any], bool], is_counted: Callable[[Any], bool]) -> Told:
    """`frame`: the innermost frame of the thread. `is_default(group)`: whether it is the default group. `is_counted(group)`:
    whether it is another group whose numbers are compared between ranks. Keeps no reference to the frames' variables."""
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if path.endswith(_C10D):
            if name in _UNNUMBERED:
                return Told(here=False)
            if name in KINDS:
                return _in_call(name, frame.f_locals, is_default, is_counted)
        if path.endswith(_AUTOGRAD) and name == "backward":
            return Told(_page.BEGUN, _page.IN_BACKWARD)
        frame = frame.f_back
    return Told()


def _in_call(name: str, variables: Any, is_default: Callable[[Any], bool], is_counted: Callable[[Any], bool]) -> Told:
    group = variables.get("group")
    if group is not None and not is_default(group):
        return Told(here=is_counted(group))
    tensor = variables.get("tensor")
    if tensor is None or not hasattr(tensor, "numel"):
        return Told(packed(name, "byte"), 0, True)
    return Told(packed(name, str(tensor.dtype)), tensor.numel(), True)
