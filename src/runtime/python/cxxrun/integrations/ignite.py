"""For ignite's Engine:

    checkpoint = ignite.handlers.Checkpoint({"trainer": trainer, ...}, DiskSaver(...), n_saved=2)
    cxxrun.integrations.ignite.attach(trainer, checkpoint)"""
from typing import Any, Callable

import cxxrun
from cxxrun import _wanted
from ignite.engine import Events


def attach(trainer: Any, save: Callable[[Any], Any]) -> None:
    """Calls `save(trainer)` on all ranks after the same iteration if a checkpoint is wanted, and terminates the engine if the
    job has been told to end. Pass the same handler that saves at intervals."""

    def after_iteration(engine: Any) -> None:
        cxxrun.step(engine.state.iteration)
        if cxxrun.checkpoint_wanted():
            save(engine)
            if cxxrun.job_ends():
                engine.terminate()

    def begin(_: Any) -> None:
        _wanted.listen()

    trainer.add_event_handler(Events.STARTED, begin)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, after_iteration)
