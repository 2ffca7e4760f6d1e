"""Which of the tracked optimizers have made an update in the step under way."""
import functools
import sys
import types
from typing import Any, Dict

import torch

from cxxrun.torch._carrier import Carrier
from cxxrun.torch._undo import SCALED


class Updates:
    def __init__(self, carrier: Carrier, tracked: Dict[str, Any]) -> None:
        self._carrier, self._tracked = carrier, tracked
        self._made: Dict[str, bool] = {}
        self._is_in_step, self.any_begun = False, False
        carrier.before_call = self._refuse_call

    def watch(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self._made[name] = False
        step = optimizer.step

        @functools.wraps(getattr(step, "__func__", step))  # with what a schedule has noted there
        def watched(its: Any, *arguments: Any, **named: Any) -> Any:
            # Nobody may have waited for what has failed. What is not whole must not get into the state.
            self._refuse_scaler(sys._getframe(1))
            if self._carrier.failure is not None and not self.any_begun:
                raise self._carrier.failure
            self.any_begun = True
            result = step(*arguments, **named)
            self._made[name] = True
            return result

        optimizer.step = types.MethodType(watched, optimizer)  # type: ignore[method-assign]

    def begin_step(self) -> None:
        self._made = dict.fromkeys(self._made, False)
        self._is_in_step, self.any_begun = True, False

    def end_step(self) -> None:
        self._is_in_step = False

    def _refuse_call(self) -> None:
        """A failure after the update would leave out what follows it, on this rank alone: a schedule's step, an average of
        the parameters."""
        if self._is_in_step and self._made and all(self._made.values()):
            raise RuntimeError("Elastic: this call reaches other ranks after optimizer.step(); within a step() such calls "
                               "come before the update: docs/use/elastic_pytorch.md")

    def _refuse_scaler(self, caller: Any) -> None:
        """One that nobody takes back would make the update of gradients that it has not divided."""
        for _ in range(3):  # a schedule's wrapper is between them
            its = caller.f_locals.get("self") if caller is not None else None
            if hasattr(its, SCALED) and not any(its is each for each in self._tracked.values()):
                raise RuntimeError("Elastic: track() the GradScaler, too: what a step that fails has done with it is taken back")
            caller = caller.f_back if caller is not None else None
