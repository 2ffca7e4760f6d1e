"""The connection of this process to its agent: one page, made when it is first needed."""
import os
import signal
import sys
from typing import Callable, Optional

from cxxrun import _page
from cxxrun._errors import RefusedError

_kept: Optional[_page.Page] = None
_asked = False
_why = ""
_elastic = False
_gives_way = False
_handler: Optional[Callable[..., None]] = None  # of SIGTERM, installed by this package


def page(gives_way: bool = False) -> Optional[_page.Page]:
    """Returns the page, or None; why_not() says why. A forked child has none, and does not use that of its parent. With
    `gives_way` the page is handed over when an Elastic is made, unless another caller has asked without it."""
    global _kept, _asked, _why, _gives_way
    _gives_way = gives_way and (_gives_way or not _asked)
    if not _asked:
        _asked = True
        if is_helper():
            _why = "this process is a helper of a worker"
            return None
        try:
            _kept = _page.connect()
        except _page.Refused as refused:
            _why = str(refused)
    return _kept


def is_helper() -> bool:
    """Whether multiprocessing started this process: such a process has the environment of the worker and may run its script."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def why_not() -> str:
    return _why


def leave_to_elastic() -> None:
    """From now on libcxxrun reports to the launcher. A process has one page, so this package gives its own up."""
    global _asked, _why, _elastic
    if _kept is not None and _gives_way:
        _kept.close()
    elif _kept is not None:
        raise RefusedError("Elastic: this process has told the launcher of itself already; make Elastic() before "
                           "cxxrun.step(), cxxrun.checkpoint_wanted() or another process group")
    _asked, _why, _elastic = True, "this process has had an Elastic, which alone shows what it does", True


def has_elastic() -> bool:
    return _elastic


def why_alone() -> str:
    """Says why libcxxrun found no launcher."""
    try:
        _page.connect().close()
    except _page.Refused as refused:
        return str(refused)
    return "libcxxrun could not register with the launcher"


def handle_sigterm(handler: Callable[..., None]) -> None:
    """Installs a handler of SIGTERM, in this process alone."""
    global _handler
    _handler = handler
    signal.signal(signal.SIGTERM, handler)


def _forked() -> None:
    global _kept, _asked, _why
    if _kept is not None:
        _kept.close()  # so that the agent sees the end of the worker, and not only that of its helpers
        _kept, _asked, _why = None, True, "this process is a helper of a worker"
    if _handler is not None and signal.getsignal(signal.SIGTERM) is _handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # multiprocessing ends helpers by it, and then waits for them


os.register_at_fork(after_in_child=_forked)


def complain(text: str) -> None:
    """Writes one line to stderr. Only rank 0 does, because all ranks would say the same."""
    if os.environ.get("RANK", "0") == "0":
        print("cxxrun: " + text, file=sys.stderr, flush=True)
