"""For transformers.Trainer, and what is made of it (trl, peft, axolotl):

    Trainer(..., callbacks=[cxxrun.integrations.transformers.Saving()])
    trainer.train(resume_from_checkpoint=transformers.trainer_utils.get_last_checkpoint(args.output_dir))"""
from typing import Any

import cxxrun
from cxxrun import _wanted
from transformers import TrainerCallback


class Saving(TrainerCallback):  # type: ignore[misc]
    """Has the Trainer save after the step in which all ranks are asked for a checkpoint, into output_dir/checkpoint-STEP as
    ever, and end train() where the job is told to end. enable_jit_checkpoint, with which each rank saves when its own
    signal says so, is put aside."""

    def __init__(self) -> None:
        self._due = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _wanted.listen(instead=getattr(args, "enable_jit_checkpoint", False))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        cxxrun.step(state.global_step)
        self._due = cxxrun.checkpoint_wanted() or self._due
        if self._due:
            control.should_save = True
        return self._end(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if cxxrun.job_ends() and not self._due:
            control.should_save = False  # the step before has
        return self._end(control)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._due = False

    def _end(self, control: Any) -> Any:
        if cxxrun.job_ends():
            control.should_training_stop = True
            control.should_evaluate = False  # which with save_strategy="best" also decides whether it saves
        return control
