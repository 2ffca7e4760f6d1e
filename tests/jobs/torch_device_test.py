"""Elastic(device="cuda") on the stand-in for CUDA and NCCL, which takes tensors of the CPU for the device's
(elastic_claimed.py). Usage: torch_device_test.py CXXRUN LIBCXXRUN_C LIBCUDA_DOUBLE; see elastic_jobs.py"""
import os
import sys
import unittest

import jobs
from elastic_jobs import FSDP2, GUARD, QUICK, SHARD_KILLS, ElasticCase

DOUBLE = os.path.abspath(sys.argv.pop(2))
LIBRARIES = os.path.join(os.path.dirname(DOUBLE), "cuda_libraries")  # for a root that has no CUDA


class DeviceCase(ElasticCase):
    claimed = "yes"

    def environment(self, extra=None):
        env = super().environment(extra)
        env["CXXRUN_CLAIMED"] = self.claimed
        if self.claimed != "staged":
            env.update(CUDA_VISIBLE_DEVICES="0,1,2,3", LD_PRELOAD=DOUBLE, LD_LIBRARY_PATH=LIBRARIES,
                       CXXRUN_CUDA_DOUBLE="devices=4,deaths=seen")
        return env


class Device(DeviceCase):
    def test_a_rank_that_is_killed_is_replaced_and_the_parameters_are_those_of_an_undisturbed_run(self):
        falls = ["1:3:map", "1:12:backward", "2:6:metrics", "3:2:forward", "0:3:update"]
        whole = set(self.ends(self.play([], "whole")).values())
        self.assertEqual(len(whole), 1)
        self.assert_survived(self.play(falls, "disturbed"), whole, falls, "disturbed")

    def test_what_is_carried_and_what_is_refused(self):
        for script, says in (("elastic_calls.py", "carried and refused"), ("elastic_loop.py", "the loop is kept")):
            (agent,) = self.begin(script, ranks=2)
            self.assertEqual(agent.wait(300), 0, agent.stderr)
            self.assertEqual(agent.stdout.count(says), 2)


    @unittest.skipIf(not FSDP2, "this PyTorch has no FSDP2")
    def test_shards_of_a_node_that_loses_a_rank_are_given_by_the_other_node_whose_ranks_go_on(self):
        whole = set(self.ends(self.play_shards([], "whole")).values())
        self.assertEqual(len(whole), 2)
        falls = ["3:4:backward", "0:9:metrics"]
        self.assert_other_node_survived(self.play_shards(falls, "disturbed"), whole, falls, "disturbed")
        falls = ["1:4:forward"]
        agents = self.play_shards(falls, "stuck", ["stuck=0:4:forward"])  # behind a kernel that waits for rank 1
        self.assert_other_node_survived(agents, whole, falls, "stuck")
        said = "".join(agent.stderr for agent in agents)
        self.assertIn("another rank of this node has ended, and its shards with it: this process ends with code 75", said)
        self.assertRegex(said, r"error: rank 1 on \S+: signal 9")

    @unittest.skipIf(not FSDP2 or not SHARD_KILLS, "with FSDP2 and CXXRUN_KILLS")
    def test_kills_of_ranks_with_shards(self):
        self.assert_shards_survive_kills()

    def test_kills_at_each_moment(self):
        self.assert_survive_kills_at_each_moment()

    def test_ranks_that_hang_are_named_and_replaced(self):
        self.assert_hung_ranks_are_replaced()

    def test_kills_at_random_moments(self):
        self.assert_survive_kills_at_random_moments((), *[("fused",)] * FSDP2)  # which 1.13 has not for the CPU


class Ahead(DeviceCase):
    """The host is ahead of the device when a peer dies."""

    claimed = "late"

    def run_gate(self, *words, restarts=0):
        (agent,) = self.begin("elastic_gate.py", *words, ranks=2, restarts=restarts, folder="".join(words), **QUICK)
        return agent

    def assert_gate_is_kept(self, *kind, hears_later=False):
        """`hears_later`: in the step after the one whose update was left out."""
        whole = set(self.ends([self.run_gate("quiet", *kind)]).values())
        self.assertEqual(len(whole), 1)
        for how in ("update", "loss", *("known", "alone") * hears_later):
            with self.subTest(how=how, kind=kind):
                agent = self.run_gate(how, *kind, restarts=1)
                self.assertEqual(set(self.ends([agent]).values()), whole)
                self.assertNotIn("raised", agent.stdout)
                self.assertEqual("back" in agent.stdout, hears_later and how in ("update", "alone"))

    def test_no_update_is_made_of_what_the_death_of_a_peer_has_left(self):
        self.assert_gate_is_kept()

    @jobs.long
    def test_an_optimizer_that_leaves_the_update_out_is_not_waited_for_and_its_step_is_taken_back(self):
        self.assert_gate_is_kept("fused", hears_later=True)

    @jobs.long
    def test_an_average_of_the_parameters_is_made_of_updates_that_are_known_to_be_made(self):
        self.assert_gate_is_kept("fused", "average")

    def test_what_a_script_raises_while_nobody_dies_is_its_own(self):
        agent = self.run_gate("own")
        self.assertEqual(agent.wait(GUARD), 3, agent.stderr)
        self.assertIn("0 raised in step 3 of generation 1", agent.stdout)


class Staged(DeviceCase):
    """The host carries what lies on a device."""

    claimed = "staged"

    @jobs.long
    def test_what_is_carried_and_what_is_refused(self):
        (agent,) = self.begin("elastic_calls.py", ranks=2)
        self.assertEqual(agent.wait(300), 0, agent.stderr)
        self.assertEqual(agent.stdout.count("carried and refused"), 2)

    def test_a_rank_that_is_killed_is_replaced(self):
        falls = ["1:12:backward", "2:6:metrics"]
        whole = set(self.ends(self.play([], "whole")).values())
        self.assert_survived(self.play(falls, "disturbed"), whole, falls, "disturbed")


if __name__ == "__main__":
    jobs.main()
