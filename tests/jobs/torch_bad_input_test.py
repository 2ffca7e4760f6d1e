"""What goes wrong with cxxrun.torch.Elastic: one clear line, or it works. Usage: torch_bad_input_test.py CXXRUN LIBCXXRUN_C
Exit code 77: there is no torch."""
import json
import os
import re
import subprocess
import unittest

import jobs
from elastic_jobs import FSDP2, HERE, ElasticCase

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
while job.running({steps}):
    with job.step():
        ddp(torch.ones(2, 4)).sum().backward()
        {body}
        optimizer.step()
print("done", os.getpid(), flush=True)
"""

# Its first backward pass raises behind the average between nodes; the script goes on.
SHARDED = """
import torch
from torch.distributed.fsdp import fully_shard
from cxxrun.torch import Elastic
torch.set_num_threads(1)
job = Elastic()
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
for each in (*model, model):
    fully_shard(each, mesh=job.node_mesh())
job.replicate(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job.track(model=model, optimizer=optimizer)
def fail(_):
    raise ValueError("once")
raised = False
while job.running(3):
    try:
        with job.step():
            x = torch.ones(2, 4, requires_grad=True)
            y = model(x)
            if not raised:
                x.register_hook(fail)
            y.sum().backward()
            assert not job._node._queued
            optimizer.step()
    except ValueError:
        assert job._node._queued
        raised = True
        model.reset_iter_state()
assert raised
print("done", job.completed, flush=True)
"""

# Rank 1 goes on after an exception behind its update, which rank 0 does not have, and dies in a call between two steps.
CAUGHT = """
import os
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from cxxrun.torch import Elastic, PeerFailure
torch.set_num_threads(1)
job = Elastic()
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job.track(model=model, optimizer=optimizer)
ddp = job.wrap(lambda: DistributedDataParallel(model))
while job.running(6):
    try:
        with job.step() as step:
            ddp(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if (dist.get_rank(), job.generation, job.completed) == (1, 1, 3):
                raise ValueError("once")
        if step.done:
            if (dist.get_rank(), job.generation, job.completed) == (1, 2, 5):
                os._exit(9)
            dist.all_reduce(torch.ones(1))
    except (ValueError, PeerFailure):
        pass
print("end", job.completed, job.generation, model.weight.tolist(), flush=True)
"""

# What the example of docs/use/elastic_pytorch.md leaves to the reader.
LEFT_OUT = """
class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(8, 2)

dataset = torch.randn(1000, 8)
loss_of = torch.nn.functional.cross_entropy

def fetch(dataset, samples):
    return dataset[samples], (dataset[samples].sum(1) > 0).long()

def evaluate(model):
    print("evaluated", flush=True)

def main"""

# In the worker itself: an agent that answers in another form.
OTHER_VERSION = """import socket
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.bind("")
agent.listen()
os.environ["CXXRUN_AGENT"] = "@" + agent.getsockname()[1:].decode()
def answer():
    while True:
        link, _ = agent.accept()
        link.recv(100)
        link.send(b"CXXWORK\\x02A")
        link.close()
threading.Thread(target=answer, daemon=True).start()
"""


class BadInput(ElasticCase):
    def script(self, body="pass", first="", steps=3):
        return self.make_file("train.py", TRAIN.format(first=first, steps=steps, body=body.replace("\n", "\n        ")))

    def run_ranks(self, code, *arguments, restarts=0, options=(), **more):
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts), "--restart-delay", "0",
                         *options, self.script(*arguments), **more)
        self.assertEqual(job.wait(GUARD), code, job.stderr)
        return job

    def assert_said(self, stderr, why):
        """In one line."""
        lines = [line for line in stderr.splitlines() if "does not outlive" in line]
        self.assertEqual(len(lines), 1, stderr)
        self.assertIn("Elastic: this process does not outlive the death of another rank: ", lines[0])
        self.assertRegex(lines[0], why)

    def test_without_a_launcher_it_is_a_world_of_one_which_is_said(self):
        script = self.script("job.checkpoint_wanted()\n"
                             "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL", "import signal")
        done = subprocess.run(["/usr/bin/python3", script], env=self.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=GUARD, check=False)
        self.assertEqual((done.returncode, done.stdout[:4]), (0, "done"), done.stderr)
        self.assert_said(done.stderr, "CXXRUN_AGENT is not set")

    def test_a_launcher_that_cannot_be_told_is_said_and_the_job_trains(self):
        for first, why in (("os.environ.pop('CXXRUN_AGENT')", "CXXRUN_AGENT is not set"),
                           ("os.environ['CXXRUN_AGENT'] = '@cxxrun-test-nobody'", "ConnectionRefusedError"),
                           (OTHER_VERSION, "of another version than this package")):
            with self.subTest(why):
                job = self.run_ranks(0, "pass", first)
                self.assertEqual(job.stdout.count("done"), 2)
                self.assert_said(job.stderr, why)

    def test_with_a_launcher_nothing_is_said_of_it(self):
        self.assertNotIn("outlive", self.run_ranks(0).stderr)

    def test_what_scripts_that_do_not_survive_call_works_beside_it_or_is_refused(self):
        job = self.run_ranks(0, """for call in (cxxrun.checkpoint_wanted, cxxrun.job_ends):
    try:
        print("silent", call())
    except RuntimeError as error:
        print("refused:", error, flush=True)
cxxrun.step(job.completed + 1, loss=0.5)""", "import cxxrun\ncxxrun.install()", options=("--log-dir", self.path("logs")))
        self.assertEqual((job.stdout.count("refused: cxxrun.checkpoint_wanted(): this process has an Elastic"),
                          job.stdout.count("refused: cxxrun.job_ends(): this process has an Elastic"),
                          job.stdout.count("silent")), (6, 6, 0), job.stdout)
        self.assertNotIn("install()", job.stderr)
        written = [os.path.join(folder, "steps.jsonl") for folder, _, files in os.walk(self.path("logs"))
                   if "steps.jsonl" in files]
        self.assertEqual([(line["step"], line["loss"]) for line in map(json.loads, map(jobs.read, written))],
                         [(1, 0.5)] * 2)

    def test_elastic_after_the_launcher_has_been_told_is_refused(self):
        job = self.run_ranks(1, "pass", "import cxxrun\ncxxrun.step(1)", restarts=2)
        self.assertIn("; not restarted: cxxrun.RefusedError: Elastic: this process has told the launcher of itself already",
                      job.stderr)
        self.assertIn("restarts used: 0 of 2", job.stderr)

    def test_the_samplers_package_alone_does_not_keep_install_from_naming_a_hang(self):
        with open(self.path("train.py"), "w") as file:
            file.write("""import threading, cxxrun
from cxxrun.torch import ElasticSampler
import torch, torch.distributed as dist
assert cxxrun.install()
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    threading.Event().wait()
dist.all_reduce(torch.ones(3))
""")
        job = self.start("--standalone", "--nproc-per-node", "3", "--hang-timeout", "2", self.path("train.py"))
        self.assertNotEqual(job.wait(GUARD), 0)
        self.assertRegex(job.stderr, r"rank 1 on .* did not enter all_reduce")

    def test_ranks_that_disagree_are_told_how(self):
        job = self.run_ranks(1, "dist.all_reduce(torch.ones(3 + dist.get_rank()))")
        self.assertRegex(job.stderr, r"why: .*ranks disagree")

    def test_an_exception_of_the_script_ends_it(self):
        job = self.run_ranks(1, "if dist.get_rank() == 1:\n    raise ValueError('bad sample 17')")
        self.assertRegex(job.stderr, r"first failure: rank 1 on ")
        self.assertIn("ValueError: bad sample 17", job.stderr)

    def test_a_rank_that_catches_an_exception_behind_its_update_is_replaced(self):
        self.make_file("train.py", CAUGHT)
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "2", "--restart-delay", "0",
                         self.path("train.py"))
        self.assertEqual(job.wait(GUARD), 0, job.stderr)
        self.assertIn("this rank cannot go on with the others: end this process", job.stderr)
        ends = [line.split("end ")[1] for line in job.stdout.splitlines()]
        self.assertEqual((len(ends), len(set(ends)), ends[0][:4]), (2, 1, "6 3 "), ends)

    def test_the_pages_example_needs_the_directory_of_its_checkpoint_and_trains(self):
        page = jobs.read(os.path.join(HERE, "..", "..", "docs", "use", "elastic_pytorch.md"))
        example = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
        for before, after in (("\ndef main", LEFT_OUT), ("10_000", "30"), ("% 1000", "% 10")):
            self.assertEqual(example.count(before), 1, before)
            example = example.replace(before, after)
        self.make_file("train.py", f"import os\nos.chdir(os.environ['DIR'])\n{example}")
        for code in (1, 0):
            job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "1", self.path("train.py"))
            self.assertEqual(job.wait(GUARD), code, job.stderr)
            if code:
                self.assertIn("checkpoint='run/checkpoint.pt': its directory is not there: make it first", job.stderr)
                self.assertIn("restarts used: 0 of 1", job.stderr)
                self.assertEqual(job.stdout, "")
                os.mkdir(self.path("run"))
        self.assertEqual((job.stdout.count("evaluated"), len(job.stdout.splitlines())), (2, 32), job.stdout)
        self.assertTrue(os.path.exists(self.path("run/checkpoint.pt")))

    def test_an_exception_while_a_call_ends_in_the_background_ends_it_with_its_code(self):
        job = self.run_ranks(1, """begun = threading.Event()
def lasts(future):
    begun.set()
    time.sleep(0.5)  # the interpreter has begun to end when torch's C++ is to go on
    return future.value()
dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lasts)
begun.wait()
raise ValueError('bad sample 17')""")
        self.assertIn("ValueError: bad sample 17", job.stderr)
        self.assertNotIn("terminate called", job.stderr)

    def test_one_that_ends_without_a_word_is_replaced(self):
        for code in (0, 3):
            with self.subTest(code):
                job = self.run_ranks(0, f"if dist.get_rank() == 1 and job.generation == 1 and job.completed == 1:\n    os._exit({code})",
                                     restarts=1)
                self.assertEqual(job.stdout.count("done"), 2, job.stderr)

    def test_a_wait_that_is_given_a_time_ends_then_and_the_call_goes_on(self):
        job = self.run_ranks(0, """given_up = os.environ["DIR"] + f"/given_up{job.completed}"
while dist.get_rank() == 1 and not os.path.exists(given_up):
    time.sleep(0.001)
total = torch.ones(1)
work = dist.all_reduce(total, async_op=True)
if dist.get_rank() == 0:
    try:
        work.wait(timeout=timedelta(milliseconds=20))
    except RuntimeError as error:
        assert "was not done within 0.02 s" in str(error), error
        open(given_up, "w").close()
work.wait(timedelta(seconds=100))
assert total.item() == 2""", "from datetime import timedelta")
        self.assertEqual(job.stdout.count("done"), 2, job.stderr)

    def test_a_request_that_ends_the_job_is_not_forgotten_by_who_asks_once_more(self):
        body = """if dist.get_rank() == 0 and job.completed == 1:
    os.kill(os.getppid(), signal.SIGTERM)
for _ in range(3):
    wanted = job.checkpoint_wanted()
assert job.completed < 500"""
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "0",
                         self.script(body, "import signal", steps=1000))
        job.wait(GUARD)
        self.assertEqual(job.stdout.count("done"), 2, job.stderr)

    @unittest.skipUnless(FSDP2, "this PyTorch has no FSDP2, and may have no device meshes")
    def test_install_sees_the_group_that_a_device_mesh_makes(self):
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", "--no-python", "/usr/bin/python3", "-c", """
import threading
import torch, torch.distributed.device_mesh as meshes
import cxxrun
assert cxxrun.install()
meshes.init_device_mesh("cpu", (2,))
print("seen", [each.name for each in threading.enumerate()].count("cxxrun"))
torch.distributed.destroy_process_group()""")
        self.assertEqual((job.wait(GUARD), job.stdout.count("seen 1")), (0, 2), job.stderr)

    @unittest.skipUnless(FSDP2, "this PyTorch has no FSDP2")
    def test_a_backward_pass_of_shards_that_raises_leaves_nothing_for_the_next_one(self):
        self.make_file("train.py", SHARDED)
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", self.path("train.py"))
        self.assertEqual((job.wait(GUARD), job.stdout.count("done 3")), (0, 2), job.stderr)

    def test_a_fork_in_the_loop_knows_nothing_of_the_group_and_threads_from_before_go_on(self):
        job = self.run_ranks(0, """job.checkpoint_wanted()
child = os.fork()
if child == 0:
    print("ends of SIGTERM:", signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True)
    try:
        dist.all_reduce(torch.ones(1))
    except BaseException as error:
        print("refused:", error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
assert before.is_alive()""", """import signal
before = threading.Thread(target=time.sleep, args=(999,), daemon=True)
before.start()""")
        self.assertEqual([job.stdout.count(each) for each in ("refused:", "ends of SIGTERM: True", "done")], [6, 6, 2],
                         job.stdout + job.stderr)


if __name__ == "__main__":
    jobs.main()
