"""The random numbers of a step."""
import random
import sys

import torch

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
