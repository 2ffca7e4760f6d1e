"""PyTorch DDP over three hosts that loses the first one, where coordinator, store and rank 0 were: the other two finish
from the checkpoint. Usage: torch_first_host_test.py CXXRUN. Exit code 77: skipped, with the reason."""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "jobs")]
import faults  # noqa: E402
import wires  # noqa: E402
from jobs import wait_until  # noqa: E402
from machines import Cluster, read  # noqa: E402

TRAIN = HERE.parents[1] / "examples/02_pytorch/train.py"
STEPS = 60
GUARD = 120  # seconds; against hanging only


def missing():
    try:
        import torch.distributed
    except ImportError as error:
        return f"{error} (Debian: python3-torch)"
    return wires.missing() or (None if torch.distributed.is_available() else "torch was built without distributed")


class FirstHost(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cxxrun-faults-torch-")
        self.addCleanup(shutil.rmtree, self.dir)
        net = wires.Wires(3)
        self.addCleanup(net.close)
        self.cluster = Cluster(net, self.dir)
        self.addCleanup(self.cluster.__exit__)

    def said(self, host):
        return read(self.cluster.machines[host].logs / "out")

    def everything(self):
        return "".join(f"--- host {m.index}\n{self.said(m.index)}{m.said}" for m in self.cluster.machines)

    def await_that(self, condition, what):
        try:
            wait_until(condition, what, GUARD)
        except AssertionError as late:
            self.fail(f"{late}\n{self.everything()}")

    def train_and_lose_the_first(self, fault):
        env = {"PYTHON_EXEC": "/usr/bin/python3", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1",
               "CUDA_VISIBLE_DEVICES": "", "TMPDIR": self.dir}
        options = ["--nnodes", "2:3", "--join-window", "1", "--restart-timeout", "1", "--max-restarts", "0"]
        self.cluster.start(CXXRUN, options, [str(TRAIN), "--steps", str(STEPS), "--pause-ms", "100", "--checkpoint",
                                             os.path.join(self.dir, "checkpoint.pt")], env)
        self.await_that(lambda: "step 5: " in self.said(0) or self.cluster.exits(), "three ranks train")
        self.assertIn("over 3 ranks", self.said(0), self.everything())
        fault.begin(self.cluster, 0)
        last = max(map(int, re.findall(r"step (\d+):", self.said(0))))
        self.await_that(lambda: {1, 2} <= self.cluster.exits().keys(), "the other two end")
        self.assertEqual([self.cluster.exits()[host] for host in (1, 2)], [0, 0], self.everything())
        return last

    def assert_finished_from_the_checkpoint(self, last):
        text = self.said(1) + self.said(2)
        began = re.findall(r"goes on after step (\d+)", text)
        self.assertEqual(len(began), 1, text)
        self.assertGreaterEqual(int(began[0]), last - 1)  # printed before it is saved
        steps = [int(step) for step in re.findall(r"step (\d+): loss \S+ over 2 ranks", text)]
        self.assertEqual(steps, list(range(int(began[0]) + 1, STEPS + 1)))
        weights = dict(re.findall(r"rank (\d+) ends with weights (\S+)", text))
        self.assertEqual(sorted(weights), ["0", "1"])
        self.assertEqual(len(set(weights.values())), 1, weights)

    def test_every_process_of_the_first_host_is_killed(self):
        self.assert_finished_from_the_checkpoint(self.train_and_lose_the_first(faults.Kill("host")))

    def test_the_first_host_falls_silent(self):
        self.assert_finished_from_the_checkpoint(self.train_and_lose_the_first(faults.Kill("host", silent=True)))


if __name__ == "__main__":
    why = missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    CXXRUN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
