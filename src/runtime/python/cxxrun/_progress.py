"""cxxrun.step(): reports the progress of training."""
import json
import os
import time
from typing import Any, Dict, Optional, Tuple

from cxxrun import _files, _imports, _late, _process

_next = 0.0
_before: Optional[Tuple[int, float]] = None


def step(completed: int, **scalars: Any) -> None:
    """Call it after a training step. `completed`: how many steps are done, over all generations. A job that makes progress is
    restarted without a pause, and the launcher's report says when training began.

    At most once per second it appends a line with the scalars of that step to steps.jsonl beside this worker's logs:
    {"step": 120, "time": …, "steps_per_second": 8.3, "loss": 0.25}.

    If the process has an Elastic, which reports steps by itself, it only writes that line."""
    _imports.settle()
    page = _process.page()
    if page is not None:
        page.step(completed)
        _late.show(page)
    elif not _process.has_elastic():
        return
    global _next, _before
    moment = time.monotonic()
    if moment >= _next:
        rate = (completed - _before[0]) / (moment - _before[1]) if _before else None
        _next, _before = moment + 1.0, (completed, moment)
        _write({"step": completed, "time": round(time.time(), 3), "steps_per_second": rate, **scalars})


def _write(line: Dict[str, Any]) -> None:
    """Appends the line. A full disk, a lost directory or an odd scalar must not end the training, so errors are dropped."""
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    if not error_file:
        return
    try:
        _files.append(os.path.join(os.path.dirname(error_file), "steps.jsonl"), _text(line) + "\n", own=3)
    except (OSError, TypeError, ValueError, OverflowError):
        pass


def _text(line: Dict[str, Any]) -> str:
    """Returns the line as JSON. NaN and infinity, which JSON lacks, become null."""
    try:
        return json.dumps(line, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(line, default=_plain), parse_constant=lambda _: None))


def _plain(scalar: Any) -> Any:
    """Returns a number for a tensor of one element."""
    try:
        return float(scalar)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return str(scalar)
