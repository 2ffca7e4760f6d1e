"""--warm with PyTorch: what an import of torch brings with it must not be shared. Usage: warm_torch_test.py CXXRUN"""
import json
import sys
import unittest

import job_warm_test
import jobs
from job_warm_test import Warm
from jobs import read

try:
    import torch
except ImportError:
    torch = None

TRAIN = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
note("start", "{module}" in sys.modules, os.getpid())
dist.init_process_group("gloo")
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Linear(40, 40))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    torch.manual_seed(100 * step + int(RANK))
    loss = model(torch.randn(8, 40)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 10 and RANK == "1" and GENERATION == "1":
        os.kill(os.getpid(), signal.SIGKILL)
note("end", sum(p.double().sum().item() for p in model.parameters()).hex())
"""

# What depends on how a library was loaded, and on a fork.
COMPUTE = """
import torch, numpy, json, ctypes
was = "torch.distributed" in sys.modules
before = len(os.listdir("/proc/self/task"))
a = torch.randn(600, 600)
a.mm(a).relu().sum()
numpy.dot(a.numpy(), a.numpy())
threads = len(os.listdir("/proc/self/task"))
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
made = [kind(lambda x, n=n: x + n) for n in range(20000)]
assert sum(f(1) for f in made) == 200010000
x = torch.ones(3, requires_grad=True)
(x * 2).sum().backward()
class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, i):
        return i, os.getppid()
loaded = [batch for batch in torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork")]
note("computed", was, before, threads, torch.get_num_threads(), torch.get_num_interop_threads(), x.grad.sum().item(),
     sum(int(numbers.sum()) for numbers, _ in loaded), all(int(p) == os.getpid() for _, ps in loaded for p in ps))
note("drew", torch.rand(1).item(), torch.initial_seed(), numpy.random.rand(), torch.randperm(1000)[:3].tolist().__repr__().replace(" ", ""))
"""

# What libraries have read of the environment and of the CPUs when they were loaded.
LOADED = """
import ctypes, torch, torch.distributed as dist
was = "trouble" in sys.modules
import trouble
with open("/proc/self/maps") as maps:
    gomp = ctypes.CDLL(next(line.split()[-1] for line in maps if "libgomp" in line))
note("loaded", was, dist.get_debug_level(), torch.get_num_threads(), gomp.omp_get_max_threads(), gomp.omp_get_num_procs(),
     os.environ.get("OMP_NUM_THREADS"), *map(trouble.seen.get, sorted(trouble.seen)))
"""


@unittest.skipUnless(torch, "no torch (Debian: python3-torch)")
class Torch(Warm):
    def test_a_job_whose_worker_is_killed_ends_with_the_parameters_of_an_executed_one(self):
        ends = {}
        for warm in ("torch,torch.distributed", None):
            script = self.script(TRAIN.replace("{module}", "torch.distributed" if warm else "re"))
            job = self.begin(script, "--nproc-per-node", "3", "--max-restarts", "1", "--restart-delay", "0", warm=warm)
            self.assertEqual(job.wait(120), 0, job.stderr)
            ends[warm] = {event[3] for event in self.events("end", 2)}
            self.assertEqual(len(self.events("end", 2)), 3 if warm else 6)
            self.assertEqual({event[3] for event in self.events("start")}, {"True"})
        self.assertEqual(len(ends[None]), 1, ends)

    def test_a_worker_computes_with_as_many_threads_as_an_executed_one(self):
        for environment in ({"OMP_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "2"}):
            seen = []
            for warm in ("torch.distributed", None):
                job = self.begin(self.script(COMPUTE), warm=warm, env=environment)
                self.assertEqual(job.wait(120), 0, job.stderr)
                seen.append(self.events("computed")[-1][3:])
            self.assertEqual(seen[0][0], "True")
            self.assertEqual(seen[0][3:], seen[1][3:], environment)  # torch's own
            self.assertEqual(seen[0][1], "1")  # none before something is computed
            self.assertLessEqual(int(seen[0][2]), int(seen[1][2]), environment)

    def test_an_import_sees_what_is_set_for_cxxrun(self):
        wanted = {"MKL_VERBOSE": "0", "OMP_NUM_THREADS": "3", "TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_LOGS": "+dynamo"}
        told = self.loaded("--nproc-per-node", "1", env=wanted)
        self.assertEqual(told, [("DebugLevel.DETAIL", "3", "3", told[0][3], "3", *wanted.values())])

    def test_a_worker_that_is_bound_has_the_threads_of_an_executed_one(self):
        """OMP_NUM_THREADS is the launcher's, as it is not set."""
        self.loaded("--nproc-per-node", "2", "--cpu-bind", "share")

    def loaded(self, *options, env=None):
        """What workers tell, the warm ones as the executed ones."""
        self.module("import os\nimport torch.distributed\nseen = {name: os.environ.get(name) for name in "
                    "('TORCH_LOGS', 'TORCH_DISTRIBUTED_DEBUG', 'MKL_VERBOSE', 'OMP_NUM_THREADS')}")
        seen = {}
        for warm in ("trouble", None):
            job = self.begin(self.script(LOADED), *options, warm=warm, env=env)
            self.assertEqual(job.wait(120), 0, job.stderr)
            its = self.events("loaded")[-int(options[1]):]
            self.assertEqual({event[3] for event in its}, {str(bool(warm))})
            seen[warm] = sorted(event[4:] for event in its)
        self.assertEqual(seen["trouble"], seen[None])
        return seen[None]

    def test_two_draw_different_numbers_in_torch_and_numpy(self):
        job = self.begin(self.script(COMPUTE), "--nproc-per-node", "2", warm="torch,numpy")
        self.assertEqual(job.wait(120), 0, job.stderr)
        one, two = self.events("drew")
        self.assertFalse(set(one[3:]) & set(two[3:]), (one, two))

    def test_the_warm_python_has_one_thread_and_no_device_and_opens_nothing_later(self):
        name = self.module("import torch.distributed\n" + job_warm_test.WATCH)
        self.make_gate("end")
        script = self.script("")
        self.make_file(script, f"import sys\nopened = sys.modules['{name}'].opened[:]\nimport os, torch\n"
                               "with open(os.environ['DIR'] + '/opened', 'w') as f:\n    f.write('\\n'.join(opened))\n"
                               "with open(os.environ['DIR'] + '/events', 'a') as f:\n    f.write('1 0 told\\n')\n"
                               "open(os.environ['DIR'] + '/end').close()\n")
        job = self.begin(script, warm=name)
        self.await_events(1, "told")
        zygote = self.zygote(job)
        self.assertIn("Threads:\t1\n", read(f"/proc/{zygote}/status"))
        self.open_gate("end")
        self.assert_codes([0], job)
        below = [path for path in read(self.path("opened")).splitlines() if path.startswith(sys.prefix)]
        self.assertEqual(below, [])

    def test_a_script_sees_of_itself_what_an_executed_one_does(self):
        portrait = job_warm_test.PORTRAIT.replace("xml.dom.minidom", "torch").replace("main = ", "import torch\nmain = ", 1)
        script = self.script(portrait + job_warm_test.TELL)
        told = {}
        for name, warm in (("warm", "torch"), ("executed", None)):
            job = self.begin(script, "--nproc-per-node", "1", warm=warm, env={"TELL": name})
            self.assertEqual(job.wait(120), 0, job.stderr)
            was, told[name] = json.loads(read(self.path(name + "0")))
            self.assertEqual(was, bool(warm))
            told[name]["environ"].pop("TELL")
        for what, executed in told["executed"].items():
            with self.subTest(what):
                self.assertEqual(told["warm"][what], executed)


if __name__ == "__main__":
    sys.exit(jobs.main())
