"""What PyTorch's flight recorders say of collectives that are under way: that of NCCL, and that of gloo in new releases;
1.13 has none."""
import json
import sys
from typing import Any, Callable, Collection, List, Optional, Sequence, Tuple, Union

from cxxrun import _page
from cxxrun._told import Told, packed


_DUMPS = "_dump_nccl_trace_json", "_dump_fr_trace_json"


def recorder() -> Optional[Callable[[], List[Union[str, bytes]]]]:
    """Gives the text of each recorder, which may take 20 ms; None: this torch has none."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    dumps = [getattr(c10d, name) for name in _DUMPS if hasattr(c10d, name)]
    return (lambda: [dump(True, False) for dump in dumps]) if dumps else None  # also what is done


def told(texts: Sequence[Union[str, bytes]], group: str, number: Optional[int],
         counted: Collection[str] = ()) -> Optional[Told]:
    """`group`: the default group's name; `number`: of its newest collective, None: it has none. `counted`: the names of
    other groups that are compared. None: the recorders are off, know nothing of this backend, or write another form.
    Pure."""
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
