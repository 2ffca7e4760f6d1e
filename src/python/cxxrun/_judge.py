"""Decides what is to be shown of a rank's collectives, from what was seen of them. No clock, no torch: pure."""
from typing import Dict, Optional, Tuple

from cxxrun import _page
from cxxrun._told import Told

Shown = Tuple[int, ...]  # (entered, what, count) of _page.Page.show; (): nothing
_ASK = 4  # looks without a change until somebody is asked what the rank is in, and again


class Judge:
    """Of the default group alone it does not matter whether a collective that was begun is done: who has begun fewer than
    another has not come. With more groups a rank may be late in one because it waits in another, and then nothing is
    shown of it: a rank that may be waiting is not to be blamed."""

    def __init__(self) -> None:
        self._default: Optional[int] = None
        self._others: Dict[int, Optional[int]] = {}
        self._here: Optional[bool] = None
        self._still = 0
        self._shown: Optional[Shown] = None

    def wants_to_be_told(self) -> bool:
        """In the look that follows."""
        return (self._still + 1) % _ASK == 0

    def see(self, default: Optional[int], others: Dict[int, Optional[int]], told: Optional[Told] = None) -> Optional[Shown]:
        """`default`: collectives begun in the default group, None where ranks' numbers cannot be compared. `others`: the
        numbers of the other groups. Returns what is to be shown, None: as before."""
        elsewhere = any(others[each] != self._others.get(each, 0) for each in others)
        if default != self._default or elsewhere or self._shown is None:
            self._still = 0
            self._here = False if elsewhere else None
            told = Told()
        else:
            self._still += 1
        self._default, self._others = default, others
        if told is None:
            return None
        if told.here is not None:
            self._here = told.here
        shown = () if default is None or self._here is False else (default, told.what, told.count)
        if shown == self._shown:
            return None
        self._shown = shown
        return shown
