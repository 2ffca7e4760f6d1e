"""Decides what a rank shows of its collectives, from what has been observed of them. Pure: no clock, no torch."""
from typing import Dict, NamedTuple, Optional, Sequence

from cxxrun import _page
from cxxrun._calls import Told

_ASK = 4  # observations without a change until the recorder or the stack is asked; and again after as many


class Shown(NamedTuple):
    """The arguments of _page.Page.show."""

    entered: int
    what: int = _page.BEGUN
    count: int = 0
    groups: Sequence[_page.GroupCount] = ()
    idle: bool = False


NOTHING = Shown(-1)


class Judge:
    """Whether a collective that was begun is done does not matter: a rank that has begun fewer than another has not arrived,
    and the coordinator finds out which rank is late in one group because it waits in another. The coordinator cannot know of
    calls that are not counted. A rank that may be waiting in one shows nothing, so that it is not blamed."""

    def __init__(self) -> None:
        self._default: Optional[int] = None
        self._groups: Sequence[_page.GroupCount] = ()
        self._others: Dict[int, Optional[int]] = {}
        self._here: Optional[bool] = None
        self._still = 0
        self._shown: Optional[Shown] = None

    def wants_to_be_told(self) -> bool:
        """Whether the next observation should say which collective the rank is in."""
        return (self._still + 1) % _ASK == 0

    def see(self, default: Optional[int], groups: Sequence[_page.GroupCount], others: Dict[int, Optional[int]],
            told: Optional[Told] = None) -> Optional[Shown]:
        """`default`: collectives begun in the default group, None if the numbers of ranks cannot be compared. `groups`: the
        counts of other groups that can be compared. `others`: the numbers of those that cannot. Returns what to show, or
        None to leave it as it is."""
        elsewhere = any(others[each] != self._others.get(each, 0) for each in others)
        if default != self._default or groups != self._groups or elsewhere or self._shown is None:
            self._still = 0
            self._here = False if elsewhere else None
            told = Told()
        else:
            self._still += 1
        self._default, self._groups, self._others = default, groups, others
        if told is None:
            return None
        if told.here is not None:
            self._here = told.here
        shown = NOTHING
        if default is not None and self._here is not False:
            shown = Shown(default, told.what, told.count, groups, told.idle)
        if shown == self._shown:
            return None
        self._shown = shown
        return shown
