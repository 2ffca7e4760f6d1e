"""Jobs whose workers are bound to CPUs, as far as a machine with few CPUs shows it. Usage: job_binding_test.py CXXRUN"""
import os
import unittest

import jobs
from jobs import JobCase

CPUS = sorted(os.sched_getaffinity(0))


def expand(text):
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


class Binding(JobCase):
    def setUp(self):
        super().setUp()
        self.program = self.worker(
            "note cpus $(grep Cpus_allowed_list /proc/self/status | cut -f 2) $OMP_NUM_THREADS $(env -u OMP_NUM_THREADS nproc)")

    def cpus(self, agent):
        """The CPUs of each worker, by rank."""
        self.assertEqual(agent.code, 0, agent.stderr)
        return [expand(event[3]) for event in sorted(self.events("cpus"), key=lambda event: event[1])]

    def on(self, cpus, *arguments, **more):
        """Runs a job on these CPUs alone."""
        return self.run_job(*arguments, self.program, preexec_fn=lambda: os.sched_setaffinity(0, cpus), **more)

    @unittest.skipIf(len(CPUS) < 2, "needs two CPUs")
    def test_two_workers_share_two_cpus_and_omp_num_threads_follows(self):
        agent = self.on(set(CPUS[:2]), "--nproc-per-node", "2", "--cpu-bind", "share")
        found = self.cpus(agent)
        self.assertEqual(found[0] | found[1], set(CPUS[:2]))
        self.assertEqual((len(found[0]), len(found[1])), (1, 1))
        self.assertEqual({event[4:] for event in self.events("cpus")}, {("1", "1")})

    @unittest.skipIf(len(CPUS) < 2, "needs two CPUs")
    def test_a_restart_binds_as_before(self):
        self.program = self.worker(
            "note cpus $(grep Cpus_allowed_list /proc/self/status | cut -f 2)\ntest $CXXRUN_GENERATION = 2")
        self.on(set(CPUS[:2]), "--nproc-per-node", "2", "--cpu-bind", "share")
        for rank in (0, 1):
            self.assertEqual(len({event[3] for event in self.events("cpus") if event[1] == rank}), 1)
        self.assertEqual(len(self.events("cpus", 2)), 2)

    def test_two_workers_on_one_cpu_are_not_bound_and_a_line_says_why(self):
        agent = self.on({CPUS[-1]}, "--nproc-per-node", "2", "--cpu-bind", "share")
        self.assertEqual(self.cpus(agent), [{CPUS[-1]}] * 2)
        self.assertIn("2 workers on 1 CPU: workers are not bound to CPUs", agent.stderr)

    def test_outside_slurm_nothing_is_bound_by_default(self):
        agent = self.on(set(CPUS), "--nproc-per-node", "2")
        self.assertEqual(self.cpus(agent), [set(CPUS)] * 2)

    @unittest.skipIf(len(CPUS) < 2, "needs two CPUs")
    def test_under_slurm_workers_share_by_default(self):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0",
                 "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}
        shared = self.on(set(CPUS[:2]), "--nproc-per-node", "2", env=slurm)
        self.assertEqual(sorted(map(len, self.cpus(shared))), [1, 1])
        os.unlink(self.path("events"))
        free = self.on(set(CPUS[:2]), "--nproc-per-node", "2", "--cpu-bind", "none", env=slurm)
        self.assertEqual(self.cpus(free), [set(CPUS[:2])] * 2)

    @unittest.skipIf(len(CPUS) < 2, "needs two CPUs")
    def test_numa_binding_never_leaves_the_allowed_cpus_and_says_that_gpus_are_unknown(self):
        for mode in ("node", "socket", "exclusive", "core-complex"):
            agent = self.on(set(CPUS[:2]), "--nproc-per-node", "2", "--numa-binding", mode)
            for cpus in self.cpus(agent):
                self.assertLessEqual(cpus, set(CPUS[:2]))
            if not os.path.exists("/proc/driver/nvidia/gpus"):
                self.assertIn("the NUMA node of the GPU of local rank 0-1 is not known", agent.stderr)
            os.unlink(self.path("events"))

    def test_a_dry_run_shows_the_cpus(self):
        agent = self.run_job("--cpu-bind", "share", "--nproc-per-node", str(len(CPUS)), "--dry-run", "true", code=0)
        if len(CPUS) > 1 and "not bound" not in agent.stdout:
            self.assertIn(f"  CPUs: {CPUS[0]}", agent.stdout)

    def test_contradictory_options_and_unknown_modes_are_refused_in_a_line(self):
        both = self.run_job("--cpu-bind", "share", "--numa-binding", "node", "true", code=100)
        self.assertEqual(both.stderr, "cxxrun: --numa-binding and --cpu-bind exclude each other: drop one of them\n")
        unknown = self.run_job("--numa-binding", "nodes", "true", code=100)
        self.assertIn("node, socket, exclusive or core-complex is expected", unknown.stderr)


if __name__ == "__main__":
    jobs.main()
