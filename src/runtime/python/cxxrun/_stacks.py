"""Arms faulthandler, so that the launcher can get the Python stacks of this process (launcher/hangs/python_stack.hpp).

On a signal, the stacks are written to a memfd whose name holds the number of the signal. C code does that: it needs neither
the interpreter's lock nor a debugger. Programs that this process executes do not inherit the descriptor."""
import faulthandler
import os
import signal
import sys
from typing import Optional

SIGNAL = int(signal.SIGRTMIN) + 13
_armed: Optional[int] = None  # faulthandler keeps the number of the descriptor, not the file


def arm() -> None:
    """Arms once in a process, and not if the program uses the signal itself."""
    global _armed
    _armed = _armed or getattr(sys.modules.get("_cxxrun_bootstrap"), "stacks", None)
    if _armed is None and signal.getsignal(SIGNAL) == signal.SIG_DFL:
        _armed = os.memfd_create(f"cxxrun-stacks-{SIGNAL}", os.MFD_CLOEXEC)
        faulthandler.register(SIGNAL, file=_armed, all_threads=True)


def armed() -> Optional[int]:
    """Returns the descriptor of the file with the stacks, or None."""
    return _armed
