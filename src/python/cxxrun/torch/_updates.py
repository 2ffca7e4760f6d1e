"""Which of the tracked optimizers have made an update in the step under way."""
import functools
import types
from typing import Any, Dict

import torch

from cxxrun.torch._carrier import Carrier


class Updates:
    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._made: Dict[str, bool] = {}

    def watch(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self._made[name] = False
        step = optimizer.step

        @functools.wraps(getattr(step, "__func__", step))  # with what a schedule has noted there
        def watched(its: Any, *arguments: Any, **named: Any) -> Any:
            # Nobody may have waited for what has failed. What is not whole must not get into the state.
            if self._carrier.failure is not None and not self.any_made():
                raise self._carrier.failure
            result = step(*arguments, **named)
            self._made[name] = True
            return result

        optimizer.step = types.MethodType(watched, optimizer)  # type: ignore[method-assign]

    def begin_step(self) -> None:
        self._made = dict.fromkeys(self._made, False)

    def any_made(self) -> bool:
        return any(self._made.values())

    def all_made(self) -> bool:
        return all(self._made.values())
