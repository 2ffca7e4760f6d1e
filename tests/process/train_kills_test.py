"""200 random kills in one training run that ends as if there had been none. Usage: train_kills_test.py CXXRUN TRAIN"""
import os
import random
import sys

import train_jobs
from train_jobs import TrainCase

KILLS = int(os.environ.get("CXXRUN_KILLS", "200"))
SEED = int(os.environ.get("CXXRUN_KILLS_SEED", "0")) or random.randrange(1, 1 << 30)


class Kills(TrainCase):
    def test_two_hundred_random_kills_leave_the_loss_as_it_is(self):
        """A kill comes some random time after the one before; a few hit a worker before it has joined."""
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        rng = random.Random(SEED)
        world, steps = 4, KILLS * 10
        options = ("--steps", str(steps), "--batch", "1", "--quiet", "--save-every", "3")
        whole = self.trained(world, *options, "--curve", self.path("whole.csv"))
        job = self.train(world, *options, "--checkpoint-dir", self.path("saved"), "--curve", self.path("curve.csv"),
                         max_restarts=KILLS)
        killed = 0
        while killed < KILLS and job.process.poll() is None:
            if rng.random() < 0.8:
                # Some steps further: without progress now and then the run would not end.
                self.await_step(self.last_step() + rng.randrange(1, 9), job)
            killed += self.kill(rng.randrange(world))
        self.assert_codes([0], job)
        self.assertEqual(killed, KILLS, "the run ended before all kills were done")
        self.assertEqual(self.final(job.stdout), whole)
        self.assertEqual([row[:3] for row in self.curve()], [row[:3] for row in self.curve("whole.csv")])
        print(f"{killed} kills, {job.stderr.count('SIGKILL')} noticed by cxxrun, {whole}", flush=True)


if __name__ == "__main__":
    train_jobs.main()
