"""Reads four times a second how many collectives the groups of PyTorch have begun, and shows it to the agent; that of the
default group twelve times a second.

DistributedDataParallel, FSDP and functional collectives start in C++, where no Python function could be wrapped. The sequence
number of each group counts them all. It does not say whether a collective is done."""
import atexit
import hashlib
import os
import sys
import threading
import time
from types import ModuleType
from typing import Any, Dict, Optional, Set, Tuple

from cxxrun import _calls, _flight, _imports, _page, _process
from cxxrun._calls import Told
from cxxrun._judge import NOTHING, Judge

_PERIODS = (0.083, 0.097, 0.069)  # in turn: looks at equal intervals would keep step with some training
_SHARE = 0.0002  # of a core is the most that the flight recorder may cost: a dump of 2,000 entries takes 20 to 40 ms


class Watch(threading.Thread):
    """One per process. Its groups may end and be made again; it keeps no reference to them."""

    def __init__(self, page: _page.Page, c10d: ModuleType) -> None:
        super().__init__(name="cxxrun", daemon=True)
        self._page, self._c10d = page, c10d
        self._flight = _flight.recorder()
        self._flight_again = 0.0
        self._judge, self._group, self._caller = Judge(), 0, 0
        self._uncounted: Set[int] = set()  # groups with point-to-point calls, which only their two ranks count
        self._ids: Dict[str, int] = {}  # by a group's name
        self._bases: Dict[int, int] = {}  # by a group's id: its sequence number when it was made, the same on all ranks
        self._lock = threading.Lock()
        self._ended = False
        self._sees = 0
        self._bell = threading.Lock()
        self._bell.acquire()
        self._pid = os.getpid()

    def begin(self) -> None:
        """The calling thread has made the default group. From here on its collectives are numbered alike on all ranks."""
        with self._lock:
            group = default_group(self._c10d)
            self._group, self._caller = id(group), threading.get_ident()
            self.begin_group(group)
            self._judge, self._ids, self._sees = Judge(), {}, 0
            self._uncounted.discard(id(group))
            if not self._ended:
                self._see()
        if not self.is_alive() and not self._ended:
            atexit.register(self.stop)
            self.start()

    def stop(self) -> None:
        """The script has ended. The page says that nothing is known of this rank any more: the last observation may be that others
        wait for it."""
        if os.getpid() != self._pid:
            return  # a forked child: the page belongs to its parent
        self._ended = True
        with self._lock:
            self._page.show_nothing()
        if self._bell.locked():
            self._bell.release()
        self.join(1.0)

    def begin_group(self, group: Any) -> None:
        self._bases[id(group)] = number_of(group) or 0

    def _begun(self, group: Any) -> Optional[int]:
        """Returns the number of collectives since begin(), or None if the backend does not count them."""
        number = number_of(group)
        return None if number is None else max(number - self._bases.get(id(group), 0), 0)

    def between_two(self, group: Any) -> None:
        self._uncounted.add(id(group))

    def run(self) -> None:
        # A lock, because Event.wait() takes twice the time, and this loop is the cost of install().
        while not self._bell.acquire(timeout=_PERIODS[self._sees % len(_PERIODS)]) and not self._ended:
            with self._lock:
                if not self._ended:
                    self._see()

    def _see(self) -> None:
        try:
            if self._sees % len(_PERIODS) == 0:
                self._look()
            self._sum()
            self._sees += 1
        except Exception as error:  # a PyTorch that counts or records in another way
            self._ended = True
            self._page.show_nothing()
            _process.complain(f"install(): hangs are not named any more: {type(error).__name__}: {error}")

    def _sum(self) -> None:
        """By the sums of what is seen here the launcher finds a rank that begins its collectives later than others."""
        group = default_group(self._c10d)
        if group is not None and id(group) == self._group and id(group) not in self._uncounted:
            begun = self._begun(group)
            if begun:
                self._page.look(begun)

    def _look(self) -> None:
        group = default_group(self._c10d)
        if group is None or id(group) != self._group:
            self._page.show_nothing()
            return
        default = None if id(group) in self._uncounted else self._begun(group)
        if default:
            _imports.settle()
        counted, others = self._count(group)
        asks = (default or (counted and default is not None)) and self._judge.wants_to_be_told()
        told = self._ask(group, default, counted) if asks else None
        shown = self._judge.see(default, sorted(counted.values()), others, told)
        if shown is NOTHING:
            self._page.show_nothing()
        elif shown is not None:
            self._page.show(*shown)

    def _count(self, default: Any) -> Tuple[Dict[str, _page.GroupCount], Dict[int, Optional[int]]]:
        """Returns the groups other than the default one: by name those that can be compared, and the numbers of the rest."""
        counted: Dict[str, _page.GroupCount] = {}
        others: Dict[int, Optional[int]] = {}
        for group in list(_world(self._c10d, "pg_map")):
            if group is default:
                continue
            begun, (name, members) = self._begun(group), members_of(self._c10d, group)
            if begun is None or not name or id(group) in self._uncounted or len(counted) == _page.GROUPS:
                others[id(group)] = begun
            else:
                if name not in self._ids:
                    text = f"{name} {sorted(members)}".encode()
                    self._ids[name] = int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big") + 1
                counted[name] = _page.GroupCount(self._ids[name], begun, len(members))
        return counted, others

    def _ask(self, group: Any, default: int, counted: Dict[str, _page.GroupCount]) -> Told:
        begin = time.monotonic()
        if self._flight is not None and begin >= self._flight_again:
            told = _flight.told(self._flight(), str(getattr(group, "group_name", "0")),
                                self._bases[id(group)] + default if default else None, counted)
            end = time.monotonic()
            self._flight_again = end + (end - begin) / _SHARE
            if told is not None:
                return told
        return _calls.told(sys._current_frames().get(self._caller), lambda other: other is group,
                           lambda other: members_of(self._c10d, other)[0] in counted)


def default_group(c10d: ModuleType) -> Any:
    return getattr(getattr(c10d, "GroupMember", None), "WORLD", None)


def _world(c10d: ModuleType, name: str) -> Any:
    """Returns a table of torch's groups. PyTorch 1 keeps it in the module itself."""
    world = getattr(c10d, "_world", None)
    return getattr(c10d, "_" + name, {}) if world is None else getattr(world, name)


def members_of(c10d: ModuleType, group: Any) -> Tuple[str, Any]:
    """Returns the name of a group, which is the same for all members, and their ranks."""
    return _world(c10d, "pg_names").get(group, ""), _world(c10d, "pg_group_ranks").get(group, {})  # it may have ended


def number_of(group: Any) -> Optional[int]:
    try:
        return group._get_sequence_number_for_group()
    except (RuntimeError, AttributeError, TypeError):  # a backend that does not count
        return None
