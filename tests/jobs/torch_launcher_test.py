"""PyTorch's own tests of its launcher, unchanged, with cxxrun in the place of torch.distributed.run.main.
Usage: torch_launcher_test.py CXXRUN. Exit code 77: skipped, with the reason."""
import importlib.util
import multiprocessing
import os
import subprocess
import sys
import types
import unittest
from unittest import mock

import jobs
import torchrun_table

GUARD = 300  # seconds; against hanging only, while four workers import torch
TESTS = "pytorch/test/distributed/launcher/test_run.py"
OF_PYTHON = "asks for a Python object of theirs: "
# What is not asked of cxxrun, and why. A test that fails and is not here is a defect; one that is here and passes, too.
NOT_ASKED = {
    "test_launch_elastic_worker_raise_exception": OF_PYTHON + "`events.record` is to be called in the test's process",
    "test_launch_elastic_agent_raise_exception": OF_PYTHON + "`LocalElasticAgent.run` is to raise",
    "test_launch_shutdown": OF_PYTHON + "the rendezvous handler's `shutdown` is to be called",
    "test_nproc_gpu_launch_configurations": OF_PYTHON + "`torch.cuda.device_count` is to say 3 on a machine without GPUs",
    "test_nproc_xpu_launch_configurations": OF_PYTHON + "`torch.xpu.device_count` is to say 3 on a machine without GPUs",
}
WITHOUT_LAUNCH = {"test_min_max_nodes_parse", "test_is_not_torchelastic_launched"}  # these call nothing of cxxrun's


def main(arguments):
    """As torch.distributed.run.main: returns, or raises what that raises."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
    done = subprocess.run([jobs.CXXRUN, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=GUARD)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    if done.returncode == 100:
        raise ValueError(done.stderr)
    if done.returncode != 0:
        raise ChildFailedError("cxxrun", {0: ProcessFailure(0, 0, done.returncode, "/dev/null")})


def load(path):
    """Their module; where pytest is not installed, its marks are none."""
    class Marks:
        def __getattr__(self, name):
            return lambda test: test
    spec = importlib.util.spec_from_file_location("test_run", path)
    module = importlib.util.module_from_spec(spec)
    missing = {} if importlib.util.find_spec("pytest") else {"pytest": types.SimpleNamespace(mark=Marks())}
    with mock.patch.dict(sys.modules, missing):
        spec.loader.exec_module(module)
    return module


class Theirs(jobs.JobCase):
    def outcome(self, test):
        """"": passed; else why not."""
        result = unittest.TestResult()
        with mock.patch.dict(os.environ, self.environment({"USE_LIBUV": "0"}), clear=True):  # Debian's torch has none
            test.run(result)
        bad = result.errors + result.failures
        return bad[0][1].strip() + "\n" if bad else result.skipped[0][1] if result.skipped else ""

    def row(self, name, why):
        passes = not why
        here = NOT_ASKED.get(name) or ("calls no launcher" if name in WITHOUT_LAUNCH else "" if passes else why)
        return {"there": f"`{name}`", "values": "passes" if passes else "not asked", "here": here}

    def test_run(self):
        found = subprocess.run([SOURCES, "sources"], capture_output=True, text=True)
        if found.returncode != 0:
            self.skipTest(found.stdout.strip())
        folder = found.stdout.strip()
        with mock.patch("torch.distributed.run.main", main):
            suite = unittest.defaultTestLoader.loadTestsFromModule(load(os.path.join(folder, TESTS)))
            tests = [test for case in suite for test in case]
            outcomes = {test.id().rsplit(".", 1)[1]: self.outcome(test) for test in tests}
        self.assertGreater(len(outcomes), 20)
        skipped = {name for name, why in outcomes.items() if why and "\n" not in why}
        self.assertEqual({name: why for name, why in outcomes.items()
                          if bool(why) != (name in NOT_ASKED) and name not in skipped}, {})
        release = jobs.read(os.path.join(folder, "RELEASE")).strip()
        rows = [{"area": f"the tests of PyTorch {release}", **self.row(name, why)} for name, why in outcomes.items()]
        self.assertEqual(torchrun_table.record(rows), [], "run tests/jobs/torchrun_table.py")


SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support/todays_torch")
if __name__ == "__main__":
    try:
        import torch.distributed.run
    except ImportError as missing:
        jobs.skip(f"{missing} (Debian: python3-torch)")
    multiprocessing.set_start_method("fork")  # what runs beside a test finds cxxrun in torch's place, too
    jobs.main()
