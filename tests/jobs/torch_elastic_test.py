"""PyTorch workers that keep their process when a peer dies. Usage: torch_elastic_test.py CXXRUN LIBCXXRUN_C

CXXRUN_KILLS: how many kills more than the one that is always tried; CXXRUN_KILLS_SEED repeats a run. Exit code 77:
there is no torch."""
import importlib.util
import json
import os
import random
import signal
import statistics
import sys
import unittest

import jobs
from jobs import JobCase, free_port

TORCH = importlib.util.find_spec("torch")
if TORCH is None:
    print("skipped: there is no torch (Debian: python3-torch)")
    sys.exit(77)
# DDP of new releases imports this when it is first made.
WARM = "--warm=torch" + ",torch._dynamo" * os.path.isdir(os.path.join(os.path.dirname(TORCH.origin), "_dynamo"))
FSDP2 = os.path.isdir(os.path.join(os.path.dirname(TORCH.origin), "distributed", "fsdp", "_fully_shard"))
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.abspath(sys.argv.pop(2))
KILLS = int(os.environ.get("CXXRUN_KILLS", "0"))
SEED = int(os.environ.get("CXXRUN_KILLS_SEED", "0")) or random.randrange(1, 1 << 30)
STEPS = 30
PLACES = ("forward", "backward", "metrics", "update", "after", "between")
LONG = 200  # steps, for so many kills in one job with --warm; without, each costs an import
MANY, FEW = 20, 5
GUARD = 900


class Elastic(JobCase):
    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PYTHONPATH=os.path.join(HERE, "..", "..", "src", "python"), CXXRUN_LIBRARY=LIBRARY,
                   PYTHON_EXEC="/usr/bin/python3", CXXRUN_BACKEND="host", CUDA_VISIBLE_DEVICES="", GLOG_minloglevel="2")
        return env

    def begin(self, script, *words, ranks=4, nodes=1, nnodes=None, sizes=None, **more):
        """The agents of a job with a folder of its own. `sizes`: of its nodes, where they differ."""
        self.port = free_port()
        agents = []
        for host, size in zip("ab"[:nodes], sizes or nodes * (ranks // nodes,)):
            agents.append(self.join(script, *words, ranks=size, nnodes=nnodes or str(nodes),
                                    host=host if nodes > 1 else None, **more))
            if len(agents) < nodes:
                agents[0].says("waiting for ")
        return agents

    def join(self, script, *words, nnodes, host, ranks=2, restarts=0, folder="job", options=()):
        """One agent more."""
        os.makedirs(self.path(folder), exist_ok=True)
        return self.start_node("--nproc-per-node", str(ranks), "--max-restarts", str(restarts), *options,
                               os.path.join(HERE, script), *words, nnodes=nnodes,
                               env={"DIR": self.path(folder), "CXXRUN_HOST_ID": host})

    def noted(self, word, folder="job"):
        """(generation, rank, words…)"""
        lines = jobs.read(os.path.join(self.path(folder), "events")).splitlines()
        return [(int(g), int(r), *words) for g, r, what, *words in map(str.split, lines) if what == word]

    def ends(self, agents):
        """{pid: (steps, hash)} as the ranks print it."""
        found = {}
        for agent in agents:
            code = agent.wait(GUARD)
            self.assertEqual(code, 0, agent.stderr)
            for line in agent.stdout.splitlines():
                words = line.split()
                if "end" in words:
                    pid, steps, digest = words[words.index("end") + 1:]
                    found[int(pid)] = (int(steps), digest)
        return found

    @staticmethod
    def averages(agents):
        return {line.split()[-1] for agent in agents for line in agent.stdout.splitlines() if "averages" in line}

    def assert_survived(self, agents, whole, falls, folder):
        """All ended as the undisturbed run did, and a rank has another process exactly where it has fallen before."""
        found = self.ends(agents)
        self.assertEqual(set(found.values()), whole, falls)
        pids = {}
        for generation, rank, pid, *_ in self.noted("met", folder):
            pids.setdefault(rank, {})[generation] = int(pid)
        self.assertEqual({max(its) for its in pids.values()}, {len(falls) + 1})
        self.assertEqual({its[len(falls) + 1] for its in pids.values()}, set(found))
        for rank, its in pids.items():
            for before, after in zip(sorted(its), sorted(its)[1:]):
                fallen = any(int(fall.split(":")[0]) == rank for fall in falls[before - 1:after - 1])
                self.assertEqual(its[before] != its[after], fallen, (rank, before, falls, pids))

    def lost(self, folder):
        """Seconds from each death until all ranks have made a step."""
        dead = {generation: float(at) for generation, _, at in self.noted("falls", folder)}
        again = {}
        for generation, _, _, at in self.noted("stepped", folder):
            again.setdefault(generation, []).append(float(at))
        return [max(again[each + 1]) - dead[each] for each in dead if len(again.get(each + 1, [])) == 4]

    def play(self, falls, folder, steps=STEPS, words=(), **more):
        return self.begin("elastic_trainer.py", str(steps), *words, *("die=" + fall for fall in falls),
                          restarts=len(falls), folder=folder, **more)

    def test_a_rank_that_is_killed_is_replaced_and_the_parameters_are_those_of_an_undisturbed_run(self):
        falls = ["1:3:map", "1:12:backward", "2:6:metrics", "3:2:forward"]
        quiet, disturbed = self.play([], "whole"), self.play(falls, "disturbed")
        whole = set(self.ends(quiet).values())
        self.assertEqual((len(whole), {steps for steps, _ in whole}), (1, {STEPS}))
        self.assert_survived(disturbed, whole, falls, "disturbed")
        self.assertEqual(self.noted("collected", "disturbed"), [])
        self.assertEqual(self.averages(disturbed), self.averages(quiet))

    def test_ranks_whose_buckets_are_in_shared_memory_survive_as_well(self):
        falls = ["1:6:backward", "2:5:update"]
        quiet, disturbed = [self.play(each, f"wide{len(each)}", words=("wide",)) for each in ([], falls)]
        whole = set(self.ends(quiet).values())
        self.assertEqual(len(whole), 1)
        self.assert_survived(disturbed, whole, falls, "wide2")

    def test_what_is_carried_and_what_is_refused(self):
        (agent,) = self.begin("elastic_calls.py", ranks=2)
        self.assertEqual(agent.wait(300), 0, agent.stderr)
        self.assertEqual(agent.stdout.count("carried and refused"), 2)

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
        self.assertEqual(len(said[1]), len(trained) + 6)

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
    def test_shards_on_nodes_with_other_numbers_of_ranks_are_refused(self):
        agents = self.begin("elastic_shards.py", str(STEPS), nodes=2, sizes=(2, 1))
        self.assert_codes([1, 1], *agents)
        self.assertIn("shards are the same on each node where all have as many ranks", agents[0].stderr)

    def play_shards(self, falls, folder, **more):
        return self.begin("elastic_shards.py", str(STEPS), *("die=" + fall for fall in falls), restarts=len(falls),
                          folder=folder, nodes=2, **more)

    def assert_other_node_survived(self, agents, whole, falls, folder):
        """A node lives or ends as a whole."""
        found = self.ends(agents)
        self.assertEqual(set(found.values()), whole, falls)
        pids = {}
        for generation, rank, pid, _ in self.noted("stepped", folder):
            pids.setdefault(generation, {})[rank] = int(pid)
        self.assertEqual(set(pids[len(falls) + 1].values()), set(found))
        for generation, fall in enumerate(falls, 1):
            for rank, pid in pids[generation].items():
                lives = rank // 2 != int(fall.split(":")[0]) // 2
                self.assertEqual(pids[generation + 1].get(rank, pid if lives else None) == pid, lives, (falls, pids))

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

    def chosen_falls(self, chosen, number):
        """RANK:STEP:WHERE; STEP counts from the first one of its generation."""
        falls = []
        for _ in range(number):
            place = chosen.choice((*PLACES, *["moment"] * 3))
            step = chosen.randrange(1 if place == "between" else 0, 6)
            falls.append(f"{chosen.randrange(4)}:{step}:{chosen.randrange(30000) if place == 'moment' else place}")
        return falls

    def test_kills_at_random_moments(self):
        if not KILLS:
            self.skipTest("CXXRUN_KILLS says how many")
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        chosen, plans = random.Random(SEED), []
        kinds = [(nodes, words) for nodes in (1, 2) for words in ((), ("wide",))]
        whole = {kind: set(self.ends(self.play([], "whole" + "".join(map(str, kind)), LONG, kind[1], nodes=kind[0])).values())
                 for kind in kinds}
        while sum(len(falls) for falls, *_ in plans) < KILLS:
            number, options = chosen.choice((*[(MANY, (WARM,))] * 3, (FEW, ())))
            kind = chosen.choice((1, 2)), ("wide",) * (len(plans) % 2 == 0)
            plans.append((self.chosen_falls(chosen, number), kind, options, f"{len(plans)}"))
        lost, done = {}, 0
        for (falls, kind, options, folder), agents in jobs.some_at_a_time(
                lambda plan: self.play(plan[0], plan[3], LONG, plan[1][1], nodes=plan[1][0],
                                       options=("--restart-delay=0", *plan[2])), plans):
            with self.subTest(falls=falls, kind=kind, options=options):
                self.assert_survived(agents, whole[kind], falls, folder)
                done += len(falls)
                its = lost.setdefault((kind, bool(options)), [])
                its += self.lost(folder)
                print(f"{done} kills; nodes {kind}, {options}: {len(its)} kills, lost {statistics.median(its):.2f} s, "
                      f"at most {max(its):.2f} s", flush=True)

    @unittest.skipIf(not FSDP2 or not KILLS, "with FSDP2 and CXXRUN_KILLS")
    def test_kills_of_ranks_with_shards(self):
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        chosen = random.Random(SEED)
        whole = set(self.ends(self.play_shards([], "whole")).values())
        for number in range(min(KILLS // 9 + 1, 5)):
            steps = sorted(chosen.sample(range(1, STEPS - 1), 3))
            falls = [f"{chosen.randrange(4)}:{step}:{chosen.choice(('forward', 'backward', 'metrics', 'update', 'after'))}"
                     for step in steps]
            with self.subTest(falls=falls):
                agents = self.play_shards(falls, f"{number}", options=(WARM,))
                self.assert_other_node_survived(agents, whole, falls, f"{number}")

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
