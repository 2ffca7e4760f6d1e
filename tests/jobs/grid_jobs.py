"""What the tests of the 2 x 2 trainer share, whose survivors keep their processes: its jobs, how far it is, its end.

CXXRUN_JOBS: how many jobs, each with CXXRUN_KILLS kills."""
import os
import random
import re

from jobs import free_port, wait_until
from survivor_jobs import SEED, SurvivorCase, TooShort

END = re.compile(r"half ([01]) after (\d+) steps: ([0-9a-f]{16}), the same as data parallel's$", re.M)
JOBS = int(os.environ.get("CXXRUN_JOBS", "1"))


class GridCase(SurvivorCase):
    STEPS = 300
    MARGIN = 3000
    job = None

    def last_told(self):
        """(step, generation) of the job that is disturbed; zeros before its first line. One each hundred steps."""
        try:
            with open(self.job.files[0], "rb") as file:
                file.seek(max(0, os.stat(file.fileno()).st_size - 200))
                told = re.findall(rb"step (\d+) of generation (\d+)\n", file.read())
                return tuple(map(int, told[-1])) if told else (0, 0)
        except (OSError, AttributeError):
            return 0, 0

    def last_step(self, name=None):
        return self.last_told()[0]

    def await_generation(self, job, after):
        """All four have the same state again, and train."""
        wait_until(lambda: self.over(job) or self.last_told()[1] > after, f"a step after generation {after}")
        self.look(job, 4)

    def ends(self, agents):
        """What the four ranks end with: each half twice, the same."""
        found = [end for agent in agents for end in END.findall(agent.stdout)]
        texts = "".join(agent.stdout for agent in agents)
        self.assertNotIn("NOT", texts)  # the launcher would start it anew, and it would end well
        self.assertEqual(len(found), 4, "\n".join(agent.stdout + agent.stderr for agent in agents))
        self.assertEqual(len(set(found)), 2, found)
        return sorted(found)

    def play_once(self, start, disturb):
        steps = str(self.last + self.MARGIN)
        self.job = None
        whole = start(steps, self.sums, max_restarts=0)
        self.assert_success(whole)
        self.port = free_port()
        job = start(steps, self.sums, max_restarts=3 * self.KILLS)
        self.job = job[0]
        try:
            self.await_generation(job[0], 0)
            disturb(job[0])
        except TooShort:
            self.assert_success(job)
            raise
        self.assert_success(job)
        self.assertEqual(self.ends(job), self.ends(whole))
        print(f"{len(self.gone)} kills in {steps} steps with sums of {self.sums}, hashes {self.ends(job)}", flush=True)

    def play(self, start, disturb):
        """The same training twice, once undisturbed. Longer, where it was over before everything was done to it."""
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        for number in range(JOBS):
            self.known, self.gone, self.port = set(), set(), free_port()
            rng = random.Random(SEED + number)
            self.sums = rng.choice(("f32", "f16"))
            for longer in (1, 4, 16, 64):
                self.last = longer * (self.KILLS + 3) * self.STEPS
                try:
                    self.play_once(start, lambda job: disturb(job, rng))
                    break
                except TooShort:
                    self.known, self.gone, self.port = set(), set(), free_port()
            else:
                self.fail("the training is over before all kills")
