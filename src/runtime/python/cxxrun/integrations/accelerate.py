"""For loops with an Accelerator:

    for ...:
        with accelerator.accumulate(model): ...
        if cxxrun.integrations.accelerate.save_if_wanted(accelerator, "/shared/state", completed): break"""
from typing import Any

import cxxrun


def save_if_wanted(accelerator: Any, directory: str, completed: int) -> bool:
    """Call it on all processes after each batch, from the main thread. `completed`: optimizer steps so far. If a checkpoint is
    wanted, it calls accelerator.save_state(directory), on all processes after the same step. Returns True if the job has
    been told to end: leave the loop."""
    if not accelerator.sync_gradients:  # in the middle of a step
        return False
    cxxrun.step(completed)
    if not cxxrun.checkpoint_wanted():
        return False
    accelerator.save_state(directory)
    return cxxrun.job_ends()
