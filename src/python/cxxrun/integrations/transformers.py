"""For transformers.Trainer, and what is made of it (trl, peft, axolotl):

    Trainer(..., callbacks=[cxxrun.integrations.transformers.Saving()])
    trainer.train(resume_from_checkpoint=transformers.trainer_utils.get_last_checkpoint(args.output_dir))"""
from typing import Any

import cxxrun
from cxxrun import _wanted
from transformers import TrainerCallback


class Saving(TrainerCallback):  # type: ignore[misc]
    """Has the Trainer save after the step in which all ranks are asked for a checkpoint, into output_dir/checkpoint-STEP as
    ever, and end train() where the job is told to end."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        _wanted.listen()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        cxxrun.step(state.global_step)
        if cxxrun.checkpoint_wanted():
            control.should_save = True
            control.should_training_stop = control.should_training_stop or cxxrun.job_ends()
        return control
