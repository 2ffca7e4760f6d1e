"""Kills in the 2 x 2 trainer, whose survivors keep their processes. Usage: grid_survivors_test.py CXXRUN GRID

CXXRUN_KILLS: how many kills in each job; CXXRUN_JOBS: how many jobs; CXXRUN_KILLS_SEED repeats a run."""
import os
import re
import signal

import train_jobs
from grid_jobs import GridCase


class Grid(GridCase):
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
