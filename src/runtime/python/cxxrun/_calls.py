"""Which collective a thread is in, read from its Python stack: for releases of torch without a flight recorder."""
from types import FrameType
from typing import Any, Callable, Optional

from cxxrun import _page
from cxxrun._told import KINDS, Told, packed

_C10D = "torch/distributed/distributed_c10d.py"
_AUTOGRAD = "torch/autograd/__init__.py"
# These wait for one peer, or consist of calls that do. Not every release of PyTorch numbers them.
_UNNUMBERED = {"send", "recv", "monitored_barrier", "new_group", "_store_based_barrier"}


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
