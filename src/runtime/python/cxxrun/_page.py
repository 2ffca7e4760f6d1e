"""The worker's side of the memory that it shares with its agent. src/base/worker/control_page.hpp has the layout, and
agent_packets.hpp how a worker gets it. tests/src/base/worker/page_view_test.cpp compares the numbers."""
import array
import mmap
import os
import socket
import struct
import time
from typing import List, NamedTuple, Sequence, Tuple

# Offsets of the words, and some of their values.
LAYOUT = 7959393778188619778
CHECKPOINTS = 80
ENDS = 84
GENERATION = 128
STEP = 136
ALIVE = 144
FIRST_STEP = 152
LAST_STEP = 160
ENTERED = 168
DONE = 176
RING = 184
ENTRY = 40
ENTRIES = 64
ELSEWHERE = 2768
GROUP_WORDS = 2944
GROUPS = 16
IDLE = 3328
DDP_SAMPLE = 3344
DDP_FORWARD = 3352
DDP_BACKWARD = 3360
DDP_REDUCING = 3368
LOOKS = 3376
LOOKED_BEGUN = 3384
LOOKED_AT = 3392
FED = 3400
SAVED = 3408
UPDATES = 3416
UPDATED = 3424
UNKNOWN = 4294967295
BEGUN = 4294967294
IN_BACKWARD = 1
IS_DONE = 2
UNKNOWN_OP = 255

_MAGIC = b"CXXWORK\x01"
_REGISTER, _WELCOME, _NO = 1, 65, 66
_ANSWER = 10.0  # seconds to wait for the agent, which may be busy with starting workers


class GroupCount(NamedTuple):
    """A group, by a number that is the same for all members; how many collectives were begun in it; how many members it has."""

    id: int
    begun: int
    size: int


class Refused(OSError):
    """The process gets no page. The text is one line that says why."""


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def connect() -> "Page":
    """Returns the page of this process. Raises Refused if there is no launcher, it has gone, it refuses, or its version
    differs."""
    name = os.environ.get("CXXRUN_AGENT", "")
    if not name:
        raise Refused("no launcher that can be told (CXXRUN_AGENT is not set)")
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(_ANSWER)
    try:
        link.connect("\0" + name[1:] if name.startswith("@") else name)
        rank, generation = int(os.environ["LOCAL_RANK"]), int(os.environ["CXXRUN_GENERATION"])
        link.send(_MAGIC + struct.pack("=BQIB", _REGISTER, generation, rank, 0))
        packet, descriptors = _receive(link)
        return Page(link, packet, descriptors, generation)
    except Refused:
        link.close()
        raise
    except (OSError, KeyError, ValueError, IndexError) as error:
        link.close()
        raise Refused(f"the launcher at CXXRUN_AGENT={name} cannot be told: {error!r}") from None


def _receive(link: socket.socket) -> Tuple[bytes, List[int]]:
    packet, others, _, _ = link.recvmsg(65536, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in others:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % 4])
    return packet, list(descriptors)


class Page:
    """One thread at a time writes a word, with a single aligned store of 8 bytes, so a reader never sees half of one."""

    def __init__(self, link: socket.socket, packet: bytes, descriptors: List[int], generation: int) -> None:
        self._link = link  # the agent keeps the page for as long as this socket is open
        self._last = 0
        try:
            if packet[:8] != _MAGIC or packet[8:9] not in (bytes([_WELCOME]), bytes([_NO])):
                raise Refused("the launcher is of another version than this package: its answer has another form")
            if packet[8] == _NO:
                raise Refused("the launcher refuses this process: " + packet[13:].decode(errors="replace"))
            memory = memoryview(mmap.mmap(descriptors[0], 4096))
            self._words, self._halves = memory.cast("Q"), memory.cast("I")
        finally:
            for each in descriptors:
                os.close(each)
        if self.get(0) != LAYOUT:
            raise Refused("the launcher is of another version than this package: its page has another layout")
        self.show_nothing()
        self.put(ALIVE, now())
        self.put(GENERATION, generation)

    def put(self, at: int, number: int) -> None:
        self._words[at // 8] = number  # struct.pack_into() would write zeros first

    def get(self, at: int) -> int:
        return self._words[at // 8]

    def half(self, at: int) -> int:
        """Reads a word of 4 bytes."""
        return self._halves[at // 4]

    def show(self, entered: int, what: int = BEGUN, count: int = 0, groups: "Sequence[GroupCount]" = (),
             idle: bool = False) -> None:
        """`entered`: collectives begun in the default group; `what` and `count`: the last one, and whether it is done. `groups`:
        the other groups, at most GROUPS of them. `idle`: no collective is under way in any group."""
        if entered > 0:
            at = RING + ENTRY * (entered % ENTRIES)
            began = self.get(at + 8) if entered == self._last else now()
            self.put(at, 0)
            for i, word in enumerate((began, 0, count, what), 1):  # `what`, and 4 bytes of padding
                self.put(at + 8 * i, word)
            self.put(at, entered)
        self._last = entered
        self._show_groups(groups)
        self.put(IDLE, int(idle))
        self.put(ENTERED, entered)
        self.put(DONE, max(entered - 1, 0))
        self.put(ELSEWHERE, 0)
        self.put(ALIVE, now())

    def _show_groups(self, groups: "Sequence[GroupCount]") -> None:
        for i, (name, begun, size) in enumerate([*groups, *[GroupCount(0, 0, 0)] * GROUPS][:GROUPS]):
            at = GROUP_WORDS + 24 * i
            if self.get(at) != name:
                self.put(at, 0)
                self.put(at + 16, size)
            self.put(at + 8, begun)
            self.put(at, name)

    def show_nothing(self) -> None:
        """The rank may be waiting in a call that is not counted: the coordinator calls it late only if it is stopped."""
        self.put(ELSEWHERE, 1)

    def step(self, completed: int) -> None:
        moment = now()
        self.put(ALIVE, moment)
        if self.get(FIRST_STEP) == 0:
            self.put(FIRST_STEP, moment)
        self.put(LAST_STEP, moment)
        self.put(STEP, completed)

    def update(self) -> None:
        """The optimizer has stepped."""
        self.put(UPDATED, now())
        self.put(UPDATES, self.get(UPDATES) + 1)

    def sample(self, number: int, forward: int, backward: int, reducing: int) -> None:
        """What DistributedDataParallel has logged of its step of that number, in nanoseconds."""
        for at, word in ((DDP_FORWARD, forward), (DDP_BACKWARD, backward), (DDP_REDUCING, reducing), (DDP_SAMPLE, number)):
            self.put(at, word)

    def fed(self, waited: int) -> None:
        """So many nanoseconds more were spent waiting for input."""
        self.put(FED, self.get(FED) + waited)

    def saved(self, of: int) -> None:
        """A checkpoint is complete that holds the state of that instant."""
        self.put(SAVED, of)

    def look(self, begun: int) -> None:
        """So many collectives of the default group are begun now. The page has the sums over all looks."""
        looks = self.get(LOOKS) + 1
        self.put(LOOKS, 0)
        self.put(LOOKED_BEGUN, self.get(LOOKED_BEGUN) + begun)
        self.put(LOOKED_AT, self.get(LOOKED_AT) + now() // 1_000_000)
        self.put(LOOKS, looks)

    def close(self) -> None:
        self._link.close()
