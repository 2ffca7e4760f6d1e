"""Chooses the samples of each rank, in the order of cxxrun::ElasticSampler (docs/use/sampler.md), and seeds its steps."""
import random
import sys
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler, get_worker_info

from cxxrun import _lib
from cxxrun._errors import RefusedError

_TAILS = {"uneven": 0, "drop": 1, "pad": 2}
_BITS = (1 << 64) - 1


def seed_all(seed: int, step: int, rank: int) -> None:
    """Seeds torch, random and, if it is loaded, numpy for one step of one rank."""
    mixed = seed
    for number in (step, rank):
        mixed = (mixed ^ number) + 0x9E3779B97F4A7C15 & _BITS
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _BITS
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _BITS
        mixed ^= mixed >> 31
    torch.manual_seed(mixed)
    random.seed(mixed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(mixed & 0xFFFFFFFF)


class ElasticSampler(Sampler[List[int]]):
    """Yields each of `size` samples once per epoch, even if the world changes. next() returns this rank's samples of the next
    step: at most `batch`, or its share of `global_batch` for any number of ranks. It starts another epoch when one is over.
    An iterator, such as that of DataLoader(batch_sampler=…), yields the same and ends with the epoch. Once it is given to
    Elastic.track(), samples of a failed step are given back, in iterators, too."""

    def __init__(self, size: int, batch: Optional[int] = None, seed: int = 0, tail: str = "uneven",
                 global_batch: Optional[int] = None) -> None:
        # The base constructor does nothing, and its arguments differ between releases.
        if (batch is None) == (global_batch is None):
            raise RefusedError("ElasticSampler: give batch=, of each rank, or global_batch=, of all ranks together")
        given = batch or global_batch or 0
        if size < 1 or given < 1 or tail not in _TAILS or (tail == "drop" and size < given):
            raise RefusedError(f"ElasticSampler: size {size}, {'batch' if global_batch is None else 'global_batch'} {given}, "
                               f"tail {tail!r}: at least one sample and one per step; tail is one of " + ", ".join(_TAILS))
        self._size, self._batch, self._tail = size, given, _TAILS[tail]
        self._is_global, self._weight = batch is None, 1.0
        self._seed, self._epoch, self._consumed = seed, 0, 0
        self.before_next: Optional[Callable[[], None]] = None  # set by Elastic, which may refuse the call

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def weight(self) -> float:
        """The factor for the mean loss of this rank's samples in this step. With it, DDP's mean over ranks is the mean over all
        samples. It is 1 if all ranks have the same number of samples."""
        return self._weight

    def next(self) -> List[int]:
        samples = self._rest_of_the_epoch()
        if samples is None:
            self._epoch, self._consumed = self._epoch + 1, 0
            samples = self._rest_of_the_epoch()
        if samples is None:
            raise RefusedError(f"ElasticSampler: {self._size} samples are less than a step of {dist.get_world_size()} ranks "
                               f"with a batch of {self._batch}, and tail 'drop' leaves all of them out")
        return samples

    def _rest_of_the_epoch(self) -> Optional[List[int]]:
        """Returns this rank's samples of the next step, or None if the epoch has no step left: it is over, or fewer samples are
        left than a step of a grown world takes, and tail 'drop' leaves them out."""
        if self.before_next is not None:
            self.before_next()
        if self._consumed == self._size:
            return None
        left = self._size - self._consumed
        samples, self._consumed = self._after(self._epoch, self._consumed)
        if samples is not None:
            ranks = dist.get_world_size()
            step = self._batch if self._is_global else self._batch * ranks
            self._weight = len(samples) * ranks / (min(step, left) if self._tail == _TAILS["uneven"] else step)
        return samples

    def _after(self, epoch: int, consumed: int) -> Tuple[Optional[List[int]], int]:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if self._is_global and self._batch < ranks:
            raise RefusedError(f"ElasticSampler: global_batch {self._batch} is less than one sample for each of {ranks} ranks")
        me, of = (0, 1) if self._is_global else (rank, ranks)
        samples, (_, _, consumed) = _lib.sampler_next((self._seed, epoch, consumed), self._size, self._tail, me, of, self._batch)
        if self._tail == _TAILS["drop"] and not samples:
            return None, consumed
        return samples[len(samples) * rank // ranks:len(samples) * (rank + 1) // ranks] if self._is_global else samples, consumed

    def __iter__(self) -> Iterator[List[int]]:
        # A DataLoader's iterator calls this when it is made, before it starts its workers, and when it starts again.
        its = sys._getframe(1).f_locals
        loader, iterator = its.get("loader"), its.get("self")
        # Next it draws a seed for those workers. A newcomer in the middle of an epoch would draw it from the generator of
        # its first step, and the other ranks would not.
        if isinstance(loader, DataLoader) and loader.generator is None:
            loader.generator = torch.Generator()
        if getattr(iterator, "_num_workers", 0):
            return _Ahead(self, iterator, loader)
        return self._to_the_end_of_the_epoch()

    def _to_the_end_of_the_epoch(self) -> Iterator[List[int]]:
        samples: Optional[List[int]] = self.next()
        while samples is not None:
            yield samples
            samples = self._rest_of_the_epoch()

    def state_dict(self) -> Dict[str, int]:
        return {"seed": self._seed, "epoch": self._epoch, "consumed": self._consumed, "size": self._size}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if state["size"] != self._size:
            raise RefusedError(f"ElasticSampler: the state is of {state['size']} samples, not {self._size}")
        self._seed, self._epoch, self._consumed = state["seed"], state["epoch"], state["consumed"]


class _Seeded(List[int]):
    """The samples of a step on their way to a DataLoader worker. Iterating seeds the random generators of the worker, so that
    the samples get the same random numbers in every run, whichever worker reads them."""

    seeds = (0, 0, 0)

    def __iter__(self) -> Iterator[int]:
        if get_worker_info() is not None:
            seed_all(*self.seeds)
        return super().__iter__()


class _Ahead:
    """Samples that a DataLoader with workers takes ahead of the steps. They are not part of the sampler's state, which moves on
    when the script gets a batch. After a step was taken back, and in another world, the samples of the next step differ from
    those taken ahead; then the iterator starts again from the sampler's state, with its workers."""

    def __init__(self, sampler: ElasticSampler, iterator: Any, loader: Any) -> None:
        self._sampler, self._iterator = sampler, weakref.ref(iterator)
        # A DataLoader with persistent workers keeps its iterator, and with it this object.
        self._loader = weakref.ref(loader) if loader.persistent_workers else lambda: loader
        self._epoch, self._consumed = sampler._epoch, sampler._consumed
        self._taken: Deque[List[int]] = deque()
        self._begun = False
        iterator._next_data = self._next_data

    def __iter__(self) -> "_Ahead":
        return self

    def __next__(self) -> List[int]:
        its = self._sampler
        samples = None if self._consumed == its._size else self._take()
        if samples is None and not self._taken and not self._begun:
            self._epoch, self._consumed = self._epoch + 1, 0
            samples = self._take()
        if samples is None:
            raise StopIteration
        self._taken.append(samples)
        return samples

    def _take(self) -> Optional[List[int]]:
        place = self._epoch * self._sampler._size + self._consumed
        samples, self._consumed = self._sampler._after(self._epoch, self._consumed)
        if samples is None:
            return None
        seeded = _Seeded(samples)
        seeded.seeds = (self._sampler._seed, place, dist.get_rank())
        return seeded

    def _next_data(self) -> Any:
        its, iterator = self._sampler, self._iterator()
        if not getattr(iterator, "_in_order", True):
            raise RefusedError("ElasticSampler: a DataLoader with in_order=False gives a step the samples of another one: "
                               "in_order=True")
        before = its._epoch, its._consumed
        samples = its._rest_of_the_epoch() if self._begun else its.next()
        self._begun = True
        if samples is not None and (not self._taken or self._taken[0] != samples):
            its._epoch, its._consumed = before
            iterator._reset(self._loader())  # makes another _Ahead
            return iterator._next_data()
        if samples is not None:
            self._taken.popleft()
        elif self._taken:
            raise StopIteration
        return type(iterator)._next_data(iterator)
