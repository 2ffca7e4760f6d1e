"""cxxrun.torch._pickled: the state that ranks give each other, and bytes that somebody else has put in its place.
Usage: pickled_test.py LIBCXXRUN_C"""
import collections
import io
import os
import pathlib
import pickle
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "src/runtime/python"))
os.environ["CXXRUN_LIBRARY"] = sys.argv.pop(1)
try:
    import torch
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(77)

import cxxrun
from cxxrun import _lib
from cxxrun.torch import _state
from cxxrun.torch._pickled import packed, unpacked


class Calls:
    def __reduce__(self):
        return (os.mkdir, ("/nonexistent/called",))


class Plateau:
    """A scheduler as others write them."""

    def __init__(self):
        self.own, self.method = 3, self.step

    def step(self):
        return self.own

    def state_dict(self):
        return dict(vars(self))


class Pickled(unittest.TestCase):
    def check_refused(self, data, why):
        with self.assertRaisesRegex(_lib.Failure, why) as told:
            unpacked(data)
        self.assertEqual(told.exception.status, _lib.USAGE)

    def test_what_models_optimizers_and_programs_keep_comes_back_as_it_was(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        adam = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 3)).sum().backward()
        adam.step()
        state = {"model": model.state_dict(), "adam": adam.state_dict(),
                 "one": _state.of(torch.optim.lr_scheduler.OneCycleLR(adam, 0.1, total_steps=10)),
                 "random": random.getstate(), "of_torch": torch.get_rng_state(), "half": torch.ones(2, dtype=torch.bfloat16),
                 "rest": [b"\xff\x00", {1, 2}, 1j, torch.float16, torch.device("cpu"), torch.Size([2]), None, torch.empty(0),
                          collections.defaultdict(list, a=[1]), torch.ones(2, 2).to_sparse()]}
        if "numpy" in sys.modules:
            numpy = sys.modules["numpy"]
            state["numpy"] = [numpy.float64(3), numpy.random.get_state(), numpy.ones(3, dtype="i4")]
        again = unpacked(packed(state))
        self.assertEqual(str(again), str(state))
        self.assertEqual(again["model"]._metadata, state["model"]._metadata)

    def test_two_views_of_one_tensor_are_two_views_again(self):
        whole = torch.arange(6.0)
        first, second = unpacked(packed([whole, whole[2:]]))
        first[2] = 9
        self.assertEqual(second[0], 9)

    def test_an_object_s_own_methods_are_not_of_its_state(self):
        self.assertEqual(_state.of(Plateau()), {"own": 3})

    def test_a_state_that_others_could_not_make_again_is_named_when_it_is_given(self):
        for state in (Calls(), {"a": [os.mkdir]}, Plateau()):
            with self.assertRaisesRegex(cxxrun.RefusedError, "the state holds (posix.mkdir|__main__.Plateau), .*let state_dict"):
                packed(state)

    def test_bytes_of_somebody_else_call_nothing(self):
        ways = {}
        for new in (True, False):
            file = io.BytesIO()
            torch.save({"completed": 1, "state": Calls()}, file, _use_new_zipfile_serialization=new)
            ways[new] = file.getvalue()
        self.check_refused(ways[True], "the state holds posix.mkdir")
        self.check_refused(ways[False], "these are no bytes of Elastic's")
        self.check_refused(pickle.dumps(Calls()), "these are no bytes of Elastic's")

    def test_a_program_of_torchscript_is_not_run(self):
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), file)
        self.check_refused(file.getvalue(), "the state holds __torch__")

    def test_a_cut_file_is_refused(self):
        whole = packed({"weights": torch.ones(1000)})
        for length in range(0, len(whole), 97):
            self.check_refused(whole[:length], "these are no bytes of Elastic's")


unittest.main()
