"""Nodes that are lost while a step runs on them: with and without a word, with and without --no-kill.
Usage: node_loss_test.py CXXRUN"""
import os

import slurm_case
from releases import expected
from slurm_case import SlurmCase, processes_with, wait_until


def setUpModule():
    slurm_case.use_cluster(nodes=3, gpus=0)


class NodeLoss(SlurmCase):
    """Three nodes, one worker each, which wait at a gate."""

    def setUp(self):
        super().setUp()
        self.program = self.worker('note start $WORLD_SIZE $CXXRUN_HOST\ngate go')

    def step(self, *arguments, no_kill=True, env=None, world=3):
        """A step in which srun has nothing more to send to the nodes. It ends a step whose node is killed before that."""
        options = [*(["--no-kill"] if no_kill else []), "--input=none"]
        job = self.start_srun(*options, "-N3", "cxxrun", "--log-dir", self.path("logs"), *arguments, self.program,
                              env=env, stdin="/dev/zero")
        self.assertEqual({event[4] for event in self.await_events(world, "start", 1)}, {"node1", "node2", "node3"})
        # srun passes on one message between two rounds of sending, and queues the end of its input in the first round
        # (22.05, traced): when a line of each node has come, the end of input is under way to all of them.
        for line in ("generation 1 runs", "generation 1: starting rank 1", "generation 1: starting rank 2"):
            job.says(line)
        for node in ("node1", "node2", "node3"):
            wait_until(lambda node=node: self.cluster.unread(node) == 0, f"{node} has read all that was sent to it")
        return job

    def hosts(self, generation, count):
        events = self.await_events(count, "start", generation)
        self.assertEqual({event[3] for event in events}, {str(count)})
        return sorted(event[4] for event in events)

    def workers_on(self, node):
        """Workers of this test that run inside the node, cut off or not."""
        inside = self.cluster.pids[node]
        spaces = os.readlink(f"/proc/{inside}/ns/pid")
        found = []
        for pid in processes_with(self.marker):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == spaces:
                    found.append(pid)
            except OSError:
                continue
        return found

    def survivors_go_on(self, fin, words, what):
        job = self.step("--nnodes", "1:3")
        self.cluster.kill("node2", fin=fin)
        self.assertEqual(self.hosts(2, 2), ["node1", "node3"])
        job.says("lost node2 " + words)
        self.open_gate("go")
        self.assertEqual(job.wait(), expected("srun after a lost node")(0), job.err)
        job.says("; lost on the way: node2")
        self.assertEqual(self.verdict()["lost_nodes"], ["node2"])
        self.row("node loss", f"srun --no-kill --input=none -N3 cxxrun --nnodes 1:3 ./train; node2 {what}",
                 f"lost node2 {words}: the others form generation 2 and finish; exit code 0, the verdict names node2")

    def test_survivors_of_a_killed_node_go_on(self):
        self.survivors_go_on(True, "(end of file)", "is killed")

    def test_survivors_of_a_node_without_power_go_on(self):
        self.survivors_go_on(False, "(silent for 5 s)", "loses power")

    def test_a_fixed_size_ends_at_once_with_a_verdict(self):
        job = self.step()
        self.cluster.kill("node2", fin=True)
        self.assertEqual(job.wait(), expected("srun after a lost node")(112), job.err)
        job.says("exit code:     112")
        self.assertIn("node lost: node2; 2 of 3 nodes left", job.err)
        self.assertIn("--nnodes MIN:3 (under Slurm with --no-kill for sbatch and srun)", job.err)
        self.assertEqual((self.verdict()["verdict"], self.verdict()["lost_nodes"]), ("too few nodes", ["node2"]))
        self.row("node loss", "srun --no-kill --input=none -N3 cxxrun ./train; node2 is killed",
                 "verdict `too few nodes: node lost: node2` at once, exit code 112; says how to go on with fewer")

    def test_without_no_kill_the_verdict_comes_before_slurm_notices(self):
        job = self.step(no_kill=False)
        self.cluster.kill("node2", fin=False)
        job.says("node lost: node2; 2 of 3 nodes left")
        self.assertNotIn("Node failure", job.err)
        job.wait()
        self.row("node loss", "srun -N3 cxxrun ./train; node2 loses power",
                 "verdict `too few nodes` after --heartbeat-timeout (5 s), before Slurm has noticed")

    def test_the_others_go_on_without_the_first_node(self):
        job = self.step("--nnodes", "1:3")
        self.cluster.kill("node1", fin=True)
        self.assertEqual(self.hosts(2, 2), ["node2", "node3"])
        job.says("coordinator lost: node1")
        self.open_gate("go")
        job.says("; lost on the way: node1")
        self.row("node loss",
                 "srun --no-kill --input=none -N3 cxxrun --nnodes 1:3 ./train; node1, which coordinates, is killed",
                 "node2 is elected: the two others form generation 2 and finish, the verdict names node1")

    def test_a_job_that_needs_its_first_node_ends_with_it(self):
        job = self.step()
        self.cluster.kill("node1", fin=True)
        job.says("coordinator lost: end of file")
        wait_until(lambda: not self.workers_on("node2") and not self.workers_on("node3"), "no worker is left")
        self.row("node loss", "srun --no-kill --input=none -N3 cxxrun ./train; node1, which coordinates, is killed",
                 "`coordinator lost` on the others, no worker left")

    def test_a_node_that_is_cut_off_ends_its_own_workers(self):
        job = self.step("--nnodes", "1:3")
        self.cluster.partition("node2")
        self.assertEqual(self.hosts(2, 2), ["node1", "node3"])
        wait_until(lambda: not self.workers_on("node2"), "the workers beyond the cut have ended")
        self.assertEqual(job.process.poll(), None)
        self.open_gate("go")
        job.says("; lost on the way: node2")
        self.cluster.heal("node2")
        job.wait()
        self.row("node loss", "srun --no-kill --input=none -N3 cxxrun --nnodes 1:3 ./train; node2's link is cut",
                 "node2 ends its own workers, the two others go on")

    def test_a_short_cut_changes_nothing(self):
        job = self.step("--nnodes", "1:3", "--heartbeat-timeout", "30")
        self.cluster.partition("node2")
        self.cluster.heal("node2")
        self.open_gate("go")
        self.assertEqual(job.wait(), 0, job.err)
        self.assertEqual(self.events("start", 2), [])

    def test_an_elastic_job_says_once_what_slurm_would_do(self):
        line = "when a node is lost Slurm kills the whole step"
        self.open_gate("go")
        told = self.srun("-N2", "cxxrun", "--nnodes", "1:2", "true")
        self.assertEqual((told.code, told.err.count(line)), (0, 1), told)
        silent = self.srun("-N2", "cxxrun", "--nnodes", "1:2", "true", env={"SLURM_NO_KILL": "set"})
        self.assertEqual((silent.code, silent.err.count(line)), (0, 0), silent)
        fixed = self.srun("-N2", "cxxrun", "true")
        self.assertEqual((fixed.code, fixed.err.count(line)), (0, 0), fixed)
        self.row("node loss", "srun -N2 cxxrun --nnodes 1:2 ./train", "one line: Slurm kills the step when a node is "
                 "lost, unless srun and sbatch have --no-kill (or SLURM_NO_KILL=set)")

    def test_a_batch_job_with_no_kill_goes_on(self):
        script = f"srun --no-kill cxxrun --nnodes 1:3 --log-dir {self.path('logs')} {self.program}; echo code $?"
        job = self.sbatch(script, "--no-kill", "-N3", "--ntasks-per-node=1")
        self.await_events(3, "start", 1)
        self.cluster.kill("node3", fin=False)
        self.assertEqual(self.hosts(2, 2), ["node1", "node2"])
        wait_until(lambda: "Node failure on node3" in self.output(job), "Slurm has noticed the loss")
        self.open_gate("go")
        self.wait_job(job, "COMPLETED")  # the script goes on after srun
        self.assertIn(f"code {expected('srun after a lost node')(0)}\n", self.output(job))
        self.row("node loss", "sbatch --no-kill, in it srun --no-kill cxxrun --nnodes 1:3 ./train; node3 loses power",
                 "the two others go on, also after Slurm has noticed; the job is COMPLETED")


if __name__ == "__main__":
    slurm_case.main()
