"""A step whose variables or flags cannot be meant: one line that says what is wrong and what to type, on every node.

What containers, wrappers and hands do to the variables of a real step. Usage: bad_input_test.py CXXRUN"""
import os

import slurm_case
from slurm_case import SlurmCase

LONG_LIST = "node1," * 15000 + "node2"  # a variable cannot be longer than 128 KiB

# What is done to the step's environment, as words of env(1): what is said about it.
WRONG = {
    "-u SLURM_NODEID": "SLURM_STEP_ID is set but SLURM_NODEID is not",
    "-u SLURM_STEP_NODELIST": "SLURM_STEP_ID is set but SLURM_STEP_NODELIST is not",
    "SLURM_NODEID=7": "SLURM_NODEID is 7 but the step has 2 nodes",
    "SLURM_NODEID=-1": "SLURM_NODEID=-1: a number from 0",
    "SLURM_LOCALID=1": "SLURM_LOCALID is 1 but this node has 1 task",
    "SLURM_PROCID=-2147483648": "SLURM_PROCID=-2147483648: a number from 0",
    "SLURM_STEP_NUM_NODES=3": "SLURM_STEP_NUM_NODES is 3 but SLURM_STEP_NODELIST names 2",
    "SLURM_STEP_NODELIST=(null)": "SLURM_STEP_NODELIST is (null)",
    "SLURM_STEP_NODELIST=node[1-": "a bracket is not closed",
    "SLURM_STEP_NODELIST=node[1-99999999]": "more than 65536 hosts",
    "SLURM_STEP_NODELIST=gpu[1-2]": "which SLURM_STEP_NODELIST does not name",
    "SLURM_STEP_TASKS_PER_NODE=1(x": "SLURM_STEP_TASKS_PER_NODE: '1(x'",
    "SLURM_JOB_ID=99999999999999999999": "SLURM_JOB_ID=99999999999999999999: a number from 0",
}

WRONG_FLAGS = {
    "--rdzv-endpoint login:29400": "--rdzv-endpoint login is on no node of the Slurm step (node1 to node2); drop",
    "--rdzv-endpoint nosuchhost": "--rdzv-endpoint nosuchhost is on no node of the Slurm step",
    "--rdzv-endpoint localhost:29400": "is this host only, but the Slurm step has 2 nodes; drop the flag",
    "--nnodes 3": "--nnodes 3 needs more than the 2 nodes of the Slurm step; use srun -N3, or drop --nnodes",
    "--node-rank 5": "--node-rank 5 contradicts SLURM_NODEID=",
}


def setUpModule():
    slurm_case.use_cluster(nodes=2, gpus=0)


class BadInput(SlurmCase):
    def assert_refused(self, command, said):
        """Both nodes say the same, each in one line, and nothing was started."""
        done = self.srun("-N2", *command, "touch", self.path("started"), code=100)
        lines = sorted(line for line in done.err.splitlines() if not line.startswith("srun: "))
        self.assertEqual(len(lines), 2, done)
        for line in lines:
            self.assertTrue(line.startswith("cxxrun: ") and said in line and len(line) < 400, line)
        self.assertFalse(os.path.exists(self.path("started")))
        return lines[0].removeprefix("cxxrun: Slurm environment: ").removeprefix("cxxrun: ").split("; pass all")[0]

    def test_variables_that_contradict_each_other(self):
        for words, said in WRONG.items():
            with self.subTest(words):
                line = self.assert_refused(["env", *words.split(), "cxxrun"], said)
                self.row("bad input", f"srun -N2 env {words} cxxrun ./train", f"exit 100: {line}")

    def test_a_list_as_long_as_a_variable_can_be(self):
        self.assert_refused(["env", "SLURM_STEP_NODELIST=" + LONG_LIST, "cxxrun"], "names 15001")
        self.row("bad input", "srun -N2 env SLURM_STEP_NODELIST=(90 kB) cxxrun ./train",
                 "exit 100: SLURM_STEP_NUM_NODES is 2 but SLURM_STEP_NODELIST names 15001")

    def test_flags_that_contradict_slurm(self):
        for flags, said in WRONG_FLAGS.items():
            with self.subTest(flags):
                line = self.assert_refused(["cxxrun", *flags.split()], said)
                if flags != "--node-rank 5":  # the line differs between the nodes
                    self.row("bad input", f"srun -N2 cxxrun {flags} ./train", f"exit 100: {line}")

    def test_a_first_node_whose_name_does_not_resolve_is_named(self):
        step = self.start_srun("-N2", "env", "-u", "SLURMD_NODENAME", "SLURM_STEP_NODELIST=gpu[1-2]", "cxxrun", "true")
        step.says("cannot resolve host gpu1")  # long before the 600 s of join_timeout are over
        self.assertIsNone(step.process.poll())
        step.kill()
        step.wait()
        self.row("bad input", "srun -N2 cxxrun ./train, where the first node's name does not resolve",
                 "a warning that names it at once, and no end before join_timeout")

    def test_a_batch_script_without_srun_is_told_so(self):
        job = self.sbatch("cxxrun true", "-N2", state="COMPLETED")
        self.assertIn("the Slurm job has 2 nodes but this runs on one; start cxxrun with srun", self.output(job))
        self.row("bad input", "sbatch -N2; in it: cxxrun ./train",
                 "runs on the first node alone, and says: start cxxrun with srun to use them all")


if __name__ == "__main__":
    slurm_case.main()
