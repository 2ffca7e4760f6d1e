"""All ranks save in the same step, whenever the job is told to end. Usage: agreed_saves_test.py CXXRUN SAVING_WORKER

CXXRUN_STOPS: how many jobs; CXXRUN_STOPS_SEED repeats a run."""
import os
import random
import sys

import jobs
from jobs import JobCase, free_port

WORKER = os.path.abspath(sys.argv.pop(2))
STOPS = int(os.environ.get("CXXRUN_STOPS", "8"))
SEED = int(os.environ.get("CXXRUN_STOPS_SEED", "0")) or random.randrange(1, 1 << 30)
MOMENTS = ("wait", "step", "save", "init")


class AgreedSaves(JobCase):
    @classmethod
    def setUpClass(cls):
        print(f"CXXRUN_STOPS_SEED={SEED}", flush=True)

    def play(self, moment, rank, step, nodes, **more):
        self.port = free_port()
        if os.path.exists(self.path("events")):
            os.unlink(self.path("events"))
        agents = []
        for host in "ab"[:nodes]:
            agents.append(self.start_node(
                "--nproc-per-node", str(4 // nodes), "--max-restarts", "0", "--time-limit", "60", "--no-python",
                "--checkpoint-signal", "USR1@3600" if moment == "save" else "USR1@1", WORKER, moment, str(rank),
                str(step), env={"CXXRUN_HOST_ID": host}, **{"nnodes": str(nodes), **more}))
            if len(agents) < nodes:
                agents[0].says("waiting for ")
        return agents

    def steps(self, word):
        """In which step that was noted, by which ranks of the first generation."""
        noted = {}
        for _, rank, _, step in self.events(word, 1):
            noted.setdefault(int(step), set()).add(int(rank))
        return noted

    def assert_agreed(self, word):
        """All ranks have noted that in the same steps; how many these are."""
        steps = self.steps(word)
        self.assertEqual(set(map(frozenset, steps.values())), {frozenset(range(4))}, steps)
        return len(steps)

    def test_the_end_of_the_job_at_any_moment(self):
        rng = random.Random(SEED)
        for number in range(STOPS):
            told = (MOMENTS[number % len(MOMENTS)], rng.randrange(4), rng.randrange(1, 300), rng.choice((1, 2)))
            with self.subTest(told=told):
                agents = self.play(*told)
                self.assert_codes([143] * len(agents), *agents)
                if told[0] == "init":  # nobody has anything to save
                    self.assertEqual(self.steps("last"), {})
                    continue
                self.assertEqual((self.assert_agreed("last"), self.assert_agreed("left")), (1, 1))
                if told[0] == "save":  # twice, where a rank is asked when the others have saved
                    self.assert_agreed("saved")

    def test_a_node_that_leaves_saves_with_the_others_and_they_go_on_without_it(self):
        first, second = self.play("step", 3, 20, 2, nnodes="1:2")
        self.assert_codes([143], second)
        self.await_events(2, "up", 2)
        self.assert_agreed("last")
        first.process.terminate()
        self.assert_codes([143], first)
        self.assertEqual({rank for _, rank, _, _ in self.events("last", 2)}, {0, 1})


if __name__ == "__main__":
    jobs.main()
