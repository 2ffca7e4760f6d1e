"""Kills in the 2 x 2 trainer, whose survivors keep their processes. Usage: grid_survivors_test.py CXXRUN GRID

CXXRUN_KILLS: how many kills in each job; CXXRUN_JOBS: how many jobs; CXXRUN_KILLS_SEED repeats a run."""
import os
import random
import re
import signal

import train_jobs
from jobs import free_port, wait_until
from survivor_jobs import SEED, SurvivorCase, TooShort

END = re.compile(r"half ([01]) after (\d+) steps: ([0-9a-f]{16}), the same as data parallel's$", re.M)
JOBS = int(os.environ.get("CXXRUN_JOBS", "1"))


class Grid(SurvivorCase):
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

    def kill_trained(self, job, rng):
        """Only ranks whose half another one has: nothing is lost, so no step is told of after a later one."""
        for _ in range(self.KILLS):
            self.step_on(job, rng.randrange(1, self.STEPS))
            self.look(job, 4)
            generation = self.last_told()[1]
            self.kill_one(rng)
            self.await_generation(job, generation)
        told = [int(step) for step in re.findall(r"step (\d+) of", job.stdout)]
        self.assertEqual(told, sorted(told), "it was started over")

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
        whole = start(steps, max_restarts=0)
        self.assert_success(whole)
        self.port = free_port()
        job = start(steps, max_restarts=3 * self.KILLS)
        self.job = job[0]
        try:
            self.await_generation(job[0], 0)
            disturb(job[0])
        except TooShort:
            self.assert_success(job)
            raise
        self.assert_success(job)
        self.assertEqual(self.ends(job), self.ends(whole))
        print(f"{len(self.gone)} kills in {steps} steps, hashes {self.ends(job)}", flush=True)

    def play(self, start, disturb):
        """The same training twice, once undisturbed. Longer, where it was over before everything was done to it."""
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        for number in range(JOBS):
            self.known, self.gone, self.port = set(), set(), free_port()
            rng = random.Random(SEED + number)
            for longer in (1, 4, 16, 64):
                self.last = longer * (self.KILLS + 3) * self.STEPS
                try:
                    self.play_once(start, lambda job: disturb(job, rng))
                    break
                except TooShort:
                    self.known, self.gone, self.port = set(), set(), free_port()
            else:
                self.fail("the training is over before all kills")

    def test_random_kills_leave_the_survivors_and_what_they_have_learnt(self):
        self.play(self.one_node, self.kill_trained)

    def test_the_same_on_two_nodes(self):
        self.play(self.train_pair, self.kill_trained)

    def test_kills_while_the_others_meet_leave_the_result_as_it_is(self):
        self.play(self.one_node, self.kill_often)

    def test_both_ranks_of_a_half_at_once_start_over_in_the_processes_that_are_left(self):
        """Nobody has that half any more."""
        def disturb(job, rng):
            half = rng.randrange(2)
            self.step_on(job, 100)
            self.look(job, 4)
            ranks, generation = self.workers(), self.last_told()[1]
            for rank in (half, half + 2):
                os.kill(ranks[rank], signal.SIGKILL)
                self.known.discard(ranks[rank])
                self.gone.add(ranks[rank])
            self.await_generation(job, generation)
        self.play(self.one_node, disturb)


if __name__ == "__main__":
    train_jobs.main()
