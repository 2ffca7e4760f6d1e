"""PyTorch jobs that go on without a node that lacks a rank. Usage: torch_shrink_test.py CXXRUN LIBCXXRUN_C; see
elastic_jobs.py"""
import os
import signal
import time

import jobs
from elastic_jobs import ElasticCase
from jobs import alive, free_port, wait_until
from shrink_jobs import SIZE, ShrinkCase

GUARD = 300  # seconds: four imports of torch on a busy machine


class Shrinking(ShrinkCase, ElasticCase):
    def start_job(self, *words, nnodes="1:2"):
        self.port = free_port()
        self.agents_of_job = [self.add(0, *words, nnodes=nnodes)]
        self.agents_of_job[0].says("waiting for ")
        self.agents_of_job.append(self.add(1, *words, nnodes=nnodes))

    def add(self, rank, *words, nnodes="1:2"):
        """With ranks of their own each is judged by its own failures."""
        return self.join("elastic_shrinking.py", *words, nnodes=nnodes, host="ab"[rank], restarts=3,
                         options=("--restart-delay=0", "--node-rank", str(rank)))

    def await_world(self, size, after=0):
        return super().await_world(size, after, GUARD)

    def kill(self, ranks, rank):
        os.kill(ranks[rank], signal.SIGKILL)
        return time.monotonic()

    def assert_next_step(self, generation, killed):
        first = min(float(words[-1]) for number, _, *words in self.noted("stepped") if number == generation)
        print(f"the survivors' next step came {first - killed:.3f} s after the kill", flush=True)

    def await_epoch(self):
        wait_until(lambda: any(int(epoch) > 0 for _, _, _, _, epoch, *_ in self.noted("stepped")),
                   "an epoch is over", GUARD)

    def finish(self):
        self.make_file("job/finish")
        ends = self.ends(self.agents_of_job)
        self.assertEqual(len(ends), 4)
        self.assertEqual(len(set(ends.values())), 1, ends)
        return ends

    def assert_each_sample_once(self, batch=None, of_all=None):
        """In each epoch that is over; and a step takes as many as it should."""
        steps = {}
        for _, _, step, world, epoch, before, after, _ in self.noted("stepped"):
            step, world, epoch, before, after = map(int, (step, world, epoch, before, after))
            self.assertEqual(steps.setdefault(step, (epoch, before, after)), (epoch, before, after), step)
            self.assertEqual(after - before, min(batch * world if batch else of_all, SIZE - before))
        self.assertEqual(sorted(steps), list(range(1, max(steps) + 1)))
        place = (0, 0)
        for _, (epoch, before, after) in sorted(steps.items()):
            self.assertEqual((epoch, before), place if place[1] < SIZE else (place[0] + 1, 0))
            place = epoch, after
        self.assertGreater(place[0], 0, "not one epoch is over")

    def test_the_other_node_goes_on_at_once_and_the_node_is_back_when_it_is_complete(self):
        self.start_job("batch")
        at, before = self.await_world(4)
        killed = self.kill(before, 3)
        small, alone = self.await_world(2, at)
        self.assert_next_step(small, killed)
        self.assertEqual(alone, {rank: before[rank] for rank in (0, 1)})
        _, after = self.await_world(4, small)
        self.assertEqual({rank: after[rank] for rank in (0, 1, 2)}, {rank: before[rank] for rank in (0, 1, 2)})
        self.assertFalse(alive(before[3]))
        self.await_epoch()
        self.assertEqual(set(self.finish()), set(after.values()))
        self.assert_each_sample_once(batch=3)
        first = self.agents_of_job[0].stderr
        self.assertEqual(first.count("has all of its workers again"), 1, first)
        self.assertIn("restart 1 of 3", first)

    def test_after_a_kill_while_the_job_has_shrunk_all_come_together_again(self):
        self.start_job("global")
        at, before = self.await_world(4)
        self.kill(before, 3)
        small, alone = self.await_world(2, at)
        self.kill(alone, 1)
        self.await_world(4, small)
        self.await_epoch()
        self.finish()
        self.assert_each_sample_once(of_all=12)

    def test_a_node_whose_rank_cannot_be_started_again_is_not_left_out_for_ever(self):
        self.start_job("batch", "fails")
        at, before = self.await_world(4)
        self.make_file("job/fails")
        self.kill(before, 3)
        self.agents_of_job[1].says("a restarted worker has ended")
        self.await_world(4, at)
        self.finish()
        self.assertIn("restart 1 of 3", self.agents_of_job[0].stderr)
        self.assertNotIn("restart 2 of 3", self.agents_of_job[0].stderr)

    def test_a_node_that_is_lost_holds_nobody_up_either_and_another_one_takes_its_place(self):
        self.start_job("batch")
        at, before = self.await_world(4)
        killed = time.monotonic()
        os.kill(self.agents_of_job[1].agent_pid(), signal.SIGKILL)
        small, alone = self.await_world(2, at)
        self.assert_next_step(small, killed)
        self.assertEqual(set(alone.values()), {before[0], before[1]})
        self.agents_of_job[1].wait()
        self.agents_of_job[1] = self.add(1, "batch")
        _, after = self.await_world(4, small)
        self.assertEqual({after[0], after[1]}, {before[0], before[1]})
        self.await_epoch()
        self.finish()
        self.assert_each_sample_once(batch=3)

    def test_with_a_fixed_size_it_is_said_once_and_all_wait(self):
        self.start_job("batch", nnodes="2")
        at, before = self.await_world(4)
        self.kill(before, 3)
        _, after = self.await_world(4, at)
        self.assertEqual(len(set(before.values()) & set(after.values())), 3)
        self.finish()
        said = "".join(agent.stderr for agent in self.agents_of_job)
        self.assertEqual(said.count('policy "shrink" has no effect with --nnodes 2: '), 1, said)
        self.assertNotIn("continues without", said)


if __name__ == "__main__":
    jobs.main()
