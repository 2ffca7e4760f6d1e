"""cxxrun.integrations, with as much of each framework as its documentation says: the hooks that it calls, and what these may
set. A process alone stands for all ranks, and SIGTERM for whatever ends a job."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[4] / "src/runtime/python"
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
{imports}
from cxxrun.integrations.lightning import Callback, Saving
saving = Saving("there")
assert isinstance(saving, Callback) and saving.found() is None
class Connector:
    def register(self): signal.signal(signal.SIGTERM, self._sigterm_notifier_fn)
    def {notifier}(self, *_): print("the framework's handler")
    if "{notifier}" != "_sigterm_notifier_fn":
        def register(self): signal.signal(signal.SIGTERM, self.{notifier})
class Trainer:
    global_step, should_stop, limit_val_batches, _signal_connector = 0, False, 1.0, Connector()
    class fit_loop:
        min_epochs, epoch_loop = 3, types.SimpleNamespace(min_steps=100)
        min_steps = property(lambda self: self.epoch_loop.min_steps)
    fit_loop = fit_loop()
    def save_checkpoint(self, path):
        print("saved", path, self.global_step)
        open(path, "w").close()
trainer = Trainer()
saving.setup(trainer, None, "fit")
trainer._signal_connector.register()
if not "{imports}": os.kill(os.getpid(), signal.SIGTERM)  # while it validates before it trains
saving.on_train_start(trainer, None)
for batch in range(1, 100):
    if trainer.should_stop: break
    trainer.global_step += batch % 2
    if batch == 4: os.kill(os.getpid(), signal.SIGTERM)
    saving.on_train_batch_end(trainer, None, {{}}, None, batch_idx=7)
print(batch, trainer.limit_val_batches, trainer.fit_loop.min_epochs, trainer.fit_loop.min_steps, saving.found())
saving.teardown(trainer, None, "fit")
saving.setup(trainer, None, "test")
trainer._signal_connector.register()
os.kill(os.getpid(), signal.SIGTERM)
"""
TRANSFORMERS = """
import os, signal, types
from cxxrun import _wanted
from cxxrun.integrations.transformers import Saving
def theirs(*_): print("the framework's handler")
signal.signal(signal.SIGTERM, theirs)
saving, state, args = Saving(), types.SimpleNamespace(global_step=0), types.SimpleNamespace(enable_jit_checkpoint=True)
saving.on_train_begin(args, state, None, model=None)
def shown(control): return control.should_save, control.should_training_stop, control.should_evaluate
def step(evaluates=False, saves=True):
    state.global_step += 1
    control = types.SimpleNamespace(should_save=False, should_training_stop=False, should_evaluate=evaluates)
    control = saving.on_step_end(args, state, control, model=None)
    print(state.global_step, *shown(control))
    if control.should_save and saves: saving.on_save(args, state, control)
    return control
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

    def test_lightning_saves_after_the_step_of_the_signal_and_ends_whatever_its_minimum_says(self):
        said = self.run_python(LIGHTNING.format(imports="import pytorch_lightning", notifier="_sigterm_notifier_fn"))
        self.assertEqual(said, "saved there 3\n6 0 None None there\nthe framework's handler\n")

    def test_lightnings_own_handler_is_put_aside_from_before_it_validates(self):
        said = self.run_python(LIGHTNING.format(imports="", notifier="_sigterm_notifier_fn"))
        self.assertEqual(said, "saved there 1\n2 0 None None there\nthe framework's handler\n")

    def test_the_handler_of_another_lightning_is_put_aside_when_it_trains(self):
        said = self.run_python(LIGHTNING.format(imports="import pytorch_lightning", notifier="notifier"))
        self.assertEqual(said, "saved there 3\n6 0 None None there\nthe framework's handler\n")

    def test_lightning_takes_the_callback_of_the_package_that_the_script_uses(self):
        code = "{}\nfrom cxxrun.integrations.lightning import Saving\nprint(Saving.__mro__[1].__module__)"
        self.assertEqual(self.run_python(code.format("import pytorch_lightning")), "pytorch_lightning\n")
        self.assertEqual(self.run_python(code.format("")), "lightning.pytorch\n")

    def test_transformers_saves_and_stops_in_the_step_of_the_signal(self):
        ends = ("step(evaluates=True)\nos.kill(os.getpid(), signal.SIGTERM)\ncontrol = step(evaluates=True)\n"
                "control.should_evaluate = control.should_save = True  # by the flow, at the end of an epoch\n"
                "print(*shown(saving.on_epoch_end(args, state, control, model=None)))\n")
        self.assertEqual(self.run_python(TRANSFORMERS + ends), "1 False False True\n2 True True False\nFalse True False\n")

    def test_transformers_saves_in_the_next_step_where_the_best_alone_are_saved(self):
        asked = ("answers = iter([True, False, False])\n_wanted.agree = lambda: next(answers)\n"
                 "step(evaluates=True, saves=False)\nstep()\nstep()\n")
        written = "_wanted.saves.written = lambda: print('written')\n"
        self.assertEqual(self.run_python(TRANSFORMERS + written + asked),
                         "1 True False True\n2 True False False\nwritten\n3 False False False\n")

    def test_accelerate_saves_once_and_not_in_the_middle_of_a_step(self):
        self.assertEqual(self.run_python(ACCELERATE), "saved there\nTrue False\n")

    def test_ignite_saves_and_terminates_in_the_iteration_of_the_signal(self):
        self.assertEqual(self.run_python(IGNITE), "saved at 3\n")

    def test_a_checkpoint_of_lightning_itself_is_known_too(self):
        code = ("from cxxrun import _wanted\nfrom cxxrun.integrations.lightning import Saving\n"
                "_wanted.saves.call(7)\nSaving('there').on_save_checkpoint(None, None, {})\n"
                "print(_wanted.saves.call(8), _wanted.saves.call(9))")
        self.assertEqual(self.run_python(code), "0 7\n")

    def test_each_is_short(self):
        for path in (PACKAGE / "cxxrun/integrations").glob("*.py"):
            self.assertLessEqual(len(path.read_text().splitlines()), 64, path)


if __name__ == "__main__":
    unittest.main()
