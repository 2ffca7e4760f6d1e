"""C++ jobs that go on without a node that lacks a rank (Options::shrink). Usage: shrink_test.py CXXRUN FALLING_WORKER

What is started after the gate `start` is made waits there, so that the others cannot have waited for it."""
import contextlib
import os
import re
import signal
import sys

import jobs
from jobs import JobCase, alive
from shrink_jobs import SIZE, ShrinkCase

WORKER = os.path.abspath(sys.argv.pop(2))
STEPS = -(-SIZE // 12)  # of an epoch
END = re.compile(r"end (\d+) (\d+) (\d+) (\d+) (\d+)$", re.M)


class Shrinking(ShrinkCase, JobCase):
    def start_job(self, nnodes):
        """Three nodes of two ranks, the first of which coordinates; returns the generation and {rank: pid}. An earlier
        job has ended."""
        self.agents.clear()
        self.port = jobs.free_port()
        for name in ("events", "finish", "start"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(name))
        for rank, host in enumerate("abc"):
            self.start_node("--nproc-per-node", "2", "--max-restarts", "3", "--restart-delay=0",
                            "--join-window=60", "--node-rank", str(rank), "--no-python", WORKER, "shrink",
                            nnodes=nnodes, env={"CXXRUN_HOST_ID": host})
            self.agents[0].says("waiting for ")
        return self.await_world(6)

    def noted(self, word):
        return [(generation, rank, *words) for generation, rank, _, *words in self.events(word)]

    def worlds(self):
        """Sizes of the worlds in which a rank was, in order."""
        return [world for _, world in sorted({(at, int(world)) for at, _, _, world, _ in self.noted("up")})]

    def kill(self, ranks, rank):
        os.kill(ranks[rank], signal.SIGKILL)

    def assert_kept(self, before, after, but):
        """All ranks but these have the number and the process that they had."""
        kept = set(before) - set(but)
        self.assertEqual({rank: after[rank] for rank in kept}, {rank: before[rank] for rank in kept})
        self.assertFalse(any(alive(before[rank]) for rank in but))

    def finish(self, ranks):
        """All end with what an undisturbed run would have learned: each sample once in each epoch."""
        self.make_file("finish")
        self.assert_codes([0, 0, 0], *self.agents)
        ends = [tuple(map(int, end)) for agent in self.agents for end in END.findall(agent.stdout)]
        self.assertEqual({pid for pid, *_ in ends}, set(ranks.values()), ends)
        epochs = ends[0][2]
        self.assertEqual({end[1:] for end in ends}, {(epochs * STEPS, epochs, epochs, epochs)})

    def test_the_other_nodes_go_on_at_once_and_the_node_is_back_at_its_ranks_when_it_is_complete(self):
        for killed in (3, 5):  # of the node in the middle, and of the last one
            at, before = self.start_job("2:3")
            self.make_gate("start")
            self.kill(before, killed)
            small, others = self.await_world(4, at)
            self.assertEqual([others[rank] for rank in range(4)],
                             [before[rank] for rank in range(6) if rank not in (killed - 1, killed)])
            self.assertTrue(alive(before[killed - 1]))
            self.open_gate("start")
            _, after = self.await_world(6, small)
            self.assert_kept(before, after, {killed})
            self.finish(after)
            self.assertEqual(self.worlds(), [6, 4, 6])
            said = self.agents[0].stderr
            self.assertEqual(said.count("has all of its workers again"), 1, said)
            self.assertEqual(re.findall(r"restart (\d) of 3", said)[-1], "1", said)

    def test_with_a_kill_while_the_job_has_shrunk_two_nodes_are_left_out(self):
        at, before = self.start_job("1:3")
        self.make_gate("start")
        self.kill(before, 5)
        at, small = self.await_world(4, at)
        self.kill(small, 3)
        at, smaller = self.await_world(2, at)
        self.assertEqual(smaller, {rank: before[rank] for rank in (0, 1)})
        self.open_gate("start")
        _, after = self.await_world(6, at)
        self.assert_kept(before, after, {3, 5})
        self.finish(after)

    def test_with_fewer_than_min_left_all_wait_for_what_is_missing(self):
        at, before = self.start_job("2:3")
        self.make_gate("start")
        self.kill(before, 5)
        at, small = self.await_world(4, at)
        self.kill(small, 3)
        self.agents[2].says(f"generation {at + 1}: starting ranks 4 to 5")
        self.open_gate("start")
        _, after = self.await_world(6, at)
        self.assert_kept(before, after, {3, 5})
        self.finish(after)
        self.assertEqual(self.worlds(), [6, 4, 6])

    def test_the_node_of_the_coordinator_is_not_left_out(self):
        for rank in (0, 1):
            at, before = self.start_job("1:3")
            self.kill(before, rank)
            _, after = self.await_world(6, at)
            self.assert_kept(before, after, {rank})
            self.finish(after)
            self.assertEqual(self.worlds(), [6, 6])


if __name__ == "__main__":
    jobs.main()
