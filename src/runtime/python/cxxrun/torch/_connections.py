"""Gloo's connections of this process, to be ended when a peer has failed: whoever waits in one of gloo's calls for a rank
that is alive itself hears of it in no other way. ProcessGroupGloo.abort() does nothing.

Gloo tells its peers by the store where it listens, and a connection that it has accepted has the port of the one that
listens. Of each connection one end was accepted, so that all of them end when all ranks end theirs."""
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
        """What gloo tells its peers: the addresses of the sockets that it listens on are in it, as the kernel has them."""
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
    """Of the internet. A descriptor of one's own each: nobody else can close it meanwhile and open another in its place."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as its:
                    if its.family in _FAMILIES and its.type == socket.SOCK_STREAM:
                        yield its


def _listens(its: socket.socket) -> bool:
    return bool(its.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
