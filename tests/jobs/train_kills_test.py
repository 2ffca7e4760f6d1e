"""200 random kills in one training run that ends as if there had been none. Usage: train_kills_test.py CXXRUN TRAIN"""
import os
import random

import train_jobs
from jobs import free_port
from train_jobs import TrainCase

KILLS = int(os.environ.get("CXXRUN_KILLS", "200"))
SEED = int(os.environ.get("CXXRUN_KILLS_SEED", "0")) or random.randrange(1, 1 << 30)


class Kills(TrainCase):
    def kill_often(self, start):
        """`start(*options, max_restarts)` gives the agents of a job with four workers."""
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        rng = random.Random(SEED)
        options = ("--steps", str(KILLS * 10), "--batch", "1", "--quiet", "--save-every", "3")
        whole = start(*options, "--curve", self.path("whole.csv"), max_restarts=0)
        self.assert_success(whole)
        self.port = free_port()
        job = start(*options, "--checkpoint-dir", self.path("saved"), "--curve", self.path("curve.csv"),
                    max_restarts=KILLS)
        killed = 0
        while killed < KILLS and job[0].process.poll() is None:
            if rng.random() < 0.8:
                # Some steps further: without progress now and then the run would not end.
                self.await_step(self.last_step() + rng.randrange(1, 9), job[0])
            killed += self.kill(rng.randrange(4))
        self.assert_success(job)
        self.assertEqual(killed, KILLS, "the run ended before all kills were done")
        self.assertEqual(self.final(job[0].stdout), self.final(whole[0].stdout))
        self.assertEqual([row[:3] for row in self.curve()], [row[:3] for row in self.curve("whole.csv")])
        restarts = self.curve()[-1][3]
        print(f"{killed} kills, {restarts} restarts, {self.final(job[0].stdout)}", flush=True)

    def assert_success(self, agents):
        for agent in agents:
            agent.wait(300)  # 2000 steps
        self.assert_codes([0] * len(agents), *agents)

    def test_two_hundred_random_kills_leave_every_loss_as_it_is(self):
        """A kill comes some random time after the one before; a few hit a worker before it has joined."""
        self.kill_often(lambda *options, **more: [self.train(4, *options, **more)])

    def test_the_same_on_two_nodes(self):
        self.kill_often(self.train_pair)


if __name__ == "__main__":
    train_jobs.main()
