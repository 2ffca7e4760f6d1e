"""A DataLoader with workers over an ElasticSampler: a step that is taken back gets its samples again, with the same random
numbers, and the sampler's state is that of the steps. Usage: loader_test.py LIBRARY"""
import itertools
import os
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "src/runtime/python"))

os.environ["CXXRUN_LIBRARY"] = sys.argv.pop(1)
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from cxxrun.torch import ElasticSampler

SIZE, BATCH, STEPS = 22, 3, 17  # two epochs and a part of a third


class Noisy(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        if index < 0:
            raise ValueError("no such sample")
        return torch.cat([torch.tensor([float(index)]), torch.rand(2)])


def batches(data, workers=2, **more):
    loader = DataLoader(Noisy(), batch_sampler=data, num_workers=workers, multiprocessing_context="fork" if workers else None,
                        **more)
    return itertools.chain.from_iterable(itertools.repeat(loader))


def run(data, order, steps=STEPS, fails=()):
    """What each step was given, when those of `fails` are taken back once."""
    given, fails = [], set(fails)
    while len(given) < steps:
        before = data.state_dict()
        batch = next(order)
        if len(given) in fails:
            fails.remove(len(given))
            data.load_state_dict(before)
        else:
            given.append(batch)
    return given


class Loader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def sampler(self, **more):
        return ElasticSampler(SIZE, BATCH, seed=7, **more)

    def as_of(self, rank, ranks, data):
        with mock.patch("torch.distributed.get_rank", return_value=rank), \
                mock.patch("torch.distributed.get_world_size", return_value=ranks):
            return data.next(), data.weight

    def test_a_step_of_all_ranks_together_takes_the_same_samples_in_each_world_and_weighs_each_alike(self):
        data, alone = ElasticSampler(SIZE, global_batch=5, seed=7), ElasticSampler(SIZE, 5, seed=7)
        for ranks in 2, 3, 5, 4, 1:  # the last step of the epoch is one of 2 samples
            before, taken = data.state_dict(), []
            for rank in range(ranks):
                data.load_state_dict(before)
                samples, weight = self.as_of(rank, ranks, data)
                taken += [(sample, weight / ranks / len(samples)) for sample in samples]
            expected = alone.next()
            self.assertEqual([sample for sample, _ in taken], expected)
            for _, counts in taken:
                self.assertAlmostEqual(counts, 1 / len(expected))

    def test_an_epoch_that_ends_unevenly_weighs_its_samples_alike_with_a_batch_per_rank_too(self):
        data = ElasticSampler(5, 2)
        self.assertEqual(self.as_of(0, 2, data)[1], 1)
        self.assertEqual([self.as_of(0, 2, data)[1], len(data.next())], [2, 2])  # one sample, and rank 1 has none

    def test_batches_that_cannot_be_meant_are_refused(self):
        for more in {}, {"batch": 2, "global_batch": 4}, {"global_batch": 0}, {"batch": 0}, {"batch": -1}:
            with self.assertRaises(NotImplementedError, msg=more):
                ElasticSampler(SIZE, **more)
        with self.assertRaisesRegex(NotImplementedError, "less than one sample for each of 6 ranks"):
            self.as_of(0, 6, ElasticSampler(SIZE, global_batch=5))

    def assert_same(self, one, other):
        self.assertEqual([batch.tolist() for batch in one], [batch.tolist() for batch in other])

    def test_samples_are_those_that_the_sampler_gives_by_itself(self):
        for tail in "drop", "pad":
            with self.subTest(tail=tail):
                alone, data = self.sampler(tail=tail), self.sampler(tail=tail)
                given = run(data, batches(data))
                self.assertEqual([batch[:, 0].int().tolist() for batch in given], [alone.next() for _ in given])
                self.assertEqual(data.state_dict(), alone.state_dict())  # and not of what was taken ahead

    def test_steps_that_are_taken_back_get_their_samples_and_random_numbers_again(self):
        data = self.sampler()
        undisturbed = run(data, batches(data))
        for more in {}, {"persistent_workers": True}, {"workers": 3, "prefetch_factor": 1}:
            with self.subTest(**more):
                data = self.sampler()
                self.assert_same(run(data, batches(data, **more), fails=[0, 1, 7, 8, 14, 16]), undisturbed)

    def test_a_newcomer_goes_on_where_the_others_are(self):
        data = self.sampler()
        undisturbed = run(data, batches(data))
        first, second = self.sampler(), self.sampler()
        given = run(first, batches(first), steps=5)
        second.load_state_dict(first.state_dict())
        self.assert_same(given + run(second, batches(second), steps=STEPS - 5), undisturbed)

    def test_an_error_in_a_worker_passes_and_the_step_may_be_done_again(self):
        data = self.sampler()
        order = batches(data)
        next(order)
        before, after = data.state_dict(), data._after
        data._after = lambda *place: ([-1], after(*place)[1])
        with self.assertRaisesRegex(ValueError, "no such sample"):
            for _ in range(9):
                next(order)
        del data._after
        data.load_state_dict(before)
        alone = self.sampler()
        alone.load_state_dict(before)
        self.assertEqual(next(order)[:, 0].int().tolist(), alone.next())

    def test_samples_between_steps_are_refused_as_without_workers(self):
        data = self.sampler()

        def refuse():
            raise RuntimeError("within step()")

        data.before_next = refuse
        with self.assertRaisesRegex(RuntimeError, "within step"):
            next(batches(data))

    def test_batches_out_of_order_are_refused(self):
        try:
            loader = DataLoader(Noisy(), batch_sampler=self.sampler(), num_workers=1, in_order=False,
                                multiprocessing_context="fork")
        except TypeError:
            self.skipTest("this PyTorch has no in_order")
        with self.assertRaisesRegex(NotImplementedError, "in_order=True"):
            next(iter(loader))


if __name__ == "__main__":
    unittest.main()
