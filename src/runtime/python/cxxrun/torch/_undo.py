"""Takes back what a step changes before the update: buffers, the settings of optimizers, and the state of other tracked
objects."""
import copy
from typing import Any, Dict, List

import torch

from cxxrun.torch import _state

SCALED = "_per_optimizer_states"  # of a GradScaler: the optimizers whose gradients it has divided in this step


class Before:
    """The state at the beginning of a step."""

    def __init__(self, tracked: Dict[str, Any]) -> None:
        self._kept = [(its, _kept(its)) for its in tracked.values()]
        self._parameters = [(each, version_of(each)) for its in tracked.values() if isinstance(its, torch.nn.Module)
                            for module in its.modules() if getattr(module, "max_norm", None) is None  # set in forward()
                            for each in module.parameters(recurse=False)]

    def is_updated(self, left_out: bool = False) -> bool:
        """Whether parameters have changed, for example by an optimizer that is not tracked: that cannot be taken back.
        `left_out`: the device has skipped an update, which counts as a change of each parameter with a gradient."""
        changes = {version_of(each) - version for each, version in self._parameters} - {0}
        return len(changes) > int(left_out)

    def restore(self) -> None:
        for its, kept in self._kept:
            if isinstance(its, torch.nn.Module):
                buffers, extra = kept
                _restore_buffers(buffers)
                for module, value in extra:
                    module.set_extra_state(value)
            elif isinstance(its, torch.optim.Optimizer):
                states, settings = kept
                for parameter in list(its.state)[states:]:  # created for an update that was skipped
                    del its.state[parameter]
                _restore_settings(its, settings)
                its.zero_grad(set_to_none=True)
            elif _is_scaler(its):
                vars(its).update({name: _copied(value) for name, value in kept.items()})
                getattr(its, SCALED).clear()
            else:
                load(its, kept)


def version_of(tensor: torch.Tensor) -> int:
    return getattr(tensor, "_local_tensor", tensor)._version


def load(its: Any, state: Any) -> None:
    its.load_state_dict(state)
    if isinstance(its, torch.optim.Optimizer):
        its.zero_grad(set_to_none=True)  # the step is done again and computes them anew
    getattr(its, SCALED, {}).clear()


def _kept(its: Any) -> Any:
    if isinstance(its, torch.nn.Module):
        buffers = [(module, key, buffer, None if buffer is None else buffer.clone())
                   for module in its.modules() for key, buffer in module._buffers.items()]
        return buffers, [(module, copy.deepcopy(module.get_extra_state())) for module in its.modules()
                         if type(module).get_extra_state is not torch.nn.Module.get_extra_state]
    if isinstance(its, torch.optim.Optimizer):
        return len(its.state), [{key: copy.deepcopy(value) for key, value in group.items() if key != "params"}
                                for group in its.param_groups]
    if _is_scaler(its):
        return {name: _copied(value) for name, value in vars(its).items() if name != SCALED}
    return copy.deepcopy(_state.of(its))


def _is_scaler(its: Any) -> bool:
    """Whether this is torch's GradScaler, whose state_dict() waits for the device."""
    return hasattr(its, SCALED) and type(its).__module__.startswith("torch.")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _restore_buffers(kept: List[Any]) -> None:
    """Restores buffers, even if the step has replaced one by another tensor."""
    for module, key, buffer, value in kept:
        module._buffers[key] = buffer
        if buffer is not None:
            with torch.no_grad():
                buffer.copy_(value)


def _restore_settings(optimizer: torch.optim.Optimizer, kept: List[Dict[str, Any]]) -> None:
    """Restores the settings of the groups, such as learning rate and momentum, which a schedule changes."""
    del optimizer.param_groups[len(kept):]
    for group, settings in zip(optimizer.param_groups, kept):
        parameters = group["params"]
        group.clear()
        group.update(params=parameters, **settings)
