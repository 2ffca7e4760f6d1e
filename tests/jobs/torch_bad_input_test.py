"""What goes wrong with cxxrun.torch.Elastic: one clear line, or it works. Usage: torch_bad_input_test.py CXXRUN LIBCXXRUN_C
Exit code 77: there is no torch."""
import importlib.util
import os
import subprocess
import sys

import jobs
from jobs import JobCase

if importlib.util.find_spec("torch") is None:
    print("skipped: there is no torch (Debian: python3-torch)")
    sys.exit(77)
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.abspath(sys.argv.pop(2))
GUARD = 120

# `body` is what a rank does in each step, behind its backward pass.
TRAIN = """
import os, threading, time
{first}
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from cxxrun.torch import Elastic
torch.set_num_threads(1)
job = Elastic()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job.track(model=model, optimizer=optimizer)
ddp = job.wrap(lambda: DistributedDataParallel(model))
while job.running(3):
    with job.step():
        ddp(torch.ones(2, 4)).sum().backward()
        {body}
        optimizer.step()
print("done", os.getpid(), flush=True)
"""


class BadInput(JobCase):
    def environment(self, extra=None):
        env = super().environment({"CXXRUN_LIBRARY": LIBRARY, "CXXRUN_BACKEND": "host", "PYTHON_EXEC": "/usr/bin/python3",
                                   "PYTHONPATH": os.path.join(HERE, "../../src/python"), "CUDA_VISIBLE_DEVICES": "",
                                   "GLOG_minloglevel": "2", **(extra or {})})
        return env

    def script(self, body="pass", first=""):
        with open(self.path("train.py"), "w") as file:
            file.write(TRAIN.format(first=first, body=body.replace("\n", "\n        ")))
        return self.path("train.py")

    def run_ranks(self, code, *arguments, restarts=0, **more):
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts), "--restart-delay", "0",
                         self.script(*arguments), **more)
        self.assertEqual(job.wait(GUARD), code, job.stderr)
        return job

    def test_without_a_launcher_it_is_a_world_of_one_and_one_that_is_gone_is_not_missed_before_somebody_dies(self):
        done = subprocess.run(["/usr/bin/python3", self.script()], env=self.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=GUARD, check=False)
        self.assertEqual((done.returncode, done.stdout[:4]), (0, "done"), done.stderr)
        job = self.run_ranks(0, "pass", "os.environ['CXXRUN_AGENT'] = '@cxxrun-test-nobody'")
        self.assertEqual(job.stdout.count("done"), 2)

    def test_ranks_that_disagree_are_told_how(self):
        job = self.run_ranks(1, "dist.all_reduce(torch.ones(3 + dist.get_rank()))")
        self.assertRegex(job.stderr, r"why: .*ranks disagree")

    def test_an_exception_of_the_script_ends_it(self):
        job = self.run_ranks(1, "if dist.get_rank() == 1:\n    raise ValueError('bad sample 17')")
        self.assertRegex(job.stderr, r"first failure: rank 1 on ")
        self.assertIn("ValueError: bad sample 17", job.stderr)

    def test_one_that_ends_without_a_word_is_replaced(self):
        for code in (0, 3):
            with self.subTest(code):
                job = self.run_ranks(0, f"if dist.get_rank() == 1 and job.generation == 1 and job.completed == 1:\n    os._exit({code})",
                                     restarts=1)
                self.assertEqual(job.stdout.count("done"), 2, job.stderr)

    def test_a_fork_in_the_loop_knows_nothing_of_the_group_and_threads_from_before_go_on(self):
        job = self.run_ranks(0, """child = os.fork()
if child == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except BaseException as error:
        print("refused:", error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
assert before.is_alive()""", "before = threading.Thread(target=time.sleep, args=(999,), daemon=True)\nbefore.start()")
        self.assertEqual((job.stdout.count("refused:"), job.stdout.count("done")), (6, 2), job.stdout + job.stderr)


if __name__ == "__main__":
    jobs.main()
