"""Jobs whose workers are PyTorch scripts with cxxrun.torch.Elastic. Arguments of a test: CXXRUN LIBCXXRUN_C

CXXRUN_KILLS: how many kills more than the one that is always tried; CXXRUN_SHARD_KILLS: of ranks with shards [a few];
CXXRUN_MOMENT_KILLS: how many at each of MOMENTS; CXXRUN_HANGS: how many ranks hang. CXXRUN_KILLS_SEED repeats a run. Exit code 77: there is no torch."""
import importlib.util
import os
import random
import re
import statistics
import sys

import jobs
from jobs import JobCase, free_port

TORCH = importlib.util.find_spec("torch")
if TORCH is None:
    jobs.skip("there is no torch (Debian: python3-torch)")
# DDP of new releases imports this when it is first made.
WARM = "--warm=torch" + ",torch._dynamo" * os.path.isdir(os.path.join(os.path.dirname(TORCH.origin), "_dynamo"))
# Ranks import torch once together, and leave without an end of the interpreter: it costs a warm one as much as an import.
QUICK = {"options": (WARM,), "env": {"LEAVES": "at once"}}
# With an all-reduce hook, which that of 2.6 lacks.
_SHARDS = os.path.join(os.path.dirname(TORCH.origin), "distributed", "fsdp", "_fully_shard", "_fully_shard.py")
FSDP2 = os.path.exists(_SHARDS) and "set_all_reduce_hook" in jobs.read(_SHARDS)
HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.abspath(sys.argv.pop(2))
KILLS = int(os.environ.get("CXXRUN_KILLS", "0"))
SEED = int(os.environ.get("CXXRUN_KILLS_SEED", "0")) or random.randrange(1, 1 << 30)
MOMENT_KILLS = int(os.environ.get("CXXRUN_MOMENT_KILLS", "0"))
SHARD_KILLS = int(os.environ.get("CXXRUN_SHARD_KILLS", min(KILLS // 12, 16)))
HANGS = int(os.environ.get("CXXRUN_HANGS", "0"))
STEPS = 30
MOMENTS = ("forward", "backward", "update", "metrics")
PLACES = ("forward", "backward", "metrics", "update", "after", "between")
LONG = 200  # steps, for so many kills in one job with --warm; without, each costs an import
MANY, FEW = 20, 5
HUNG, UNTIL_REPLACED = 2, 1  # seconds: --hang-timeout, and how long after it the next step is aimed at
GUARD = 900


class ElasticCase(JobCase):
    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PYTHONPATH=os.path.join(HERE, "..", "..", "src", "runtime", "python"), CXXRUN_LIBRARY=LIBRARY,
                   PYTHON_EXEC="/usr/bin/python3", CUDA_VISIBLE_DEVICES="", GLOG_minloglevel="2")
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

    def join(self, script, *words, nnodes, host, ranks=2, restarts=0, folder="job", options=(), env=None):
        """One agent more."""
        os.makedirs(self.path(folder), exist_ok=True)
        return self.start_node("--nproc-per-node", str(ranks), "--max-restarts", str(restarts), *options,
                               os.path.join(HERE, script), *words, nnodes=nnodes,
                               env={"DIR": self.path(folder), "CXXRUN_HOST_ID": host, **(env or {})})

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

    def play(self, falls, folder, steps=STEPS, words=(), how="die", **more):
        """QUICK, unless `more` has options."""
        return self.begin("elastic_trainer.py", str(steps), *words, *(f"{how}={fall}" for fall in falls),
                          restarts=len(falls), folder=folder, **({} if "options" in more else QUICK), **more)

    def play_shards(self, falls, folder, words=(), **more):
        return self.begin("elastic_shards.py", str(STEPS), *words, *("die=" + fall for fall in falls), restarts=len(falls),
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

    def assert_shards_survive_kills(self):
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        chosen = random.Random(SEED)
        whole = set(self.ends(self.play_shards([], "whole")).values())
        for number in range(0, SHARD_KILLS, 4):
            steps = sorted(chosen.sample(range(1, STEPS - 1), 4))
            falls = [f"{chosen.randrange(4)}:{step}:{chosen.choice(('forward', 'backward', 'metrics', 'update', 'after'))}"
                     for step in steps]
            with self.subTest(falls=falls):
                agents = self.play_shards(falls, f"{number}", options=("--restart-delay=0", WARM))
                self.assert_other_node_survived(agents, whole, falls, f"{number}")
                print(f"{number + len(falls)} kills", flush=True)

    def chosen_falls(self, chosen, number):
        """RANK:STEP:WHERE; STEP counts from the first one of its generation."""
        falls = []
        for _ in range(number):
            place = chosen.choice((*PLACES, *["moment"] * 3))
            step = chosen.randrange(1 if place == "between" else 0, 6)
            falls.append(f"{chosen.randrange(4)}:{step}:{chosen.randrange(30000) if place == 'moment' else place}")
        return falls

    def assert_survive_kills_at_random_moments(self, *variants):
        """`variants`: words for the trainer."""
        if not KILLS:
            self.skipTest("CXXRUN_KILLS says how many")
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        chosen, plans = random.Random(SEED), []
        kinds = [(nodes, words) for nodes in (1, 2) for words in variants]
        whole = {kind: set(self.ends(self.play([], "whole" + "".join(map(str, kind)), LONG, kind[1], nodes=kind[0])).values())
                 for kind in kinds}
        while sum(len(falls) for falls, *_ in plans) < KILLS:
            number, options = chosen.choice((*[(MANY, (WARM,))] * 2, (MANY, ("--warm",)), (FEW, ())))
            kind = chosen.choice((1, 2)), variants[len(plans) % len(variants)]
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

    def played(self, plans, how, *options):
        """(falls, folder, agents) of a job for each list of falls, whose end is that of an undisturbed one."""
        whole = set(self.ends(self.play([], "whole", LONG)).values())
        for (number, falls), agents in jobs.some_at_a_time(
                lambda plan: self.play(plan[1], f"{plan[0]}", LONG, how=how, options=("--restart-delay=0", WARM, *options)),
                enumerate(plans)):
            with self.subTest(falls=falls):
                self.assert_survived(agents, whole, falls, f"{number}")
                yield falls, f"{number}", agents

    def assert_survive_kills_at_each_moment(self):
        if not MOMENT_KILLS:
            self.skipTest("CXXRUN_MOMENT_KILLS says how many")
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        chosen, lost = random.Random(SEED), {moment: [] for moment in MOMENTS}
        plans = [[f"{chosen.randrange(4)}:{chosen.randrange(6)}:{moment}" for _ in range(min(MANY, MOMENT_KILLS))]
                 for moment in MOMENTS for _ in range(0, MOMENT_KILLS, MANY)]
        for falls, folder, _ in self.played(plans, "die"):
            moment = falls[0].split(":")[2]
            lost[moment] += self.lost(folder)
            print(f"{len(falls)} kills in {moment}; of all there, lost {statistics.median(lost[moment]):.2f} s, at most "
                  f"{max(lost[moment]):.2f} s", flush=True)

    def assert_hung_ranks_are_replaced(self):
        """Each is named, and nobody else."""
        if not HANGS:
            self.skipTest("CXXRUN_HANGS says how many")
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        chosen, took = random.Random(SEED), []
        plans = [[f"{chosen.randrange(4)}:{chosen.randrange(1, 6)}:{chosen.choice(MOMENTS)}" for _ in range(min(MANY, HANGS))]
                 for _ in range(0, HANGS, MANY)]
        for falls, folder, (agent,) in self.played(plans, "hang", "--hang-timeout", str(HUNG)):
            blamed = re.findall(r"error: rank (\d+) on \S+ did not ", agent.stderr)
            self.assertEqual(blamed, [fall.split(":")[0] for fall in falls], agent.stderr)
            took += self.lost(folder)
            in_time = sum(each < HUNG + UNTIL_REPLACED for each in took)
            print(f"{len(took)} hangs, the next step after {statistics.median(took):.2f} s, at most {max(took):.2f} s; "
                  f"{in_time} within {HUNG + UNTIL_REPLACED} s", flush=True)
