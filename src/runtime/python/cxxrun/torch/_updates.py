"""Tracks which optimizers have made an update in the step under way, and refuses what must not follow an update."""
import functools
import sys
import types
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import torch

from cxxrun import _lib
from cxxrun._errors import RefusedError
from cxxrun.torch._carrier import Carrier
from cxxrun.torch._undo import SCALED, Before, version_of


# Gradients of an earlier step are not part of the state: a failure or a newcomer would lose them.
_SUMS = ("Elastic: gradients are added to those of an earlier step() block: add them up within one, or begin with "
         "zero_grad(): docs/use/elastic_pytorch.md")


class Gate:
    """The gate on the device, for optimizers that skip an update if `found_inf` is 1, as GradScaler uses it: the fused ones.
    libcxxrun sets a flag to 1 before it aborts NCCL. After the last call the device copies the flag to `found_inf`, so the
    update is made from complete results or not at all. The host does not wait; it learns one step later whether the update
    was made."""

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


class Updates:
    def __init__(self, carrier: Carrier, tracked: Dict[str, Any]) -> None:
        self._carrier, self._tracked = carrier, tracked
        self._begun: Set[str] = set()  # names of optimizers, as in the others
        self._made: Dict[str, bool] = {}
        self._is_in_step = False
        self._left: Dict[str, List[Tuple[torch.Tensor, Any, int]]] = {}  # gradients of a step that made no update
        self._gate = Gate(carrier) if carrier.gpu.on_device else None
        self.is_gated: Optional[bool] = None  # whether the device has the gate; None: not decided for what is tracked now
        carrier.before_call = self._refuse_call
        _forget_when_zeroed(weakref.ref(self))

    @property
    def any_begun(self) -> bool:
        return bool(self._begun)

    def watch(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        self._made[name] = False
        step, zero_grad = optimizer.step, optimizer.zero_grad

        @functools.wraps(getattr(step, "__func__", step))  # keeps attributes that a schedule has set
        def watched(its: Any, *arguments: Any, **named: Any) -> Any:
            # A failed call may not have been waited for yet. Incomplete results must not get into the state.
            self._refuse_scaler(sys._getframe(1))
            gate = self._gate if self.is_gated and not arguments and not named else None
            if gate is None or gate.is_used and not gate.covers_calls():
                gate = None
                self.commit()
            if self._carrier.failure is not None and not self.any_begun:
                raise self._carrier.failure
            if _still_there(self._left.get(name, [])):
                raise RefusedError(_SUMS)
            if gate is not None:
                gate.cover()
            self._begun.add(name)
            result = step(*arguments, **named) if gate is None else gate.update(optimizer, step)
            self._made[name] = True
            return result

        def zeroed(*arguments: Any, **named: Any) -> Any:
            self._left[name] = []
            return zero_grad(*arguments, **named)

        optimizer.step = types.MethodType(watched, optimizer)  # type: ignore[method-assign]
        optimizer.zero_grad = zeroed  # type: ignore[method-assign]

    def forget(self, module: torch.nn.Module) -> None:
        """Called when the gradients of the module have been zeroed."""
        zeroed = {id(each) for each in module.parameters()}
        self._left = {name: [entry for entry in left if id(entry[0]) not in zeroed] for name, left in self._left.items()}

    # ---- the gate

    def commit(self) -> None:
        """Waits for the calls of the step under way, and for the device work before them. Raises their failure."""
        self._carrier.commit()
        self.confirm()

    def confirm(self) -> None:
        """Blocks until all updates are known to have been made."""
        if self._gate is not None:
            self._gate.confirm()

    def end_calls(self) -> None:
        """Called at the end of a step, with or without an update."""
        if self._gate is None or not self._gate.covers_calls():
            self.commit()

    def keep(self, before: Before, completed: int) -> None:
        """Keeps the state before a whole step whose update may have been skipped."""
        if self._gate is not None and self._gate.is_used:
            self._gate.last = before, completed

    def take_back(self) -> Tuple[bool, Optional[Tuple[Before, int]]]:
        """Called after a failure, when all that was queued is done. Returns whether an update was skipped, and, if it was that of
        the last step, what keep() kept of it. The update of the step under way has not begun then."""
        if self._gate is None or not self._gate.is_skipped():
            return False, None
        last = self._gate.last
        if last is None:
            self._begun.clear()
            self._made = dict.fromkeys(self._made, False)
        self._gate.forget()
        return True, last

    def open_gate(self) -> None:
        """Resets the gate for a new world."""
        if self._gate is not None:
            self._gate.open()
        self.is_gated = None

    def close_gate(self) -> None:
        if self._gate is not None:
            self._gate.close()

    def _choose_gate(self) -> bool:
        its = self._tracked.values()
        return self._gate is not None and self._carrier.facts.world_size > 1 and self._carrier.agree is None and (
            self._gate.is_for([each for each in its if isinstance(each, torch.optim.Optimizer)],
                              [each for each in its if isinstance(each, torch.nn.Module)]))

    # ---- one step

    def begin_step(self) -> None:
        if self.is_gated is None:
            self.is_gated = self._choose_gate()
        if self._gate is not None:
            self._gate.is_used = False
        self._made = dict.fromkeys(self._made, False)
        self._begun.clear()
        self._is_in_step = True

    def end_step(self) -> None:
        self._is_in_step = False

    def end_whole_step(self) -> None:
        if not self._begun and any(version_of(gradient) != version for left in self._left.values()
                                   for gradient, version in _still_there(left)):
            raise RefusedError(_SUMS)
        self._left = {name: [] if name in self._begun else _gradients(self._tracked[name]) for name in self._made}

    def _refuse_call(self) -> None:
        """Refuses a call after the update. If it failed, this rank alone would skip what follows the update, such as a
        schedule's step or an average of the parameters."""
        if self._is_in_step and self._made and all(self._made.values()):
            raise RefusedError("Elastic: this call reaches other ranks after optimizer.step(); within a step() such calls "
                               "come before the update: docs/use/elastic_pytorch.md")

    def refuse_samples(self) -> None:
        """Refuses samples that are taken between two steps: a failed step could not give them back."""
        if not self._is_in_step:
            raise RefusedError("ElasticSampler: samples are taken within step(), so that a step that fails gives them back: "
                               "next(order) in its block, not `for x in loader` around it: docs/use/elastic_pytorch.md")

    def _refuse_scaler(self, caller: Any) -> None:
        """Refuses a GradScaler that is not tracked: after a failed step it would update with gradients that it has not divided.
        Only frames of grad_scaler.py are read, because reading the variables of a script's frame keeps them alive."""
        for _ in range(3):  # a schedule's wrapper may be in between
            if caller is not None and caller.f_code.co_filename.endswith("grad_scaler.py"):
                its = caller.f_locals.get("self")
                if hasattr(its, SCALED) and not any(its is each for each in self._tracked.values()):
                    raise RefusedError("Elastic: track() the GradScaler, too: what a step that fails has done with it is "
                                       "taken back")
            caller = caller.f_back if caller is not None else None


def _forget_when_zeroed(updates: Any) -> None:
    """Watches Module.zero_grad(), which zeroes in place by default in 1.13. The class is patched and not the module, which may
    be copied and pickled."""
    zero_grad = torch.nn.Module.zero_grad

    @functools.wraps(zero_grad)
    def zeroed(module: torch.nn.Module, *arguments: Any, **named: Any) -> None:
        zero_grad(module, *arguments, **named)
        if updates() is not None:
            updates().forget(module)

    torch.nn.Module.zero_grad = zeroed  # type: ignore[method-assign]


def _still_there(left: List[Tuple[torch.Tensor, Any, int]]) -> List[Tuple[torch.Tensor, int]]:
    """Returns the gradients that have not been replaced, with the versions that they had."""
    return [(its.grad, version) for its, gradient, version in left if its.grad is not None and its.grad is gradient()]


def _gradients(optimizer: torch.optim.Optimizer) -> List[Tuple[torch.Tensor, Any, int]]:
    each = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return [(its, weakref.ref(its.grad), version_of(its.grad)) for its in each
            if its.grad is not None and _is_any(its.grad)]


def _is_any(gradient: torch.Tensor) -> bool:
    its = getattr(gradient, "_local_tensor", gradient)
    return bool(its._nnz() if its.is_sparse else its.any())
