"""Reads PyTorch's flight recorders: which collectives are under way. NCCL has one, and gloo in new releases; PyTorch 1.13 has
none."""
import json
import os
import sys
from typing import Any, Callable, Collection, List, Optional, Sequence, Tuple, Union

from cxxrun import _page
from cxxrun._calls import Told, packed


_MODULE = "torch._C._distributed_c10d"
_DUMPS = "_dump_nccl_trace_json", "_dump_fr_trace_json"
_SIZES = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"
_ENTRIES = "2000"  # as PyTorch recommends, and the default of new releases


def turn_on(version: str) -> None:
    """Has NCCL's recorder keep entries, unless the user has decided; before the first group is made. `version`: of torch. Before
    2.8 it reads the second name alone, and from then on it warns of that."""
    if hasattr(sys.modules.get(_MODULE), _DUMPS[0]) and not any(name in os.environ for name in _SIZES):
        is_old = [int(part) for part in version.split(".")[:2]] < [2, 8]
        os.environ[_SIZES[is_old]] = _ENTRIES


def recorder() -> Optional[Callable[[], List[Union[str, bytes]]]]:
    """Returns a function that dumps every recorder, which may take 20 ms, or None if this torch has no recorder."""
    c10d = sys.modules.get(_MODULE)
    dumps = [getattr(c10d, name) for name in _DUMPS if hasattr(c10d, name)]
    return (lambda: [dump(True, False) for dump in dumps]) if dumps else None  # also what is done


def told(texts: Sequence[Union[str, bytes]], group: str, number: Optional[int],
         counted: Collection[str] = ()) -> Optional[Told]:
    """`group`: the name of the default group. `number`: that of its newest collective, None if there is none. `counted`: the
    names of the other groups whose numbers are compared. Returns None if the recorders are off, do not know this backend, or
    write another format. Pure."""
    try:
        entries = [entry for text in texts for entry in _entries(text)]
        mine = [entry for entry in entries if entry["process_group"][0] == group]
        active = [entry for entry in mine if not entry["retired"]]
        if not entries or (number is not None and not mine):
            return None
        if not active:
            others = [entry for entry in entries if not entry["retired"]]
            is_counted = all(entry["process_group"][0] in counted and not entry.get("is_p2p") for entry in others)
            return Told(_page.BEGUN, _page.IS_DONE, is_counted, not others)
        oldest = min(active, key=lambda entry: entry["collective_seq_id"])
        is_newest = oldest["collective_seq_id"] == number
        return Told(*(_meaning(oldest) if is_newest else (_page.UNKNOWN, 0)), here=True)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError):
        return None


def _entries(text: Union[str, bytes]) -> Any:
    try:
        return json.loads(text).get("entries", [])
    except (ValueError, AttributeError):
        return []


def _meaning(entry: Any) -> Tuple[int, int]:
    dtypes, sizes = entry["input_dtypes"] or ["Byte"], entry["input_sizes"] or [[0]]
    count = 1
    for each in sizes[0]:
        count *= each
    return packed(entry["profiling_name"].split(":")[-1], dtypes[0]), count
