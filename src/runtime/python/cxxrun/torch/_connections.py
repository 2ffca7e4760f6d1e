"""Ends gloo's connections of this process when a peer has failed. A rank that waits in a gloo call for a rank that is alive
would not learn of the failure otherwise. ProcessGroupGloo.abort() does nothing.

Gloo tells its peers through the store where it listens. A connection that it has accepted has the port of the listening
socket. One end of each connection was accepted, so all connections end when every rank ends those that it accepted."""
import os
import socket
import struct
from contextlib import suppress
from typing import Iterator, Set, Tuple

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


class Connections:
    def __init__(self) -> None:
        self._places: Set[Tuple[int, int]] = set()

    def note(self, told: bytes) -> None:
        """Takes what gloo tells its peers: it contains the addresses of its listening sockets, in the kernel's format."""
        for its in _sockets():
            place = its.family, its.getsockname()[1]
            if _listens(its) and struct.pack("=H", place[0]) + struct.pack(">H", place[1]) in told:
                self._places.add(place)

    def end(self) -> None:
        for its in _sockets():
            if not _listens(its) and (its.family, its.getsockname()[1]) in self._places:
                with suppress(OSError):  # it has ended already
                    its.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        self._places = set()


def _sockets() -> Iterator[socket.socket]:
    """Yields the IP sockets of this process. Each is a duplicate, so that no other thread can close it and reuse its number."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as its:
                    if its.family in _FAMILIES and its.type == socket.SOCK_STREAM:
                        yield its


def _listens(its: socket.socket) -> bool:
    return bool(its.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
