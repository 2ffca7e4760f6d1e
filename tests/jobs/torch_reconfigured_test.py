"""PyTorch workers that keep their process, with torch's own groups: Elastic(backend="gloo"), PyTorch 2.14. Usage:
torch_reconfigured_test.py CXXRUN LIBCXXRUN_C; see elastic_jobs.py"""
import os
import subprocess
import unittest

import jobs
from elastic_jobs import GUARD, HERE, KILLS, STEPS, TORCH, ElasticCase

RECONFIGURES = "def _reconfigure(" in jobs.read(os.path.join(os.path.dirname(TORCH.origin), "distributed/distributed_c10d.py"))
GRACE = 5  # seconds, after which an agent kills who has not parked
OWN = ("gloo",)


class Backends(ElasticCase):
    def test_what_is_refused_and_what_torchs_own_groups_carry(self):
        (agent,) = self.begin("elastic_backend.py", ranks=2)
        self.assertEqual(agent.wait(GUARD), 0, agent.stderr)
        self.assertEqual(agent.stdout.count("trained" if RECONFIGURES else "refused"), 2, agent.stdout)

    def test_without_a_launcher_it_is_a_world_of_one(self):
        done = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "elastic_backend.py")], env=self.environment(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=GUARD, check=False)
        self.assertEqual((done.returncode, done.stdout.split()[1:]), (0, ["trained" if RECONFIGURES else "refused"]),
                         done.stderr)


@unittest.skipIf(not RECONFIGURES, "this PyTorch cannot give its groups other members")
class Reconfigured(ElasticCase):
    def assert_as_undisturbed(self, falls, **more):
        quiet, disturbed = self.play([], "whole", words=OWN, **more), self.play(falls, "disturbed", words=OWN, **more)
        whole = set(self.ends(quiet).values())
        self.assertEqual((len(whole), {steps for steps, _ in whole}), (1, {STEPS}))
        self.assert_survived(disturbed, whole, falls, "disturbed")

    def test_ranks_that_are_killed_are_replaced_and_the_parameters_are_those_of_an_undisturbed_run(self):
        self.assert_as_undisturbed(["1:3:forward", "1:12:backward", "2:2:metrics", "0:2:update", "3:1:after"])

    def test_ranks_of_two_nodes(self):
        self.assert_as_undisturbed(["0:3:backward", "3:4:forward", "2:2:metrics"], nodes=2)

    def test_a_rank_that_dies_while_the_others_connect_to_it(self):
        self.assert_as_undisturbed(["1:3:backward", "2:0:connect", "1:3:forward"])

    def test_who_waits_for_a_rank_that_lives_hears_of_the_death_of_another(self):
        (agent,) = self.begin("elastic_backend.py", "waits", ranks=3, restarts=1)
        jobs.wait_until(lambda: self.noted("noticed"), "rank 0 hears of the death of rank 2")
        self.make_file(os.path.join(self.path("job"), "go"))
        self.assertEqual(agent.wait(GUARD), 0, agent.stderr)
        (died,) = [float(at) for *_, at in self.noted("dies")]
        noticed = {rank: float(at) for _, rank, at in self.noted("noticed")}
        self.assertEqual(set(noticed), {0, 1})  # both in their first processes
        print(f"heard after {1000 * (noticed[0] - died):.0f} ms", flush=True)
        self.assertLess(noticed[0] - died, GRACE)

    def test_a_rank_that_dies_while_the_others_make_a_group_with_it(self):
        (agent,) = self.begin("elastic_backend.py", "groups", ranks=3, restarts=1)
        self.assertEqual(agent.wait(GUARD), 0, agent.stderr)
        (died,) = [float(at) for *_, at in self.noted("dies")]
        noticed = {rank: float(at) - died for _, rank, at in self.noted("noticed")}
        self.assertEqual(set(noticed), {0, 1})  # both in their first processes
        self.assertLess(max(noticed.values()), GRACE)

    def test_a_node_is_lost_on_which_the_store_was(self):
        options = ("--join-window", "2")
        self.port = jobs.free_port()
        agents = []
        for host in "abc":
            agents.append(self.join("elastic_trainer.py", str(STEPS), *OWN, "node=0:4:backward", nnodes="2:3", host=host,
                                    options=options))
            agents[0].says("waiting for ")
        agents[0].wait(GUARD)
        found = self.ends(agents[1:])
        self.assertEqual(({steps for steps, _ in found.values()}, len({its for _, its in found.values()})), ({STEPS}, 1))
        world = {generation: {int(pid) for g, _, pid, *_ in self.noted("met") if g == generation} for generation in (1, 2)}
        self.assertEqual((len(world[1]), world[2]), (6, set(found)))
        self.assertLess(world[2], world[1])

    def test_a_rank_that_hangs_is_named_when_torchs_calls_have_waited_long_enough(self):
        if not KILLS:
            self.skipTest("with CXXRUN_KILLS")
        quiet = self.play([], "whole", words=OWN)
        hung = self.begin("elastic_trainer.py", str(STEPS), *OWN, "hang=1:12:backward", restarts=1, folder="hung",
                          options=("--hang-timeout", "10"), env={"CXXRUN_OP_TIMEOUT": "30"})
        self.assert_survived(hung, set(self.ends(quiet).values()), ["1:12:backward"], "hung")
        self.assertIn("rank 1 on ", hung[0].stderr)
        self.assertIn("did not enter barrier", hung[0].stderr)

    def test_a_rank_that_hangs_after_an_update_is_named_and_not_who_waits_for_it(self):
        if not KILLS:
            self.skipTest("with CXXRUN_KILLS")
        (agent,) = self.begin("elastic_backend.py", "late", ranks=3, restarts=1, env={"CXXRUN_OP_TIMEOUT": "5"})
        self.assertEqual(agent.wait(GUARD), 0, agent.stderr)
        self.assertIn("rank 1 on ", agent.stderr)
        self.assertEqual({rank for _, rank, _ in self.noted("noticed")}, {0, 2})  # both in their first processes

    def test_kills_at_random_moments(self):
        self.assert_survive_kills_at_random_moments(OWN)


if __name__ == "__main__":
    jobs.main()
