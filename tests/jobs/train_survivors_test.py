"""Kills in a training run whose survivors keep their processes. Usage: train_survivors_test.py CXXRUN TRAIN

Nothing is saved: only a survivor can know what was learnt. CXXRUN_KILLS: how many kills; CXXRUN_KILLS_SEED repeats a run."""
import signal
import time

import train_jobs
from jobs import wait_until
from survivor_jobs import SurvivorCase


class Survivors(SurvivorCase):
    def test_random_kills_change_no_loss_and_no_other_process(self):
        self.play(self.one_node, self.kill_often)

    def test_the_same_on_two_nodes(self):
        self.play(self.train_pair, self.kill_often)

    def test_two_at_once_and_one_while_the_others_meet(self):
        def disturb(job, rng):
            for _ in range(max(1, self.KILLS // 4)):
                self.step_on(job, rng.randrange(1, self.STEPS // 2))
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
        self.assert_survives_the_death_of_all(4)

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
