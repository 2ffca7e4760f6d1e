"""The trainer on two nodes that are network namespaces: two agents with two workers each, over a wire that may be cut.
Usage: runtime_namespaces_test.py CXXRUN TRAIN. Needs root, else exit code 77."""
import time

import jobs
import train_jobs
import wires
from jobs import wait_until
from train_jobs import TrainCase

SMALL = ("--batch", "2", "--quiet")
PORT = 29400  # a namespace has all ports for itself


class Namespaces(TrainCase):
    def setUp(self):
        super().setUp()
        self.net = wires.Wires(2)
        self.addCleanup(self.net.close)

    def start_in(self, host, *options, job=(), env=None, nnodes="2"):
        """An agent in the namespace of that host; nsenter becomes it."""
        return self.start("--nnodes", nnodes, "--node-rank", str(host), "--nproc-per-node", "2", "--rdzv-endpoint",
                          f"{self.net.hosts[0].address}:{PORT}", *job, train_jobs.TRAIN, *options, env=env,
                          behind=("nsenter", f"--net={self.net.hosts[host].net}"))

    def start_both(self, *options, **more):
        first = self.start_in(0, *options, **more)
        first.says("waiting for")
        return first, self.start_in(1, *options, **more)

    def test_the_interface_may_be_named_and_the_result_is_that_of_one_machine(self):
        options = ("--steps", "20", *SMALL)
        named = self.start_both(*options, env={"CXXRUN_SOCKET_IFNAME": "eth0"})
        self.assert_codes([0, 0], *named)
        found = self.start_both(*options)
        self.assert_codes([0, 0], *found)
        self.assertEqual(self.final(named[0].stdout), self.final(found[0].stdout))
        here = self.train_pair(*options)
        self.assert_codes([0, 0], *here)
        self.assertEqual(self.final(named[0].stdout), self.final(here[0].stdout))

    def test_a_wrong_interface_is_refused_on_all_ranks(self):
        both = self.start_both("--steps", "20", *SMALL, job=("--max-restarts", "0"), env={"CXXRUN_SOCKET_IFNAME": "ib9"})
        self.assertEqual([agent.wait() for agent in both], [1, 1])
        self.assertIn('CXXRUN_SOCKET_IFNAME is "ib9", but no interface', both[0].stderr)

    def await_world(self, size, agent):
        wait_until(lambda: [row[2] for row in self.curve()][-1:] == [size] or agent.process.poll() is not None,
                   f"{size} ranks train")

    def cut_while_training(self, *job, nnodes="2", env=None):
        """The agents, whose jobs trained until the wire of the second one was cut a moment ago."""
        both = self.start_both("--steps", "100000000", *SMALL, "--save-every", "5", "--checkpoint-dir",
                               self.path("saved"), "--curve", self.path("curve.csv"), nnodes=nnodes, env=env,
                               job=("--heartbeat-timeout", "2", "--max-restarts", "3", *job))
        self.await_world(4, both[0])
        self.await_step(self.last_step() + 10, both[0])
        self.net.cut(1)
        return both

    def test_a_cut_wire_ends_a_job_of_fixed_size_and_the_report_names_the_loss(self):
        began = time.monotonic()
        both = self.cut_while_training()
        self.assert_codes([112, 113], *both)
        self.assertLess(time.monotonic() - began, 30)  # not the five minutes of a collective
        self.assertEqual(jobs.count_reports(both[0]), 1)
        self.assertRegex(both[0].stderr, r"node lost: \S+; 1 of 2 nodes left and the size is fixed")
        self.assertIn("coordinator lost: silent for 2 s", both[1].stderr)

    def test_a_cut_wire_lets_an_elastic_job_go_on_with_the_node_that_is_left(self):
        both = self.cut_while_training("--rdzv-conf", "last_call_timeout=1", nnodes="1:2")
        self.await_world(2, both[0])
        self.assert_codes([116], both[1])  # half of the members, and not the half with node 0
        self.assertRegex(both[0].stderr, r"lost \S+ \(silent for 2 s\)")
        steps = [row[0] for row in self.curve()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))  # from the checkpoint on, none twice
        both[0].process.terminate()
        both[0].wait()


if __name__ == "__main__":
    train_jobs.main(wires.missing())
