"""Jobs that lose their coordinator, and before all have noticed something else; and then the next one. Usage:
second_losses_test.py CXXRUN"""
import functools
import os
import signal
import sys
import unittest

import jobs
import wires
from jobs import wait_until
from loss_jobs import WAITS, LossCase

PORT = 29400  # a namespace has all ports for itself


class ToldAgain(LossCase):
    """A member says again what it knows whenever its workers end while nobody leads, and in each round."""

    def lose_first(self, *arguments):
        """b campaigns and has its own vote; c and d have not noticed the loss. Returns their agents."""
        self.start_nodes("abcd", "2:4", *arguments)
        self.before, workers = self.formed("abcd")
        deaf = [self.nodes[name].agent_pid() for name in "cd"]
        self.stop(*deaf)
        self.lose_agent("a")
        self.nodes["b"].says("promised ballot 2.1")
        self.end_worker("b", workers["b"], self.before)
        return deaf

    def test_a_coordinator_that_was_told_again_by_its_own_agent_can_be_succeeded(self):
        self.go_on(*self.lose_first())
        self.lose_leader("bcd", self.before)  # the two others are most of its generation

    def test_so_can_one_that_was_told_three_times(self):
        deaf = self.lose_first("--heartbeat-timeout", "2")
        self.nodes["b"].says("no coordinator yet: next round")
        self.go_on(*deaf)
        self.lose_leader("bcd", self.before)  # the two others are most of its generation


@unittest.skipUnless(os.geteuid() == 0, "needs root, to make hosts")
class Hosts(LossCase):
    """Each node on a host of its own."""

    def on(self, host):
        return functools.partial(self.start, behind=("nsenter", f"--net={host.net}"))

    def start_hosts(self, names, nnodes, *arguments):
        net = wires.Wires(len(names))
        self.addCleanup(net.close)
        self.addresses = {name: host.address for name, host in zip(names, net.hosts)}
        for rank, (name, host) in enumerate(zip(names, net.hosts)):
            self.add(name, "--nnodes", nnodes, "--node-rank", str(rank), *arguments,
                     "--rdzv-endpoint", f"{net.hosts[0].address}:{PORT}", start=self.on(host))

    def masters(self, generation):
        return {event[6] for event in self.events("start", generation)}

    def test_workers_are_told_the_address_of_whoever_was_elected_by_members_that_told_it_again(self):
        self.start_hosts("abcde", "2:5")
        before, workers = self.formed("abcde")
        self.assertEqual(self.masters(before), {self.addresses["a"]})
        deaf, first = self.nodes["d"].agent_pid(), self.nodes["a"].agent_pid()
        self.stop(deaf, first)  # the first one is not to hear of the next line, and end the workers itself
        self.lose_agent("e")
        self.kill(first)
        for name in "bc":
            self.nodes[name].says("promised ballot 2.1")
        for name in "bc":
            self.end_worker(name, workers[name], before)
        self.go_on(deaf)  # its vote elects
        self.nodes["d"].says("coordinates now")
        self.nodes["d"].process.terminate()  # it has told it but once
        generation, _ = self.formed("bc", before)
        self.assertEqual(self.masters(generation), {self.addresses[self.leader(generation)]})
        self.finish("b", "c")


class Waiting(LossCase):
    """Nobody waits for workers that are proven dead: it would be for as long as the timeout, which is long here."""

    def assert_runs_without_a_wait(self, names, after):
        agents = self.nodes.values()
        wait_until(lambda: self.generation_of(names, after) or any(WAITS in agent.stderr for agent in agents),
                   "the next generation runs or waits")
        self.assertFalse(any(WAITS in agent.stderr for agent in agents), self.said())
        self.formed(names, after)

    def test_a_lost_coordinator_is_not_waited_for_though_all_other_workers_have_ended_before(self):
        self.start_nodes("abc", "2:3", "--heartbeat-timeout", "30")
        before, workers = self.formed("abc")
        agent = self.nodes["a"].agent_pid()
        self.stop(agent)
        for name in "bc":
            self.end_worker(name, workers[name], before)
        self.kill(agent)
        self.assert_runs_without_a_wait("bc", before)
        self.finish("b", "c")

    def test_a_member_that_notices_the_loss_late_keeps_its_seat_though_a_spare_is_there(self):
        self.start_nodes("abcde", "2:5", "--heartbeat-timeout", "60", "--join-window", "60")
        before, _ = self.formed("abcde")
        self.add("f", "--nnodes", "2:5", "--heartbeat-timeout", "60", "--join-window", "60")
        self.nodes["a"].says("waits as a spare")
        self.nodes["f"].says("learned that generation 1 is decided")
        late = self.nodes["c"].agent_pid()
        self.stop(late)
        self.lose_agent("a")
        self.nodes["b"].says("elected by ")
        self.nodes["a"].says("the port of the store is held for 60 s")  # its parent has told of its death
        os.kill(self.nodes["a"].pid, signal.SIGTERM)
        self.nodes["a"].wait()
        self.go_on(late)
        self.assert_runs_without_a_wait("bcdef", before)
        self.finish(*"bcdef")


if __name__ == "__main__":
    sys.exit(jobs.main())
