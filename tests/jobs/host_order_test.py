"""Hosts that no index orders: whoever comes first, they get the same ranks and train to the same bits.
Usage: host_order_test.py CXXRUN TRAIN. Giving hosts names of their own needs root."""
import ctypes
import os
import socket
import unittest

import train_jobs
from jobs import free_port
from train_jobs import TrainCase

CLONE_NEWUTS = 0x04000000
WORKERS = {"a": 2, "b": 1, "c": 3}


def take_name(name):
    """This process, and those that it starts, are on a host of that name."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(name)


class HostOrder(TrainCase):
    def play(self, arrivals, named):
        """The hosts by rank and the last line of a job whose agents come in this order; the first one hosts it."""
        self.port = free_port()
        program = self.worker(f'note "$CXXRUN_HOST_ID"\nexec "{train_jobs.TRAIN}" --steps 10 --batch 2 --quiet')
        agents = []
        for host in arrivals:
            agents.append(self.start_node(
                "--nproc-per-node", str(WORKERS[host]), program, nnodes="3", env={"CXXRUN_HOST_ID": host},
                preexec_fn=(lambda name=host: take_name(name)) if named else None))
            if len(agents) < 3:
                agents[0].says(f"waiting for nodes: {len(agents)} of at least 3")
        self.assert_success(agents)
        ranks = sorted(self.events())
        os.unlink(self.path("events"))
        return "".join(host for _, _, host in ranks), self.final(agents[0].stdout)

    def check(self, hosts, named):
        played = [self.play(arrivals, named) for arrivals in ("abc", "acb")]
        self.assertEqual(played[0], played[1])
        self.assertEqual(played[0][0], hosts)

    def test_those_of_one_name_are_ordered_by_their_workers(self):
        self.check("aacccb", named=False)

    @unittest.skipIf(os.geteuid() != 0, "only root gives a host another name")
    def test_the_others_are_ordered_by_name(self):
        self.check("aabccc", named=True)


if __name__ == "__main__":
    train_jobs.main()
