"""What the tests share in which a trainer's survivors keep their processes: who they are, who was killed.

CXXRUN_KILLS: how many kills; CXXRUN_KILLS_SEED repeats a run."""
import os
import random
import signal

import train_jobs
from jobs import alive, free_port, processes_with, wait_until
from train_jobs import TrainCase

SEED = int(os.environ.get("CXXRUN_KILLS_SEED", "0")) or random.randrange(1, 1 << 30)


class TooShort(Exception):
    """The training was over before it was disturbed enough."""


class SurvivorCase(TrainCase):
    KILLS = int(os.environ.get("CXXRUN_KILLS", "8"))
    STEPS = 30  # between two kills, about
    MARGIN = 150  # steps at the end in which nobody is killed: those that have finished could not help a fresh one

    def setUp(self):
        super().setUp()
        self.known = set()  # workers that nobody has killed
        self.gone = set()
        self.last = None  # the step after which nobody is killed

    def trainers(self):
        """The pids of the workers; their ranks may have changed since they were started."""
        found = set()
        for pid in processes_with(self.marker):
            try:
                if os.path.samefile(f"/proc/{pid}/exe", train_jobs.TRAIN) and alive(pid):
                    found.add(pid)
            except OSError:
                continue
        return found

    def look(self, job, count):
        """Takes up who has come. Whoever was there and was not killed still is: in the same process."""
        now = wait_until(lambda: self.over(job) or (now if len(now := self.trainers()) >= count else None),
                         f"{count} workers run")
        if self.over(job):
            raise TooShort
        self.assertEqual(self.known - now, set(), f"survivors ended; cxxrun said:\n{job.stderr}")
        self.known |= now - self.gone

    def over(self, job):
        return (self.last and self.last_step() >= self.last) or job.process.poll() is not None

    def kill_one(self, rng):
        pid = rng.choice(sorted(self.known))
        self.known.discard(pid)
        self.gone.add(pid)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            raise TooShort from None  # it was there a moment ago

    def step_on(self, job, steps):
        self.await_step(self.last_step() + steps, job)

    def play(self, start, disturb):
        """The same training twice, once undisturbed; both end with the same bits. Longer, where it was over before
        everything was done to it: on a busy machine this process may sleep while the trainers train."""
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        for longer in (1, 4, 16):
            self.last = longer * (self.KILLS + 3) * self.STEPS
            try:
                return self.play_once(start, disturb)
            except TooShort:
                os.unlink(self.path("curve.csv"))
                self.known, self.gone, self.port = set(), set(), free_port()
        self.fail("the training is over before all kills")

    def play_once(self, start, disturb):
        options = ("--steps", str(self.last + self.MARGIN), "--batch", "1", "--quiet")
        whole = start(*options, "--curve", self.path("whole.csv"), max_restarts=0)
        self.assert_success(whole)
        self.port = free_port()
        job = start(*options, "--curve", self.path("curve.csv"), max_restarts=3 * self.KILLS)
        try:
            self.await_step(2, job[0])
            self.look(job[0], 4)
            disturb(job[0], random.Random(SEED))
        except TooShort:
            self.assert_success(job)
            raise
        self.assert_success(job)
        self.assertEqual(self.final(job[0].stdout), self.final(whole[0].stdout))
        self.assertEqual([row[:3] for row in self.curve()], [row[:3] for row in self.curve("whole.csv")])
        restarts = self.curve()[-1][3]
        print(f"{len(self.gone)} kills, {restarts} restarts, {self.final(job[0].stdout)}", flush=True)
        return restarts

    def kill_often(self, job, rng):
        for _ in range(self.KILLS):
            self.step_on(job, rng.randrange(1, self.STEPS // 2))
            self.look(job, 4)
            self.kill_one(rng)
        self.step_on(job, 2)
        self.look(job, 4)

    def assert_survives_the_death_of_all(self, workers):
        options = ("--steps", "200", "--batch", "1", "--quiet", "--save-every", "5")
        whole = self.trained(workers, *options)
        job = self.train(workers, *options, "--checkpoint-dir", self.path("saved"), "--curve", self.path("curve.csv"))
        self.await_step(50, job)
        for pid in self.trainers():
            os.kill(pid, signal.SIGKILL)
        self.assert_codes([0], job)
        self.assertEqual(self.final(job.stdout), whole)

    def one_node(self, *options, **more):
        return [self.train(4, *options, **more)]
