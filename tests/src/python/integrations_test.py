"""cxxrun.integrations, with as much of each framework as its documentation says: the hooks that it calls, and what these may
set. A process alone stands for all ranks, and SIGTERM for whatever ends a job."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "src/python"
FAKES = {
    "lightning/__init__.py": "",
    "lightning/pytorch.py": "class Callback: pass\n",
    "pytorch_lightning.py": "class Callback: pass\n",
    "transformers.py": "class TrainerCallback: pass\n",
    "ignite/__init__.py": "",
    "ignite/engine.py": "class Events: STARTED, ITERATION_COMPLETED = 'started', 'completed'\n",
}
LIGHTNING = """
import os, signal, types, sys
def theirs(*_): print("the framework's handler")
signal.signal(signal.SIGTERM, theirs)
{imports}
from cxxrun.integrations.lightning import Callback, Saving
saving = Saving("there")
assert isinstance(saving, Callback) and saving.found() is None
class Trainer:
    global_step, should_stop, limit_val_batches = 0, False, 1.0
    fit_loop = types.SimpleNamespace(min_epochs=3, min_steps=100)
    def save_checkpoint(self, path):
        print("saved", path, self.global_step)
        open(path, "w").close()
trainer = Trainer()
saving.on_train_start(trainer, None)
while not trainer.should_stop:
    trainer.global_step += 1
    if trainer.global_step == 3: os.kill(os.getpid(), signal.SIGTERM)
    saving.on_train_batch_end(trainer, None, {{}}, None, batch_idx=7)
print(trainer.limit_val_batches, trainer.fit_loop.min_epochs, trainer.fit_loop.min_steps, saving.found())
"""
TRANSFORMERS = """
import os, signal, types
from cxxrun.integrations.transformers import Saving
saving, state = Saving(), types.SimpleNamespace(global_step=0)
control = types.SimpleNamespace(should_save=False, should_training_stop=False)
saving.on_train_begin(None, state, control, model=None)
while not control.should_training_stop:
    state.global_step += 1
    if state.global_step == 3: os.kill(os.getpid(), signal.SIGTERM)
    control = saving.on_step_end(None, state, control, model=None)
    print(state.global_step, control.should_save)
"""
ACCELERATE = """
import os, signal, types
from cxxrun.integrations.accelerate import save_if_wanted
accelerator = types.SimpleNamespace(sync_gradients=True, save_state=lambda where: print("saved", where))
assert not save_if_wanted(accelerator, "there", 1)
os.kill(os.getpid(), signal.SIGTERM)
accelerator.sync_gradients = False
assert not save_if_wanted(accelerator, "there", 1)
accelerator.sync_gradients = True
print(save_if_wanted(accelerator, "there", 2), save_if_wanted(accelerator, "there", 3))
"""
IGNITE = """
import os, signal, types
from cxxrun.integrations.ignite import attach
class Engine:
    ended, state, handlers = False, types.SimpleNamespace(iteration=0), {}
    def add_event_handler(self, event, handler): self.handlers[event] = handler
    def terminate(self): self.ended = True
engine = Engine()
attach(engine, lambda it: print("saved at", it.state.iteration))
engine.handlers["started"](engine)
while not engine.ended:
    engine.state.iteration += 1
    if engine.state.iteration == 3: os.kill(os.getpid(), signal.SIGTERM)
    engine.handlers["completed"](engine)
"""


class IntegrationsTest(unittest.TestCase):
    def run_python(self, code):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in FAKES.items():
                path = pathlib.Path(folder, "fakes", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  universal_newlines=True, check=False,
                                  env={"PYTHONPATH": f"{PACKAGE}:{os.path.join(folder, 'fakes')}"})
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_lightning_saves_in_the_batch_of_the_signal_and_ends_whatever_its_minimum_says(self):
        for imports in ("", "import pytorch_lightning"):
            self.assertEqual(self.run_python(LIGHTNING.format(imports=imports)), "saved there 3\n0 None None there\n")

    def test_lightning_takes_the_callback_of_the_package_that_the_script_uses(self):
        code = "{}\nfrom cxxrun.integrations.lightning import Saving\nprint(Saving.__mro__[1].__module__)"
        self.assertEqual(self.run_python(code.format("import pytorch_lightning")), "pytorch_lightning\n")
        self.assertEqual(self.run_python(code.format("")), "lightning.pytorch\n")

    def test_transformers_saves_and_stops_in_the_step_of_the_signal(self):
        self.assertEqual(self.run_python(TRANSFORMERS), "1 False\n2 False\n3 True\n")

    def test_accelerate_saves_once_and_not_in_the_middle_of_a_step(self):
        self.assertEqual(self.run_python(ACCELERATE), "saved there\nTrue False\n")

    def test_ignite_saves_and_terminates_in_the_iteration_of_the_signal(self):
        self.assertEqual(self.run_python(IGNITE), "saved at 3\n")

    def test_each_is_short(self):
        for path in (PACKAGE / "cxxrun/integrations").glob("*.py"):
            self.assertLessEqual(len(path.read_text().splitlines()), 60, path)


if __name__ == "__main__":
    unittest.main()
