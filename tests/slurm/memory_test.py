"""The kernel's out-of-memory killer in a step of Slurm's. Usage: memory_test.py CXXRUN"""
import unittest

import namespaces
import slurm_case
from jobs import read
from releases import expected
from slurm_case import SlurmCase

# Rank 1 takes more than the step may have. Without it the job ends.
GREEDY = """
import os, time
if os.environ["WORLD_SIZE"] == "1":
    raise SystemExit(3)
if os.environ["RANK"] == "1":
    taken = bytearray(300 << 20)
time.sleep(1000)
"""


def counts_memory():
    """Whether Slurm's control groups have the memory controller here."""
    if namespaces.unified():
        return "memory" in read(namespaces.GROUPS + "/cgroup.controllers").split()
    with open("/proc/cgroups") as f:
        return any(line.startswith("memory\t") and line.split()[1] != "0" for line in f)


@unittest.skipUnless(counts_memory(), "no memory controller of control groups")
class Memory(SlurmCase):
    cluster_options = {"nodes": 2, "proctrack": "cgroup",
                       "config": {"TaskPlugin": "task/cgroup", "SelectTypeParameters": "CR_CPU_Memory"}}

    def greedy(self, nodes, *arguments):
        # The job may have more than its step: with the same limit for both, the kernel names either.
        done = self.salloc(f"-N{nodes}", "--mem=200", "srun", "--mem=100", "cxxrun", "--no-python", *arguments, "python3", "-c",
                           GREEDY)
        self.assertNotEqual(done.code, 0, done)
        step = expected("step in a report")
        self.assertRegex(done.err, r"rank 1 on node\d: signal 9 \(SIGKILL\): killed by the kernel: memory limit 100 MiB "
                                   rf"of {step} \(worker peak \d+ MiB, ")
        self.assertIn("advice:        raise --mem, or use less memory", done.err)
        return done

    def test_the_report_names_the_limit_of_the_step(self):
        self.greedy(1, "--nproc-per-node", "2", "--max-restarts", "0")

    def test_a_job_that_reaches_its_limit_twice_costs_no_node_its_place(self):
        done = self.greedy(2, "--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "2", "--restart-delay", "0",
                           "--log-dir", self.path("logs"))
        self.assertNotIn("excluded", done.err)
        verdict = self.verdict()
        self.assertEqual((verdict["node_faults"], verdict["excluded"], verdict["restarts"]), ([], [], 2))
        self.assertEqual([past["nodes"] for past in verdict["history"]], [2, 2, 2])


if __name__ == "__main__":
    slurm_case.main()
