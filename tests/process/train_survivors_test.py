"""Kills in a training run whose survivors keep their processes. Usage: train_survivors_test.py CXXRUN TRAIN

Nothing is saved: only a survivor can know what was learnt. CXXRUN_KILLS: how many kills; CXXRUN_KILLS_SEED repeats a run."""
import os
import random
import signal
import time

import jobs
import train_jobs
from jobs import alive, free_port, processes_with, wait_until
from train_jobs import TrainCase

KILLS = int(os.environ.get("CXXRUN_KILLS", "8"))
SEED = int(os.environ.get("CXXRUN_KILLS_SEED", "0")) or random.randrange(1, 1 << 30)
STEPS = 30  # between two kills, about


class Survivors(TrainCase):
    def setUp(self):
        super().setUp()
        self.known = set()  # workers that nobody has killed
        self.gone = set()

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

    def look(self, job, count=None):
        """Takes up who has come. Whoever was there and was not killed still is: in the same process."""
        def complete():
            now = self.trainers()
            return now if job.process.poll() is not None or count is None or len(now) >= count else None
        now = wait_until(complete, f"{count} workers run")
        if job.process.poll() is None:
            self.assertEqual(self.known - now, set(), f"survivors ended; cxxrun said:\n{job.stderr}")
        self.known |= now - self.gone

    def kill_one(self, rng):
        pid = rng.choice(sorted(self.known))
        self.known.discard(pid)
        self.gone.add(pid)
        os.kill(pid, signal.SIGKILL)

    def step_on(self, job, steps):
        self.await_step(self.last_step() + steps, job)

    def play(self, start, disturb):
        """The same training twice, once undisturbed; both end with the same bits."""
        print(f"CXXRUN_KILLS_SEED={SEED}", flush=True)
        options = ("--steps", str(100 + KILLS * STEPS), "--batch", "1", "--quiet")
        whole = start(*options, "--curve", self.path("whole.csv"), max_restarts=0)
        self.assert_success(whole)
        self.port = free_port()
        job = start(*options, "--curve", self.path("curve.csv"), max_restarts=3 * KILLS)
        self.await_step(2, job[0])
        self.look(job[0], 4)
        disturb(job[0], random.Random(SEED))
        self.assert_success(job)
        self.assertEqual(self.final(job[0].stdout), self.final(whole[0].stdout))
        self.assertEqual([row[:3] for row in self.curve()], [row[:3] for row in self.curve("whole.csv")])
        restarts = self.curve()[-1][3]
        print(f"{len(self.gone)} kills, {restarts} restarts, {self.final(job[0].stdout)}", flush=True)
        return restarts

    def assert_success(self, agents):
        for agent in agents:
            agent.wait(600)
        self.assert_codes([0] * len(agents), *agents)

    def kill_often(self, job, rng):
        for _ in range(KILLS):
            self.step_on(job, rng.randrange(1, STEPS // 2))
            self.look(job, 4)
            self.kill_one(rng)
        self.step_on(job, 2)
        self.look(job, 4)

    def one_node(self, *options, **more):
        return [self.train(4, *options, **more)]

    def test_random_kills_change_no_loss_and_no_other_process(self):
        self.play(self.one_node, self.kill_often)

    def test_the_same_on_two_nodes(self):
        self.play(self.train_pair, self.kill_often)

    def test_two_at_once_and_one_while_the_others_meet(self):
        def disturb(job, rng):
            for _ in range(max(1, KILLS // 4)):
                self.step_on(job, rng.randrange(1, STEPS // 2))
                self.look(job, 4)
                self.kill_one(rng)
                self.kill_one(rng)
                self.step_on(job, 2)
                self.look(job, 4)
                before = set(self.known)
                self.kill_one(rng)
                wait_until(lambda: self.trainers() - before or job.process.poll() is not None, "a successor runs")
                time.sleep(rng.random() * 0.02)  # anywhere in its start and their meeting
                self.kill_one(rng)  # a survivor of the first
                self.step_on(job, 2)
                self.look(job, 4)
        self.play(self.one_node, disturb)

    def test_when_all_die_at_once_the_checkpoint_is_loaded(self):
        options = ("--steps", "200", "--batch", "1", "--quiet", "--save-every", "5")
        whole = self.trained(4, *options)
        job = self.train(4, *options, "--checkpoint-dir", self.path("saved"), "--curve", self.path("curve.csv"))
        self.await_step(50, job)
        for pid in self.trainers():
            os.kill(pid, signal.SIGKILL)
        self.assert_codes([0], job)
        self.assertEqual(self.final(job.stdout), whole)

    def test_a_world_that_grows_and_loses_a_node_goes_on_in_the_processes_that_are_left(self):
        options = ("--steps", "1000000", "--batch", "1", "--quiet", "--curve", self.path("curve.csv"))

        def node(host):
            return self.start_node("--nproc-per-node", "2", "--rdzv-conf", "last_call_timeout=1", train_jobs.TRAIN,
                                   *options, nnodes="1:2", env={"CXXRUN_HOST_ID": host})

        def world():
            rows = self.curve()
            return rows[-1][2] if rows else 0
        first = node("a")
        wait_until(lambda: world() == 2, "two ranks train")
        stay = self.trainers()
        second = node("b")
        wait_until(lambda: world() == 4, "four ranks train")
        self.assertLessEqual(stay, self.trainers(), first.stderr)
        second.process.kill()
        wait_until(lambda: world() == 2, "two ranks train again")
        wait_until(lambda: self.trainers() == stay, "the others have gone")
        steps = [row[0] for row in self.curve()]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))  # each once, whoever did it
        first.process.send_signal(signal.SIGTERM)
        first.wait()


if __name__ == "__main__":
    train_jobs.main()
