"""For transformers.Trainer and what builds on it (trl, peft, axolotl):

    Trainer(..., callbacks=[cxxrun.integrations.transformers.Saving()])
    trainer.train(resume_from_checkpoint=transformers.trainer_utils.get_last_checkpoint(args.output_dir))"""
from typing import Any

import cxxrun
from cxxrun import _wanted
from transformers import TrainerCallback


class Saving(TrainerCallback):  # type: ignore[misc]
    """Makes the Trainer save on all ranks after the same step if a checkpoint is wanted, into output_dir/checkpoint-STEP as
    usual, and end train() if the job has been told to end. It turns off enable_jit_checkpoint, with which each rank would
    save at the moment of its own signal."""

    def __init__(self) -> None:
        self._due = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _wanted.listen(instead=getattr(args, "enable_jit_checkpoint", False))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        cxxrun.step(state.global_step)
        self._due = _wanted.agree() or self._due
        if self._due:
            control.should_save = True
        return self._end(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if cxxrun.job_ends() and not self._due:
            control.should_save = False  # the previous step has saved already
        return self._end(control)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._due = False
        _wanted.saves.written()

    def _end(self, control: Any) -> Any:
        if cxxrun.job_ends():
            control.should_training_stop = True
            control.should_evaluate = False  # with save_strategy="best" this also decides whether it saves
        return control
