"""Arms faulthandler so that the launcher can have this process's Python stacks: launcher/hangs/python_stack.hpp.

On the signal they are written to a memfd whose name holds the signal's number. That happens in C: it needs neither the
interpreter's lock nor a debugger. The descriptor is not inherited by programs that this one executes."""
import faulthandler
import os
import signal
import sys
from typing import Optional

SIGNAL = int(signal.SIGRTMIN) + 13
_armed: Optional[int] = None  # faulthandler keeps the number of the descriptor, not the file


def arm() -> None:
    """Once in a process; not where the program uses the signal itself."""
    global _armed
    _armed = _armed or getattr(sys.modules.get("_cxxrun_bootstrap"), "stacks", None)
    if _armed is None and signal.getsignal(SIGNAL) == signal.SIG_DFL:
        _armed = os.memfd_create(f"cxxrun-stacks-{SIGNAL}", os.MFD_CLOEXEC)
        faulthandler.register(SIGNAL, file=_armed, all_threads=True)


def armed() -> Optional[int]:
    """The descriptor of the file with the stacks."""
    return _armed
