"""Jobs that lose the agent that coordinates them, and go on. Usage: job_succession_test.py CXXRUN"""
import os
import signal
import sys

import jobs
from jobs import JobCase, count_reports, wait_until


class Losses(JobCase):
    """Agents are lost; every generation runs until the gate is opened."""

    def setUp(self):
        super().setUp()
        self.program = self.worker('note start "$WORLD_SIZE" "$GROUP_RANK" "$TORCHELASTIC_RESTART_COUNT" $$\ngate go')

    def formed(self, world, after=0):
        """Waits for a generation of so many workers and returns its number and its workers' pids by rank."""
        def found():
            for generation in sorted({event[0] for event in self.events("start")}, reverse=True):
                events = [event for event in self.events("start", generation) if event[3] == str(world)]
                if generation > after and len(events) == world:
                    return generation, {event[1]: int(event[6]) for event in events}
            return None
        try:
            return wait_until(found, f"a generation of {world} after {after}")
        except jobs.Hang as hang:
            texts = "\n".join(agent.stderr for agent in self.agents)
            raise jobs.Hang(f"{hang}\nevents: {self.events()}\nstderr:\n{texts}") from None

    def kill(self, pid, number=signal.SIGKILL):
        os.kill(pid, number)


class Succession(Losses):
    """Three agents as of three hosts."""

    def three(self, *arguments):
        """Returns the agents, the one that coordinates first, and the generation that runs."""
        def node(index):
            return self.start_node("--node-rank", str(index), *arguments, self.program, nnodes="1:3")
        first = node(0)
        first.says("waiting for more")  # on one machine whoever is first hosts
        nodes = [first, node(1), node(2)]
        return nodes, self.formed(3)[0]

    def test_the_job_goes_on_when_the_agent_that_coordinates_is_killed(self):
        (first, second, third), before = self.three()
        self.kill(first.agent_pid())
        generation, workers = self.formed(2, before)
        self.assertEqual(set(workers), {0, 1})
        self.assertEqual({event[5] for event in self.events("start", generation)}, {"0"})  # a node's loss uses up no restart
        self.release(second, third)

    def test_the_job_goes_on_when_every_process_of_the_first_host_is_killed(self):
        (first, second, third), before = self.three()
        agent = first.agent_pid()
        for pid in [first.pid, agent]:
            self.kill(pid)
        self.formed(2, before)
        self.release(second, third)

    def test_the_new_coordinator_reports_how_the_job_ends(self):
        (first, second, third), before = self.three("--max-restarts", "0")
        self.kill(first.agent_pid())
        _, workers = self.formed(2, before)
        self.kill(workers[1])
        self.assert_codes([128 + signal.SIGKILL] * 2, second, third)
        self.assertEqual(count_reports(second, third), 1)

    def test_a_new_coordinator_on_the_same_host_takes_another_port_than_the_one_that_is_held_there(self):
        port = jobs.free_port()
        (first, second, third), before = self.three("--master-port", str(port), "--heartbeat-timeout", "20")
        self.kill(first.agent_pid())
        self.formed(2, before)
        self.release(second, third)
        self.assertIn(f"--master-port {port} is taken on this host, which has taken the job over: MASTER_PORT is ",
                      second.stderr + third.stderr)

    def test_a_coordinator_that_was_frozen_comes_back_as_a_stranger(self):
        (first, second, third), before = self.three("--heartbeat-timeout", "2")
        frozen = first.agent_pid()
        self.kill(frozen, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{frozen}") and self.kill(frozen, signal.SIGCONT))
        generation = self.formed(2, before)[0]
        self.kill(frozen, signal.SIGCONT)
        self.formed(3, generation)  # it joins as somebody new
        self.release(first, second, third)


if __name__ == "__main__":
    sys.exit(jobs.main())
