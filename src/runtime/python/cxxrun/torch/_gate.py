"""The gate on the device, for optimizers that skip an update if `found_inf` is 1, as GradScaler uses it: the fused ones.
libcxxrun sets a flag to 1 before it aborts NCCL. After the last call the device copies the flag to `found_inf`, so the update
is made from complete results or not at all. The host does not wait; it learns one step later whether the update was made."""
from typing import Any, Callable, Iterable, List, Optional, Tuple

import torch

from cxxrun import _lib
from cxxrun.torch._undo import Before


class Gate:
    def __init__(self, carrier: Any) -> None:
        self._carrier, self._gpu = carrier, carrier.gpu
        self._flag, self._told = self._gpu.pinned_zero(), self._gpu.pinned_zero()
        self._found = torch.zeros((), device=self._gpu.device)
        self._event: Any = None  # is reached when the outcome of the last update is known
        self._works: List[_lib.Work] = []  # the calls before that update
        self._calls = 0  # number of calls made before that update
        self.is_used = False  # in the step under way
        self.last: Optional[Tuple[Before, int]] = None  # the state before the step whose update may have been skipped
        _lib.set_gate(self._flag.data_ptr())

    def is_for(self, optimizers: Iterable[torch.optim.Optimizer], modules: Iterable[torch.nn.Module]) -> bool:
        """Whether all optimizers can skip an update, and nothing else has parameters. An average of the parameters, for example,
        would change although the update is skipped."""
        optimizers = list(optimizers)
        if not all(getattr(its, "_step_supports_amp_scaling", False) for its in optimizers):
            return False
        updated = {id(each) for its in optimizers for group in its.param_groups for each in group["params"]
                   if self._gpu.carries(each)}
        return all(id(each) in updated for its in (*optimizers, *modules) for each in _parameters_of(its))

    def covers_calls(self) -> bool:
        """Whether the gate covers all calls of the step under way."""
        return self.is_used and self._calls == self._carrier.queue.calls

    def cover(self) -> None:
        """Called before an update of this step. Raises a PeerFailure that is known already, or that of the previous step; the
        update has not begun then."""
        if self.is_used:
            return
        self.confirm()
        works, self._calls = self._carrier.queue.newest(), self._carrier.queue.calls
        try:
            self._gpu.after(works)
        except _lib.PeerFailure as failure:
            raise self._carrier.note(failure) from None
        self._works = works
        self._found.copy_(self._flag, non_blocking=True)
        self._told.copy_(self._found, non_blocking=True)
        self._event = self._gpu.event()
        self.is_used = True

    def update(self, optimizer: torch.optim.Optimizer, step: Callable[[], Any]) -> Any:
        """Makes the update through the gate. cover() comes first."""
        scalers = getattr(optimizer, "found_inf", None)
        optimizer.found_inf = self._found if scalers is None else torch.maximum(self._found, scalers)  # type: ignore[attr-defined]
        try:
            return step()
        finally:
            if scalers is None:
                del optimizer.found_inf  # type: ignore[attr-defined]
            else:
                optimizer.found_inf = scalers  # type: ignore[attr-defined]

    def confirm(self) -> None:
        """Blocks until the last update is known to have been made. Raises a PeerFailure if it was skipped."""
        try:
            for its in self._works:
                its.wait()
            if self._event is not None:
                self._event.synchronize()
                if self.is_skipped():
                    self._carrier.comm.start_barrier().wait()  # raises the failure
                    raise RuntimeError("Elastic: an update was left out, and no peer has failed")
        except _lib.PeerFailure as failure:
            raise self._carrier.note(failure) from None
        self.forget()

    def is_skipped(self) -> bool:
        """Whether the last update was skipped. Call it when all that was queued is done."""
        return self._event is not None and bool(self._told.item())

    def forget(self) -> None:
        self._event, self._works, self.last = None, [], None

    def open(self) -> None:
        """Resets the gate for a new world."""
        self.forget()
        self._flag.zero_()
        self.is_used = False

    def close(self) -> None:
        _lib.set_gate(0)


def _parameters_of(its: Any) -> Iterable[torch.Tensor]:
    if isinstance(its, torch.nn.Module):
        return its.parameters()
    return (each for group in its.param_groups for each in group["params"])
