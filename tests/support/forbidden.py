"""Filters as containers have them: calls that are answered with an error. For preexec_fn of subprocess."""
import ctypes
import errno
import struct

# Of x86-64.
SOCKET, EPOLL_CREATE1, IO_URING_SETUP, PIDFD_OPEN, PIDFD_SEND_SIGNAL = 41, 291, 425, 434, 424
AF_INET6, AF_NETLINK = 10, 16
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERROR = 0x7fff0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2


def forbid(call, first=None, answer=errno.EPERM):
    """That call, or that call with `first` as its first argument."""
    def word(code, value, yes=0, no=0):
        return struct.pack("HBBI", code, yes, no, value)
    tests = [word(LOAD, 0), word(EQUAL, call, 0, 1 if first is None else 3)]
    tests += [] if first is None else [word(LOAD, 16), word(EQUAL, first, 0, 1)]
    program = b"".join([*tests, word(RETURN, ERROR | answer), word(RETURN, ALLOW)])
    text = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, FILTER, filter_, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no filter")
