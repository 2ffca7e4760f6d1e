"""For lightning.pytorch and pytorch_lightning:

    saving = cxxrun.integrations.lightning.Saving("/shared/job.ckpt")
    Trainer(callbacks=[saving], ...).fit(model, ckpt_path=saving.found())"""
import os
import sys
from typing import Any, Optional

import cxxrun
from cxxrun import _wanted

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class Saving(Callback):  # type: ignore[misc]
    """Saves to `path` after the batch in which all ranks are asked for a checkpoint, and ends fit() where the job is told to
    end. Lightning's own answer to SIGTERM, in which ranks wait for each other inside a signal handler, is put aside while it
    trains."""

    def __init__(self, path: str) -> None:
        self.path = path

    def found(self) -> Optional[str]:
        """`path`, where there is a checkpoint: for ckpt_path of fit()."""
        return self.path if os.path.exists(self.path) else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        _wanted.listen(instead=True)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        cxxrun.step(trainer.global_step)
        if not cxxrun.checkpoint_wanted():
            return
        trainer.save_checkpoint(self.path)
        if cxxrun.job_ends():
            trainer.limit_val_batches = 0  # it would validate before it ends
            trainer.fit_loop.min_epochs = trainer.fit_loop.min_steps = None
            trainer.should_stop = True
