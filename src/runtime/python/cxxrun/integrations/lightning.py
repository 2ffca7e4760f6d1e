"""For lightning.pytorch and pytorch_lightning:

    saving = cxxrun.integrations.lightning.Saving("/shared/job.ckpt")
    Trainer(callbacks=[saving], ...).fit(model, ckpt_path=saving.found())"""
import os
import sys
from typing import Any, Optional

import cxxrun
from cxxrun import _wanted

try:
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        raise ImportError
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback


class Saving(Callback):  # type: ignore[misc]
    """Saves to `path` on all ranks after the same step if a checkpoint is wanted, and ends fit() if the job has been told to
    end. During fit() it replaces Lightning's own handler of SIGTERM, in which ranks wait for each other."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._step, self._aside = 0, False

    def found(self) -> Optional[str]:
        """Returns `path` if there is a checkpoint, for ckpt_path of fit(); else None."""
        return self.path if os.path.exists(self.path) else None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._put_aside(trainer, stage == "fit")

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._put_aside(trainer, False)

    def _put_aside(self, trainer: Any, aside: bool) -> None:
        # Lightning installs its handler between setup() and the first collectives (trainer.py, signal_connector.py of 2.6).
        connector = getattr(trainer, "_signal_connector", self)
        self._aside = aside and hasattr(connector, "_sigterm_notifier_fn")
        if self._aside:
            connector._sigterm_notifier_fn = _wanted.note_end
        else:
            vars(connector).pop("_sigterm_notifier_fn", None)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._step = trainer.global_step
        _wanted.listen(instead=not self._aside)

    def on_save_checkpoint(self, *_: Any) -> None:
        _wanted.saves.written()  # also for those of ModelCheckpoint

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        if trainer.global_step == self._step:  # in the middle of a step
            return
        self._step = trainer.global_step
        cxxrun.step(self._step)
        if cxxrun.checkpoint_wanted():
            trainer.save_checkpoint(self.path)
            if cxxrun.job_ends():
                trainer.should_stop, trainer.limit_val_batches = True, 0  # or it would validate before it ends
                trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
