"""What PyTorch's flight recorder says of collectives that are under way (gloo in new releases; 1.13 has none)."""
import json
import sys
from typing import Any, Callable, Optional, Tuple

from cxxrun import _page
from cxxrun._told import Told, packed


def recorder() -> Optional[Callable[[], str]]:
    """Gives the recorder's text, which may take 20 ms; None: this torch has none."""
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace_json", None)
    return None if dump is None else lambda: dump(True, True)


def told(text: str, group: str, number: int) -> Optional[Told]:
    """`group`: the default group's name; `number`: of its newest collective. None: the recorder is off, knows nothing of
    this backend, or writes another form. Pure."""
    try:
        entries = json.loads(text).get("entries", [])
        mine = [entry for entry in entries if entry["process_group"][0] == group]
        active = [entry for entry in mine if not entry["retired"]]
        if not mine:
            return None
        if not active:
            waits_elsewhere = any(not entry["retired"] for entry in entries)
            return Told(_page.BEGUN, _page.IS_DONE, not waits_elsewhere)
        oldest = min(active, key=lambda entry: entry["collective_seq_id"])
        is_newest = oldest["collective_seq_id"] == number
        return Told(*(_meaning(oldest) if is_newest else (_page.UNKNOWN, 0)), here=True)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError):
        return None


def _meaning(entry: Any) -> Tuple[int, int]:
    dtypes, sizes = entry["input_dtypes"] or ["Byte"], entry["input_sizes"] or [[0]]
    count = 1
    for each in sizes[0]:
        count *= each
    return packed(entry["profiling_name"].split(":")[-1], dtypes[0]), count
