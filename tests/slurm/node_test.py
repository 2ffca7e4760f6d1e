"""What a node does for its workers in a real step: CPUs by default, the health check. Usage: node_test.py CXXRUN"""
import os
import unittest

import slurm_case
from slurm_case import SlurmCase

CPUS = sorted(os.sched_getaffinity(0))  # of every node: the cluster does not bind


def setUpModule():
    slurm_case.use_cluster(nodes=3, gpus=0)


@unittest.skipIf(len(CPUS) < 2, "needs two CPUs")
class Cpus(SlurmCase):
    def setUp(self):
        super().setUp()
        self.program = self.worker("note cpus $(env -u OMP_NUM_THREADS nproc)")

    def counts(self):
        return [int(event[3]) for event in self.events("cpus")]

    def test_the_workers_of_a_node_share_its_cpus_by_default(self):
        typed = "srun -N2 cxxrun --nproc-per-node 2 ./train"
        self.srun("-N2", "cxxrun", "--nproc-per-node", "2", self.program, code=0)
        self.assertEqual(len(self.counts()), 4)
        self.assertEqual(sum(self.counts()), 2 * len(CPUS))
        self.row("CPUs", typed, "each worker has half of the CPUs of its node")

    def test_with_several_tasks_on_a_node_slurm_binds_and_cxxrun_does_not(self):
        done = self.srun("-N2", "--ntasks-per-node=2", "cxxrun", self.program)
        self.assertEqual((done.code, self.counts()), (0, [len(CPUS)] * 4), done)
        self.row("CPUs", "srun -N2 --ntasks-per-node=2 cxxrun ./train", "workers keep what Slurm gave their task")

    def test_cpu_bind_none_leaves_them_alone(self):
        done = self.srun("-N1", "cxxrun", "--nproc-per-node", "2", "--cpu-bind", "none", self.program)
        self.assertEqual((done.code, self.counts()), (0, [len(CPUS)] * 2), done)


class Health(SlurmCase):
    ILL = 'test $CXXRUN_HOST != node2 || { echo "GPU 3 is gone"; exit 9; }'

    def test_an_elastic_job_goes_on_without_the_node(self):
        program = self.worker('note start $WORLD_SIZE\ngate go')
        job = self.start_srun("-N3", "--kill-on-bad-exit", "cxxrun", "--nnodes", "2:3", "--health-check", self.ILL, program)
        self.assertEqual({event[3] for event in self.await_events(2, "start")}, {"2"})
        self.assertEqual(len(self.events("start")), 2)
        self.open_gate("go")
        code = job.wait()
        self.assertIn("excluded node2: health check: exit code 9: GPU 3 is gone", job.err)
        self.assertEqual(code, 0, job.err)
        self.row("health check", "srun -N3 cxxrun --nnodes 2:3 --health-check CMD ./train",
                 "CMD fails on one node: it is named and excluded, the others finish; srun ends with 0")

    def test_a_spare_takes_the_place(self):
        program = self.worker("note start $WORLD_SIZE")
        first_one = "if mkdir $DIR/ill 2>/dev/null; then exit 9; fi"  # whoever is checked first, be it the host
        done = self.srun("-N3", "cxxrun", "--nnodes", "2", "--health-check", first_one, program)
        self.assertEqual((done.code, [event[3] for event in self.events("start")]), (0, ["2", "2"]), done)
        self.assertEqual(done.err.count("warning: excluded node"), 1, done)

    def test_a_fixed_size_ends_at_once_on_every_node(self):
        program = self.worker("note start")
        done = self.srun("-N2", "cxxrun", "--health-check", self.ILL, program)
        self.assertEqual((done.code, self.events("start")), (112, []), done)
        self.assertIn("too few nodes", done.err)
        self.assertIn("node2: health check: exit code 9: GPU 3 is gone", done.err)
        self.row("health check", "srun -N2 cxxrun --health-check CMD ./train",
                 "CMD fails on one node: no worker starts, the verdict names the node and CMD's last line, 112")

    def test_cancelled_while_it_checks_it_leaves_nothing(self):
        job = self.start_srun("-N2", "cxxrun", "--health-check", 'echo "1 0 check" >> $DIR/events; sleep 1000', "true")
        self.await_events(2, "check")
        self.scancel("--name=cxxrun")
        job.wait()
        self.assertEqual(self.events("start"), [])


if __name__ == "__main__":
    slurm_case.main()
