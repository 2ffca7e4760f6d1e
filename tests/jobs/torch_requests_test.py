"""cxxrun.checkpoint_wanted() and cxxrun.step() of PyTorch scripts, with Elastic and without.
Usage: torch_requests_test.py CXXRUN LIBCXXRUN_C. Exit code 77: there is no torch."""
import json
import pathlib
import subprocess
import sys

import jobs
from elastic_jobs import ElasticCase

GUARD = 120

# What is summed up is kept: destroy_process_group() of PyTorch 2.6 waits for gloo's threads with Python's lock in its hands,
# and one of them wants that lock if it is the last to drop a tensor (docs/use/pytorch.md).
PLAIN = """
import torch, torch.distributed as dist
import cxxrun
dist.init_process_group("gloo")
one = torch.ones(1)
saved, step = None, 0
while saved is None or step < saved + 5:
    dist.all_reduce(one)
    step += 1
    if cxxrun.checkpoint_wanted():
        assert saved is None and not cxxrun.job_ends()
        saved = step
print("saved", saved, flush=True)
dist.destroy_process_group()
"""
STEPS = """
import time
import cxxrun
step, end = 0, time.monotonic() + 2.5
while time.monotonic() < end:
    step += 1
    cxxrun.step(step, loss=0.5)
print("saved nothing")
"""
# One rank is told to end; no launcher is needed for that.
ENDS = """
import os, signal
import torch, torch.distributed as dist
import cxxrun
dist.init_process_group("gloo")
one, step = torch.ones(1), 0
while True:
    dist.all_reduce(one)
    step += 1
    if dist.get_rank() == 1 and step == 50:
        os.kill(os.getpid(), signal.SIGTERM)
    if cxxrun.checkpoint_wanted():
        break
print("saved", step, cxxrun.job_ends(), flush=True)
dist.destroy_process_group()
"""
KEPT = """
import weakref
import torch.distributed as dist
import cxxrun, cxxrun._wanted
dist.init_process_group("gloo")
cxxrun.checkpoint_wanted()
first = weakref.ref(cxxrun._wanted._agreement._tensor)
for _ in range(3):
    assert not cxxrun.checkpoint_wanted()
assert first() is not None
print("saved", "nothing", flush=True)
dist.destroy_process_group()
"""
# The launcher has gone. Groups are made twice, and that is said once. In one store PyTorch 1 makes the default group once.
GONE = """
import os
os.environ["CXXRUN_AGENT"] = "@cxxrun-test-nobody"
import cxxrun
assert cxxrun.install()
import torch, torch.distributed as dist
for _ in range(1 if torch.__version__.startswith("1.") else 2):
    dist.init_process_group("gloo")
    dist.destroy_process_group()
cxxrun.step(1)
assert not cxxrun.checkpoint_wanted()
print("saved", "nothing", flush=True)
"""
ELASTIC = """
import torch, torch.distributed as dist
from cxxrun.torch import Elastic
job = Elastic()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job.track(model=model, optimizer=optimizer)
saved = None
while job.running(1000000):
    with job.step():
        model(torch.ones(2, 4)).sum().backward()
        dist.all_reduce(model.weight.grad)
        optimizer.step()
    if job.checkpoint_wanted():
        assert saved is None
        saved = job.completed
    if saved and job.completed == saved + 5:
        break
print("saved", saved, flush=True)
"""
AT_ONCE = ("--time-limit", "60", "--checkpoint-signal", "USR1@3600")  # minutes, seconds


class Requests(ElasticCase):
    def ranks(self, script, *options, count=2):
        self.make_file("train.py", script)
        job = self.start("--standalone", "--nproc-per-node", str(count), "--max-restarts", "0", *options, self.path("train.py"))
        self.assertEqual(job.wait(GUARD), 0, job.stderr)
        self.said = job.stderr
        return sorted(line.split("saved ")[1] for line in job.stdout.splitlines())

    def test_a_checkpoint_signal_is_answered_once_in_one_step_and_the_job_goes_on(self):
        for script in (PLAIN, ELASTIC):
            saved = self.ranks(script, *AT_ONCE)
            self.assertEqual((len(saved), len(set(saved)), saved[0].isdigit()), (2, 1, True), saved)

    def test_what_the_ranks_agree_in_is_dropped_with_the_group_alone(self):
        self.assertEqual(self.ranks(KEPT), ["nothing", "nothing"])

    def test_without_a_launcher_a_rank_that_is_told_to_end_is_enough(self):
        self.make_file("train.py", ENDS)
        env = {**self.environment(), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "USE_LIBUV": "0",
               "MASTER_PORT": str(jobs.free_port())}
        ranks = [subprocess.Popen([sys.executable, self.path("train.py")], env={**env, "RANK": str(rank)}, text=True,
                                  stdout=subprocess.PIPE) for rank in range(2)]
        said = [rank.communicate(timeout=GUARD)[0] for rank in ranks]
        self.assertEqual(said[0], said[1])
        self.assertRegex(said[0], r"^saved 5\d True\n$")

    def test_a_launcher_that_has_gone_is_said_once_and_the_script_goes_on(self):
        self.assertEqual(self.ranks(GONE, count=1), ["nothing"])
        self.assertEqual(self.said.count("install(): hangs are not named: the launcher at CXXRUN_AGENT=@cxxrun-test-nobody "
                                         "cannot be told"), 1, self.said)

    def test_steps_are_written_with_their_rate(self):
        self.ranks(STEPS, "--log-dir", self.path("logs"))
        files = list(pathlib.Path(self.path("logs")).rglob("steps.jsonl"))
        self.assertEqual(len(files), 2)
        for file in files:
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            self.assertGreater(len(lines), 1)
            self.assertEqual((lines[0]["step"], lines[0]["steps_per_second"], lines[0]["loss"]), (1, None, 0.5))
            for before, line in zip(lines, lines[1:]):
                rate = (line["step"] - before["step"]) / (line["time"] - before["time"])
                self.assertAlmostEqual(line["steps_per_second"] / rate, 1, delta=0.1)


if __name__ == "__main__":
    jobs.main()
