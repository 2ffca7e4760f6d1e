"""A rank that fails, hangs or leaves in the middle of a step: who is blamed, who is ended, who keeps its process.
Usage: culprits_test.py CXXRUN FALLING_WORKER

CXXRUN_FALLS: how many of each kind. Rules: docs/design/survival.md."""
import json
import os
import random
import sys

import jobs
from jobs import JobCase, free_port

WORKER = os.path.abspath(sys.argv.pop(2))
FALLS = int(os.environ.get("CXXRUN_FALLS", "1"))
SEED = int(os.environ.get("CXXRUN_FALLS_SEED", "0")) or random.randrange(1, 1 << 30)
TIMEOUT = 2.0  # of a collective, where a rank hangs; longer than one sleeps on a busy machine
LONG = 60.0  # where none does, nobody is to be late
STATE = "state 7720"  # of twenty steps


class Culprits(JobCase):
    @classmethod
    def setUpClass(cls):
        print(f"CXXRUN_FALLS_SEED={SEED}", flush=True)
        cls.rng = random.Random(SEED)

    def play(self, how, *options, restarts=0):
        """Four ranks on two nodes, of which a random one falls; returns its number and the agents."""
        self.port = free_port()
        rank = self.rng.randrange(4)
        timeout = TIMEOUT if how in ("hang", "halt") else LONG
        if os.path.exists(self.path("events")):
            os.unlink(self.path("events"))
        agents = []
        for host in "ab":
            agents.append(self.start_node(
                "--nproc-per-node", "2", "--max-restarts", str(restarts), "--log-dir", self.path(f"{len(self.agents)}"),
                "--no-python", WORKER, how, str(rank), *options,
                env={"CXXRUN_HOST_ID": host, "CXXRUN_OP_TIMEOUT": str(timeout)}))
            agents[0].says("waiting for nodes")
        for agent in agents:
            agent.code = agent.wait()
        return rank, agents

    def first_failure(self, agents):
        """What verdict.json of the newest job blames."""
        for root, _, files in os.walk(self.path(str(len(self.agents) - 2))):
            if "verdict.json" in files:
                with open(os.path.join(root, "verdict.json")) as file:
                    return json.load(file)["failures"][0]
        return self.fail(f"no verdict.json:\n{agents[0].stderr}")

    def blame(self, how, *options):
        for _ in range(FALLS):
            rank, agents = self.play(how, *options)
            failure = self.first_failure(agents)
            self.assertEqual((failure["rank"], failure["role"]), (rank, "culprit"), agents[0].stderr)
            self.assertNotIn(0, [agent.code for agent in agents])
            yield failure, agents

    def test_a_rank_that_fails_is_blamed_and_not_those_that_waited_for_it(self):
        for how, end in (("throw", "exit code 4"), ("exit", "exit code 3"), ("abort", "signal 6")):
            for options in ((), ("plain",)):
                with self.subTest(how=how, options=options):
                    for failure, _ in self.blame(how, *options):
                        self.assertIn(end, failure["how"])

    def test_a_rank_that_ends_with_0_while_others_call_has_failed(self):
        for options in ((), ("plain",)):
            with self.subTest(options=options):
                for failure, agents in self.blame("exit0", *options):
                    self.assertEqual(failure["how"], "exit code 0")
                    self.assertIn("still called", failure["hung"])
                    self.assertIn("still called", agents[0].stderr)

    def test_a_rank_that_hangs_is_blamed_and_not_those_that_gave_it_up(self):
        for options in ((), ("plain",)):
            with self.subTest(options=options):
                for failure, _ in self.blame("hang", *options):
                    self.assertIn("did not arrive in time for 3 others", failure["hung"])

    def test_a_rank_that_the_others_gave_up_is_replaced_and_they_keep_their_processes(self):
        for how in ("hang", "halt", "exit0"):
            took = []
            for _ in range(FALLS):
                with self.subTest(how=how):
                    rank, agents = self.play(how, restarts=1)
                    self.assertEqual([agent.code for agent in agents], [0, 0], agents[0].stderr)
                    before = {r: pid for _, r, _, pid, *_ in self.events("up", 1)}
                    after = {r: pid for _, r, _, pid, *_ in self.events("up", 2)}
                    self.assertEqual({r for r in before if before[r] != after.get(r)}, {rank}, agents[0].stderr)
                    self.assertEqual(sum(agent.stdout.count(STATE) for agent in agents), 4)
                    (*_, fell), = self.events("falls", 1)
                    took.append(max(float(at) for *_, at in self.events("up", 2)) - float(fell))
            if took:
                took.sort()
                print(f"{how}: replaced {len(took)} times, after {took[len(took) // 2]:.3f} s, at most {took[-1]:.3f} s")


if __name__ == "__main__":
    jobs.main()
