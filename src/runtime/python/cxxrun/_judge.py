"""Decides what is to be shown of a rank's collectives, from what was seen of them. No clock, no torch: pure."""
from typing import Dict, NamedTuple, Optional, Sequence

from cxxrun import _page
from cxxrun._told import Told

_ASK = 4  # looks without a change until somebody is asked what the rank is in, and again


class Shown(NamedTuple):
    """The words of _page.Page.show."""

    entered: int
    what: int = _page.BEGUN
    count: int = 0
    groups: Sequence[_page.GroupCount] = ()
    idle: bool = False


NOTHING = Shown(-1)


class Judge:
    """It does not matter whether a collective that was begun is done: who has begun fewer than another has not come, and
    the coordinator finds out who is late in one group because it waits in another. What is not counted it cannot know:
    of a rank that may be waiting there nothing is shown, for it is not to be blamed."""

    def __init__(self) -> None:
        self._default: Optional[int] = None
        self._groups: Sequence[_page.GroupCount] = ()
        self._others: Dict[int, Optional[int]] = {}
        self._here: Optional[bool] = None
        self._still = 0
        self._shown: Optional[Shown] = None

    def wants_to_be_told(self) -> bool:
        """In the look that follows."""
        return (self._still + 1) % _ASK == 0

    def see(self, default: Optional[int], groups: Sequence[_page.GroupCount], others: Dict[int, Optional[int]],
            told: Optional[Told] = None) -> Optional[Shown]:
        """`default`: collectives begun in the default group, None where ranks' numbers cannot be compared. `groups`: those
        of the others that can be; `others`: the numbers of those that cannot. Returns what is to be shown, None: as
        before."""
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
