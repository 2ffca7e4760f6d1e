"""cxxrun.step(): how far training has come."""
import json
import os
import time
from typing import Any, Dict, Optional, Tuple

from cxxrun import _files, _imports, _process

_next = 0.0
_before: Optional[Tuple[int, float]] = None


def step(completed: int, **scalars: Any) -> None:
    """After a training step: `completed` of them are done, in all generations together. A job that gets on is restarted
    at once, and the launcher's account says when training began.

    At most once per second, with the scalars of that step, a line goes to steps.jsonl beside this worker's logs:
    {"step": 120, "time": …, "steps_per_second": 8.3, "loss": 0.25}.

    Beside an Elastic, which tells the launcher of its steps itself, that line is all it does."""
    _imports.settle()
    page = _process.page()
    if page is not None:
        page.step(completed)
    elif not _process.has_elastic():
        return
    global _next, _before
    moment = time.monotonic()
    if moment >= _next:
        rate = (completed - _before[0]) / (moment - _before[1]) if _before else None
        _next, _before = moment + 1.0, (completed, moment)
        _write({"step": completed, "time": round(time.time(), 3), "steps_per_second": rate, **scalars})


def _write(line: Dict[str, Any]) -> None:
    """Where a full disk, a lost directory or an odd scalar must not end a training."""
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    if not error_file:
        return
    try:
        _files.append(os.path.join(os.path.dirname(error_file), "steps.jsonl"), _text(line) + "\n")
    except (OSError, TypeError, ValueError, OverflowError):
        pass


def _text(line: Dict[str, Any]) -> str:
    """What is no number in JSON, such as the loss of a training that diverges, becomes null."""
    try:
        return json.dumps(line, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(line, default=_plain), parse_constant=lambda _: None))


def _plain(scalar: Any) -> Any:
    """A tensor of one element becomes a number."""
    try:
        return float(scalar)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return str(scalar)
