"""What is known about the collective that a rank is in, from any source; the names of kinds and types."""
from typing import NamedTuple, Optional

from cxxrun import _page

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
