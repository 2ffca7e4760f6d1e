"""A trainer of libtorch, killed or not. Usage: train_torch_test.py CXXRUN TRAIN_TORCH

CXXRUN_KILLS: how many kills; CXXRUN_KILLS_SEED repeats a run."""

import jobs
import train_jobs
from survivor_jobs import SurvivorCase


class Torch(SurvivorCase):
    KILLS = min(SurvivorCase.KILLS, 4)  # each starts libtorch again

    def test_ranks_together_do_what_one_does_with_their_batches(self):
        losses = self.assert_worlds_agree("20")
        self.assertLess(losses[-1], losses[0] - 0.3)  # it learns

    def test_random_kills_change_no_loss_and_no_other_process(self):
        self.play(self.one_node, self.kill_often)

    @jobs.long
    def test_the_same_on_two_nodes(self):
        self.play(self.train_pair, self.kill_often)

    def test_when_all_die_at_once_the_checkpoint_is_loaded(self):
        self.assert_survives_the_death_of_all(2)

    def test_a_checkpoint_of_something_else_is_refused_in_one_line(self):
        self.alone("--steps", "2", "--batch", "1", "--quiet", "--checkpoint-dir", self.path("saved"))
        self.make_file("text", "another text with other letters, long enough to be cut into samples")
        done = self.alone("--steps", "2", "--checkpoint-dir", self.path("saved"), "--text", self.path("text"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"^train_torch: [^\n]*is a checkpoint of model [^\n]*\n$")


if __name__ == "__main__":
    train_jobs.main()
