"""Jobs of --nnodes MIN:MAX: late joiners, spares, takeover, silence. Usage: job_elastic_test.py CXXRUN"""
import os
import signal
import sys

import jobs
from jobs import JobCase, count_reports


class Elastic(JobCase):
    """Every generation runs until the gate is opened."""

    def setUp(self):
        super().setUp()
        self.program = self.worker('note start "$WORLD_SIZE" "$GROUP_RANK" "$TORCHELASTIC_RESTART_COUNT" "$NODE"\ngate go')
        self.nodes = 0

    def join(self, nnodes, *arguments, window=60):
        """Starts one more agent, named by the variable NODE of its workers. With MIN reached and MAX not, the job
        forms after `window` seconds."""
        self.nodes += 1
        return self.start_node("--rdzv-conf", f"last_call_timeout={window}", *arguments, self.program, nnodes=nnodes,
                               env={"NODE": chr(ord("a") + self.nodes - 1)})

    def formed(self, generation, world):
        """Waits for a generation and returns {group rank: node}."""
        events = self.await_events(world, "start", generation)
        self.assertEqual({(event[3], event[5]) for event in events}, {(str(world), "0")})
        return {int(event[4]): event[6] for event in events}

    def test_a_late_joiner_makes_a_second_generation_of_two_nodes(self):
        first = self.join("1:2", window=1)
        self.assertEqual(self.formed(1, 1), {0: "a"})
        second = self.join("1:2")
        self.assertEqual(self.formed(2, 2), {0: "a", 1: "b"})
        self.release(first, second)

    def test_a_spare_waits_takes_the_place_of_a_killed_member_and_ends_with_0(self):
        first = self.join("2:3", "--restart-timeout", "1")
        first.says("waiting for nodes")
        second, third = self.join("2:3"), self.join("2:3")
        places = self.formed(1, 3)
        spare = self.join("2:3")
        first.says("waits as a spare")
        second.process.kill()
        hole = next(group_rank for group_rank, node in places.items() if node == "b")
        places[hole] = "d"
        self.assertEqual(self.formed(2, 3), places)
        self.release(first, third, spare)

    def two_with_heartbeats(self):
        first = self.join("1:2", "--heartbeat-timeout", "2", window=1)
        self.formed(1, 1)
        second = self.join("1:2", "--heartbeat-timeout", "2", window=1)
        self.formed(2, 2)
        return first, second

    def test_a_node_that_falls_silent_is_lost_and_comes_back_as_a_stranger(self):
        first, second = self.two_with_heartbeats()
        frozen = second.agent_pid()
        os.kill(frozen, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{frozen}") and os.kill(frozen, signal.SIGCONT))
        self.assertEqual(self.formed(3, 1), {0: "a"})
        first.says("(silent for 2 s)")
        os.kill(frozen, signal.SIGCONT)
        first.says("waits as a spare")
        self.release(first, second)

    def test_an_agent_notices_that_the_coordinator_is_silent(self):
        first, second = self.two_with_heartbeats()
        frozen = first.agent_pid()
        os.kill(frozen, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{frozen}") and os.kill(frozen, signal.SIGCONT))
        self.assert_codes([116], second)  # half of the nodes, without group rank 0
        second.says("partitioned: coordinator lost (silent for 2")
        os.kill(frozen, signal.SIGCONT)
        self.assertEqual(self.formed(3, 1), {0: "a"})
        self.release(first)

    def two_and_a_spare(self, *arguments):
        first = self.join("2", *arguments)
        first.says("waiting for nodes")
        second = self.join("2", *arguments)
        self.await_events(2, "start")
        spare = self.join("2", *arguments)
        first.says("waits as a spare")
        return first, second, spare

    def test_a_spare_that_was_never_needed_ends_with_0(self):
        agents = self.two_and_a_spare()
        self.release(*agents)

    def test_a_spare_takes_over_in_a_job_of_fixed_size(self):
        first, second, spare = self.two_and_a_spare("--max-restarts", "0")
        second.process.kill()
        self.assertEqual(self.formed(2, 2), {0: "a", 1: "c"})
        self.release(first, spare)

    def test_a_spare_of_a_failed_job_ends_with_the_code_of_the_job(self):
        self.program = self.worker("note start\ngate go\nexit 7")
        agents = self.two_and_a_spare("--max-restarts", "0")
        self.open_gate("go")
        self.assert_codes([7, 7, 7], *agents)
        self.assertEqual(count_reports(*agents), 1)

    def test_losing_a_spare_disturbs_nobody(self):
        first, second, spare = self.two_and_a_spare()
        spare.process.kill()
        first.says("while it waited")
        self.release(first, second)
        self.assertEqual({event[0] for event in self.events()}, {1})

    def test_a_spare_that_is_told_to_end_ends_with_143_and_disturbs_nobody(self):
        first, second, spare = self.two_and_a_spare()
        spare.process.terminate()
        self.assertEqual(spare.wait(), 143, spare.stderr)
        self.release(first, second)
        self.assertEqual({event[0] for event in self.events()}, {1})

    def test_an_agent_that_comes_after_the_end_is_not_left_hanging(self):
        first = self.join("1:2", window=1)
        self.release(first)
        late = self.start_node("--rdzv-conf", "last_call_timeout=1,is_host=0,join_timeout=1", self.program, nnodes="1:2")
        self.assertEqual(late.wait(), 112, late.stderr)
        self.assertIn(f"no coordinator at 127.0.0.1:{self.port}", late.stderr)

    def test_nodes_may_have_different_numbers_of_workers(self):
        first = self.join("2", "--nproc-per-node", "1")
        first.says("waiting for nodes")
        second = self.join("2", "--nproc-per-node", "3")
        self.await_events(4, "start")
        self.release(first, second)
        self.assertEqual(sorted((rank, node) for _, rank, _, _, _, _, node in self.events()),
                         [(0, "a"), (1, "b"), (2, "b"), (3, "b")])

    def test_too_few_nodes_within_join_timeout_is_named_with_code_112(self):
        job = self.start_node("--rdzv-conf", "join_timeout=1", self.program)
        self.assertEqual(job.wait(), 112, job.stderr)
        self.assertIn("too few nodes", job.stderr)


if __name__ == "__main__":
    sys.exit(jobs.main())
