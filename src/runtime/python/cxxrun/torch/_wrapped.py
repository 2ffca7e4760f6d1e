"""The proxy that Elastic.wrap() returns."""
import weakref
from typing import Any, Callable

from cxxrun._errors import RefusedError

_CHANGES = ("register_", "_register_", "_set_")  # methods that change the object for good


class Wrapped:
    """Forwards calls and attributes to what the factory made for the current world."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._made = make, None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._get()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(_CHANGES):
            _refuse(name)
        return getattr(self._get(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("_make", "_made"):
            _refuse(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _refuse(name)

    def _drop(self) -> bool:
        """Drops the object. Returns whether something may still keep it alive."""
        try:
            made = None if self._made is None else weakref.ref(self._made)
        except TypeError:  # not every object can be weakly referenced
            self._made = None
            return True
        self._made = None
        return made is not None and made() is not None

    def _get(self) -> Any:
        if self._made is None:
            raise RefusedError("Elastic: what wrap() gave is made by running(); use it inside of the loop")
        return self._made


def _refuse(name: str) -> None:
    raise RefusedError(f"Elastic: {name} would be lost in the next world, where what wrap() gave is made anew: do this in "
                       "the function that wrap() is given")
