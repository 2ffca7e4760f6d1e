"""Workers that survive the generation that failed. Usage: job_survivors_test.py CXXRUN SURVIVOR_WORKER"""
import os
import signal
import sys

import jobs
from jobs import JobCase, alive, wait_until

WORKER = ""


class Survivors(JobCase):
    def setUp(self):
        super().setUp()
        self.make_gate("die")
        self.make_gate("finish")

    def start_pair(self, *how, options=(), nnodes="2"):
        arguments = ["--nproc-per-node", "2", "--max-restarts", "1", *options, "--no-python", WORKER, *how]
        first = self.start_node(*arguments, nnodes=nnodes)
        first.says("waiting for nodes")
        return first, self.start_node(*arguments, nnodes=nnodes)

    def pids(self, word, generation):
        return {rank: int(pid) for _, rank, _, pid, *_ in self.events(word, generation)}

    def finish(self, *agents):
        self.open_gate("finish")
        self.assert_codes([0] * len(agents), *agents)

    def test_three_of_four_keep_their_processes(self):
        agents = self.start_pair("die=1")
        self.await_events(4, "up", 1)
        before = self.pids("up", 1)
        self.open_gate("die")
        self.await_events(3, "parked", 1)
        self.await_events(3, "resumed", 2)
        self.await_events(1, "up", 2)
        after = self.pids("resumed", 2)
        self.assertEqual(after, {rank: before[rank] for rank in (0, 2, 3)})
        self.assertNotEqual(self.pids("up", 2)[1], before[1])
        self.assertEqual({e[4] for e in self.events("resumed", 2)}, {"4"})  # WORLD_SIZE
        sockets = {(e[0], e[5]) for e in self.events("up") + self.events("resumed")}  # CXXRUN_SEGMENT
        self.assertEqual((len(sockets), len({name for _, name in sockets})), (4, 4))
        self.finish(*agents)

    def test_who_does_not_park_is_killed_and_started_anew(self):
        agents = self.start_pair("die=1", "stubborn=2", options=("--restart-timeout", "1"))
        self.await_events(4, "up", 1)
        before = self.pids("up", 1)
        self.open_gate("die")
        self.await_events(2, "resumed", 2)
        self.await_events(2, "up", 2)
        self.assertEqual(set(self.pids("resumed", 2)), {0, 3})
        self.assertFalse(alive(before[2]))
        self.assertIn("rank 1", agents[0].stderr)  # not 2, which was made to end
        self.finish(*agents)

    def test_one_that_has_parked_early_is_kept_and_one_that_hangs_up_is_not(self):
        agents = self.start_pair("die=1", "early=0", "early=2", "early=3", "hangs_up=2")
        self.await_events(4, "up", 1)
        self.await_events(3, "parked", 1)
        before = self.pids("up", 1)
        self.assertTrue(all(alive(pid) for pid in before.values()))  # nothing is wrong, and nobody does anything
        self.assertEqual(self.events(generation=2), [])
        self.open_gate("die")
        self.await_events(2, "resumed", 2)
        self.await_events(2, "up", 2)
        self.assertEqual(self.pids("resumed", 2), {rank: before[rank] for rank in (0, 3)})
        self.finish(*agents)

    def test_others_are_restarted_as_ever(self):
        agents = self.start_pair("die=1", "mute=0", "mute=2")
        self.await_events(4, "up", 1)
        self.open_gate("die")
        self.await_events(3, "up", 2)
        self.await_events(1, "resumed", 2)
        self.finish(*agents)

    def lose_second(self, *how):
        """The job waits for a second node, and the workers of the first are parked."""
        first, second = self.start_pair(*how, nnodes="2:3", options=("--join-window", "1"))
        self.await_events(4, "up", 1)
        mine = [e[1] for e in self.events("up", 1) if int(e[3]) in jobs.children(first.agent_pid())]
        os.kill(second.agent_pid(), signal.SIGKILL)
        self.await_events(2, "parked", 1)
        first.says("lost")
        second.wait()
        return first, [self.pids("up", 1)[rank] for rank in mine]

    def test_those_that_wait_end_with_the_job(self):
        first, waiting = self.lose_second()
        self.assertTrue(all(alive(pid) for pid in waiting))
        first.process.send_signal(signal.SIGTERM)
        self.assert_codes([143], first)
        self.assertEqual(len(self.events("ends")), 2)
        self.assertFalse(any(alive(pid) for pid in waiting))

    def test_one_that_dies_waiting_is_started_anew_by_a_replacement(self):
        first, waiting = self.lose_second()
        dead, kept = waiting
        os.kill(dead, signal.SIGKILL)
        wait_until(lambda: not alive(dead), "it is dead")
        second = self.start_node("--nproc-per-node", "2", "--max-restarts", "1", "--no-python", WORKER, nnodes="2:3")
        self.await_events(3, "up", 2)
        self.await_events(1, "resumed", 2)
        self.assertEqual(list(self.pids("resumed", 2).values()), [kept])
        self.finish(first, second)

    def test_what_a_survivor_has_started_goes_on(self):
        agents = self.start_pair("die=1", "children=0")
        self.await_events(4, "up", 1)
        (_, _, _, child), = self.await_events(1, "child", 1)
        self.open_gate("die")
        self.await_events(3, "resumed", 2)
        self.assertTrue(alive(int(child)))
        self.finish(*agents)
        self.assertFalse(alive(int(child)))

    def test_a_checkpoint_is_asked_for_on_the_page(self):
        job = self.start("--standalone", "--time-limit", "60", "--checkpoint-signal", "USR1@3600", "--no-python", WORKER,
                         "asked=0", "early=0")
        self.await_events(1, "asked", 1)
        job.process.send_signal(signal.SIGTERM)
        self.assert_codes([143], job)
        self.assertEqual([e[3] for e in self.events("asked")], ["1"])


if __name__ == "__main__":
    WORKER = os.path.abspath(sys.argv.pop(2))
    jobs.main()
