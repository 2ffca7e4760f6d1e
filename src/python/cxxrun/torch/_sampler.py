"""Which samples a rank takes: the order of cxxrun::ElasticSampler, docs/use/sampler.md."""
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler

from cxxrun import _lib

_TAILS = {"uneven": 0, "drop": 1, "pad": 2}


class ElasticSampler(Sampler[List[int]]):
    """Each of `size` samples once per epoch, whatever becomes of the world. next() gives this rank's samples of the
    next step, at most `batch`, and begins another epoch where one is over. An iterator, such as
    DataLoader(batch_sampler=…) makes, gives the same and ends with the epoch. Given to Elastic.track(), a step that
    failed is taken back, in iterators too."""

    def __init__(self, size: int, batch: int, seed: int = 0, tail: str = "uneven") -> None:
        # torch's own does nothing, and takes other arguments in each release.
        if size < 1 or batch < 1 or tail not in _TAILS or (tail == "drop" and size < batch):
            raise ValueError(f"ElasticSampler: size {size}, batch {batch}, tail {tail!r}: at least one sample and one "
                             "per step; tail is one of " + ", ".join(_TAILS))
        self._size, self._batch, self._tail = size, batch, _TAILS[tail]
        self._seed, self._epoch, self._consumed = seed, 0, 0
        self.before_next: Optional[Callable[[], None]] = None  # Elastic's, which may refuse it

    @property
    def epoch(self) -> int:
        return self._epoch

    def next(self) -> List[int]:
        samples = self._rest_of_the_epoch()
        if samples is None:
            self._epoch, self._consumed = self._epoch + 1, 0
            samples = self._rest_of_the_epoch()
        if samples is None:
            raise ValueError(f"ElasticSampler: {self._size} samples are less than a step of {dist.get_world_size()} ranks "
                             f"with a batch of {self._batch}, and tail 'drop' leaves all of them out")
        return samples

    def _rest_of_the_epoch(self) -> Optional[List[int]]:
        """This rank's of the next step; None where the epoch has none: it is over, or what is left, since there are more
        ranks than before, is less than a whole step, which tail 'drop' leaves out."""
        if self.before_next is not None:
            self.before_next()
        if self._consumed == self._size:
            return None
        samples, (_, _, self._consumed) = _lib.sampler_next(
            (self._seed, self._epoch, self._consumed), self._size, self._tail, dist.get_rank(), dist.get_world_size(),
            self._batch)
        return None if self._tail == _TAILS["drop"] and not samples else samples

    def __iter__(self) -> Iterator[List[int]]:
        # A DataLoader's iterator asks when it is made, before it starts its workers.
        its = sys._getframe(1).f_locals
        if getattr(its.get("self"), "_num_workers", 0):
            raise NotImplementedError("ElasticSampler: a DataLoader with num_workers takes samples ahead, and a step that "
                                      "fails could not give them back: num_workers=0")
        # It draws a number for those workers next. A newcomer, in the middle of an epoch, would draw it from the numbers
        # of its first step, and the other ranks would not.
        loader = its.get("loader")
        if isinstance(loader, DataLoader) and loader.generator is None:
            loader.generator = torch.Generator()
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
            raise ValueError(f"ElasticSampler: the state is of {state['size']} samples, not {self._size}")
        self._seed, self._epoch, self._consumed = state["seed"], state["epoch"], state["consumed"]
