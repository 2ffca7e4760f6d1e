"""PyTorch workers that keep their process when a peer dies. Usage: torch_elastic_test.py CXXRUN LIBCXXRUN_C; see
elastic_jobs.py"""
import json
import os
import random
import signal
import unittest

import jobs
from elastic_jobs import FSDP2, GUARD, HERE, KILLS, PLACES, SEED, SHARD_KILLS, STEPS, ElasticCase



class Elastic(ElasticCase):
    def test_a_rank_that_is_killed_is_replaced_and_the_parameters_are_those_of_an_undisturbed_run(self):
        falls = ["1:3:map", "1:12:backward", "2:6:metrics", "3:2:forward"]
        quiet, disturbed = self.play([], "whole"), self.play(falls, "disturbed")
        whole = set(self.ends(quiet).values())
        self.assertEqual((len(whole), {steps for steps, _ in whole}), (1, {STEPS}))
        self.assert_survived(disturbed, whole, falls, "disturbed")
        self.assertEqual(self.noted("collected", "disturbed"), [])
        self.assertEqual(self.averages(disturbed), self.averages(quiet))

    def assert_disturbed_as_quiet(self, falls, word, ranks=4):
        quiet, disturbed = [self.play(each, f"{word}{len(each)}", words=(word,), ranks=ranks) for each in ([], falls)]
        whole = set(self.ends(quiet).values())
        self.assertEqual(len(whole), 1)
        self.assert_survived(disturbed, whole, falls, f"{word}{len(falls)}")

    @jobs.long
    def test_ranks_whose_buckets_are_in_shared_memory_survive_as_well(self):
        self.assert_disturbed_as_quiet(["1:6:backward", "2:5:update"], "wide")

    def test_a_dataloader_with_workers_gives_a_step_that_is_done_again_its_samples_again(self):
        self.assert_disturbed_as_quiet(["1:3:backward", "0:9:update"], "workers", ranks=2)

    def test_what_is_carried_and_what_is_refused(self):
        for script, says in (("elastic_calls.py", "carried and refused"), ("elastic_loop.py", "the loop is kept")):
            (agent,) = self.begin(script, ranks=2)
            self.assertEqual(agent.wait(300), 0, agent.stderr)
            self.assertEqual(agent.stdout.count(says), 2)

    def test_what_torch_builds_on_its_group_trains_as_in_torchs_own(self):
        """docs/use/elastic_pytorch.md has a row for each."""
        own, (agent,) = [self.begin("elastic_features.py", *words, ranks=2, folder=f"features{len(words)}")
                         for words in (["gloo"], [])]
        said = []
        for each in (own[0], agent):
            self.assertEqual(each.wait(GUARD), 0, each.stderr)
            said.append(sorted(line.split("] ", 1)[1].split(" ", 1)[1] for line in each.stdout.splitlines()))
        trained = [line for line in said[1] if not line.endswith("refused")]
        self.assertEqual(trained, said[0])
        page = jobs.read(os.path.join(HERE, "..", "..", "docs", "use", "elastic_pytorch.md"))
        for line in said[1]:
            name = line.split()[0].rstrip(":")
            self.assertTrue(f"`{name}" in page, f"{name} is not told of")
        self.assertEqual(len(said[1]), len(trained) + 8)

    def test_ctrl_c_ends_the_wait_for_another_generation_and_the_loop_may_be_run_again(self):
        self.make_gate("newcomer")
        (agent,) = self.begin("elastic_interrupted.py", ranks=2, restarts=1, folder=".")
        self.await_events(1, "waits", 2)  # rank 0 is parked
        (pid,) = [int(event[3]) for event in self.await_events(2, "trains", 1) if event[1] == 0]
        for times in range(1, 3):
            os.kill(pid, signal.SIGINT)
            self.await_events(times, "interrupted")
        self.open_gate("newcomer")
        self.assertEqual(agent.wait(300), 0, agent.stderr)
        ends = self.events("ends")
        self.assertEqual({event[4:] for event in ends}, {("6", "2")})
        self.assertIn(str(pid), [event[3] for event in ends])

    @jobs.long
    def test_ctrl_c_ends_the_wait_for_a_rank_that_is_stopped(self):
        for where in ("backward", "wanted"):
            with self.subTest(where=where):
                self.assert_interrupted(where)

    def assert_interrupted(self, where):
        (agent,) = self.begin("elastic_stopped.py", where, ranks=2, folder=where)
        events = os.path.join(self.path(where), "events")
        jobs.wait_until(lambda: {"stops", "waits"} <= set(jobs.read(events).split()), "rank 0 waits for rank 1")
        (pid,) = [int(words[-1]) for words in self.noted("waits", where)]
        os.kill(pid, signal.SIGINT)
        jobs.wait_until(lambda: self.noted("refused", where), "rank 0 is interrupted", 10)
        self.assertEqual(self.noted("refused", where), [(1, 0, "True")])
        self.assertEqual(agent.wait(120), 7, agent.stderr)

    @unittest.skipIf(not FSDP2, "this PyTorch has no FSDP2")
    def test_shards_of_a_node_that_loses_a_rank_are_given_by_the_other_node_whose_ranks_go_on(self):
        quiet = self.play_shards([], "whole")
        whole = set(self.ends(quiet).values())
        self.assertEqual(len(whole), 2)
        falls = ["3:4:backward"]
        self.assert_other_node_survived(self.play_shards(falls, "disturbed"), whole, falls, "disturbed")

    @unittest.skipIf(not FSDP2, "this PyTorch has no FSDP2")
    @jobs.long
    def test_shards_of_a_node_that_is_lost_are_given_to_another_node(self):
        whole = set(self.ends(self.play_shards([], "whole")).values())
        agents = self.begin("elastic_shards.py", str(STEPS), "node=2:4:update", restarts=1, folder="lost", nodes=2,
                            nnodes="2:3", options=("--join-window", "1"))
        agents[1].wait(300)
        third = self.join("elastic_shards.py", str(STEPS), restarts=1, folder="lost", host="c", nnodes="2:3",
                          options=("--join-window", "1"))
        found = self.ends([agents[0], third])
        self.assertEqual(set(found.values()), whole)
        self.assertEqual({int(pid) for g, rank, pid, _ in self.noted("stepped", "lost") if g == 1 and rank < 2},
                         {int(pid) for g, _, pid, _ in self.noted("stepped", "lost") if g == 1} & set(found))

    @unittest.skipIf(not FSDP2, "this PyTorch has no FSDP2")
    @jobs.long
    def test_shards_are_trained_as_by_torchs_own_hsdp(self):
        trained = []
        for words in (["gloo"], []):
            folder = f"hsdp{len(words)}"
            for agent in self.begin("elastic_hsdp.py", *words, nodes=2, folder=folder):
                self.assertEqual(agent.wait(300), 0, agent.stderr)
            its = [json.loads(jobs.read(self.path(f"{folder}/{rank}.json"))) for rank in range(4)]
            self.assertEqual(its[:2], its[2:])
            trained.append([number for rank in its for shard in rank for number in shard])
        self.assertEqual(len(trained[0]), 2 * (17 * 30 + 31 * 4))
        for own, ours in zip(*trained):
            self.assertAlmostEqual(own, ours, delta=1e-5 + 1e-4 * abs(own))

    @unittest.skipIf(not FSDP2, "this PyTorch has no FSDP2")
    @jobs.long
    def test_shards_on_nodes_with_other_numbers_of_ranks_are_refused(self):
        agents = self.begin("elastic_shards.py", str(STEPS), nodes=2, sizes=(2, 1))
        self.assert_codes([1, 1], *agents)
        self.assertIn("shards are the same on each node where all have as many ranks", agents[0].stderr)

    def test_with_what_scripts_call_that_do_not_survive_a_hang_is_named_and_the_others_go_on(self):
        if not KILLS:
            self.skipTest("with CXXRUN_KILLS")
        quiet = self.play([], "whole")
        hung = self.begin("elastic_trainer.py", str(STEPS), "install", "hang=1:12:backward", restarts=1, folder="hung",
                          options=("--hang-timeout", "10", "--log-dir", self.path("logs")))
        self.assert_survived(hung, set(self.ends(quiet).values()), ["1:12:backward"], "hung")
        self.assertNotIn("install()", hung[0].stderr)
        self.assertIn("rank 1", hung[0].stderr)
        (told,) = [os.path.join(folder, "hang.txt") for folder, _, files in os.walk(self.path("logs"))
                   if "hang.txt" in files]
        source = jobs.read(os.path.join(HERE, "elastic_trainer.py")).splitlines()
        line = next(number for number, text in enumerate(source, 1) if text.endswith("# hangs"))
        self.assertIn(f'elastic_trainer.py", line {line} in fall', jobs.read(told))

    def test_ranks_that_hang_are_named_and_replaced(self):
        self.assert_hung_ranks_are_replaced()

    def test_kills_at_random_moments(self):
        self.assert_survive_kills_at_random_moments(("wide",), ())

    @unittest.skipIf(not FSDP2 or not SHARD_KILLS, "with FSDP2 and CXXRUN_KILLS")
    def test_kills_of_ranks_with_shards(self):
        self.assert_shards_survive_kills()

    def test_where_no_rank_has_the_whole_state_the_checkpoint_is_loaded_into_the_same_processes(self):
        if not KILLS:
            self.skipTest("with CXXRUN_KILLS")
        falls = ["1:12:half"]
        whole = set(self.ends(self.play([], "whole")).values())
        halved = self.begin("elastic_trainer.py", str(STEPS), "save", "die=" + falls[0], restarts=1, folder="halved")
        self.assert_survived(halved, whole, falls, "halved")
        self.assertEqual({step for generation, _, step, _ in self.noted("stepped", "halved") if generation == 2}, {"6"})

    def test_a_job_that_is_told_to_end_saves_in_one_step_and_goes_on_from_there(self):
        if not KILLS:
            self.skipTest("with CXXRUN_KILLS")
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        rng, steps = random.Random(SEED), str(20 * STEPS)  # so that none of them is over before it is told
        for number in range(1 + KILLS // 25):
            nodes, folder = rng.choice((1, 2)), f"told{number}"
            told = f"{rng.randrange(4)}:{rng.randrange(3 * STEPS)}:{rng.choice(PLACES)}"
            with self.subTest(told=told, nodes=nodes):
                agents = self.begin("elastic_trainer.py", steps, "save", "term=" + told, folder=folder, nodes=nodes)
                self.assert_codes([143] * nodes, *agents)
                saved = self.noted("saved", folder)
                (last,) = {max(int(step) for _, r, step, _ in saved if r == rank) for rank in range(4)}
                self.assertGreaterEqual(last, int(told.split(":")[1]))
        whole = set(self.ends(self.begin("elastic_trainer.py", steps, folder="whole", nodes=nodes)).values())
        again = self.begin("elastic_trainer.py", steps, "save", folder=folder, nodes=nodes)
        self.assertEqual(set(self.ends(again).values()), whole)
        self.assertIn(str(last + 1), {step for _, _, step, _ in self.noted("stepped", folder)})


if __name__ == "__main__":
    jobs.main()
