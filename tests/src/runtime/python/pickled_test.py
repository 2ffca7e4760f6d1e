"""cxxrun.torch._pickled: the state that ranks give each other, and bytes that somebody else has put in its place.
Usage: pickled_test.py LIBCXXRUN_C"""
import collections
import functools
import io
import os
import pathlib
import pickle
import random
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "src/runtime/python"))
os.environ["CXXRUN_LIBRARY"] = sys.argv.pop(1)
try:
    import torch
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(77)

import cxxrun
from cxxrun import _lib
from cxxrun.torch import _pickled, _state
from cxxrun.torch._pickled import packed, unpacked

NUMPY = sys.modules.get("numpy")  # torch imports it where it is


class Calls:
    def __init__(self, function=os.mkdir, *arguments):
        self.made = function, arguments or ("/nonexistent/called",)

    def __reduce__(self):
        return self.made


def archive(state):
    """What somebody else writes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as whole:
        whole.writestr("archive/data.pkl", pickle.dumps([state], protocol=2))
    return file.getvalue()


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
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        state = {"model": model.state_dict(), "adam": adam.state_dict(),
                 "one": _state.of(torch.optim.lr_scheduler.OneCycleLR(adam, 0.1, total_steps=10)),
                 "cyclic": _state.of(torch.optim.lr_scheduler.CyclicLR(sgd, 0.01, 0.1)),
                 "random": random.getstate(), "of_torch": torch.get_rng_state(), "half": torch.ones(2, dtype=torch.bfloat16),
                 "rest": [b"\xff\x00", {1, 2}, 1j, torch.float16, torch.device("cpu"), torch.Size([2]), None, torch.empty(0),
                          collections.defaultdict(list, a=[1]), torch.ones(2, 2).to_sparse()]}
        if NUMPY:
            state["numpy"] = [NUMPY.float64(3), NUMPY.random.get_state(), NUMPY.ones(3, dtype="i4")]
        again = unpacked(packed(state))
        self.assertEqual(str(again), str(state))
        self.assertEqual(again["model"]._metadata, state["model"]._metadata)

    @unittest.skipUnless(NUMPY, "no numpy")
    def test_arrays_of_numbers_and_texts_come_back_as_they_were(self):
        arrays = [NUMPY.float64(3), NUMPY.bool_(True), NUMPY.arange(6).reshape(2, 3).T, NUMPY.ones((2, 3), order="F"),
                  NUMPY.zeros((0, 2)), NUMPY.array(5, dtype=">i2"), NUMPY.array("2020-01-01", dtype="M8[D]"),
                  NUMPY.array(["ab", "c"])]
        for was, now in zip(arrays, unpacked(packed(arrays))):
            of_now, of_was = ((type(each), each.dtype, each.shape, each.tolist()) for each in (now, was))
            self.assertEqual(of_now, of_was)
            self.assertTrue(type(now) is not NUMPY.ndarray or now.flags.writeable)

    @unittest.skipUnless(NUMPY, "no numpy")
    def test_structured_and_object_arrays_are_named_when_they_are_given(self):
        structured = NUMPY.zeros(2, dtype=[("a", "i8")])
        for array in (NUMPY.array([object()]), structured, structured[0], NUMPY.zeros(1, dtype=[("a", "O")])[0]):
            with self.assertRaisesRegex(cxxrun.RefusedError, "the state holds an array of "):
                packed({"a": array})

    @unittest.skipUnless(NUMPY, "no numpy")
    def test_no_bytes_become_an_address_of_an_object_in_an_array(self):
        """numpy takes them for one. Those of address 0 it reads as None, so that this process outlives a failure."""
        null = bytearray(8)
        hidden = Calls(NUMPY.dtype, "V8", False, True)
        hidden.made += ((3, "|", None, ("a",), {"a": (NUMPY.dtype("O"), 0)}, 8, 1, 0),)
        for kind in (NUMPY.dtype("O"), hidden):
            self.check_refused(archive(Calls(NUMPY.ndarray, (1,), kind, null)), "the state holds numpy.")
        scalar, array = NUMPY.float64(3).__reduce__()[0], _pickled._array
        self.check_refused(archive(Calls(scalar, hidden, bytes(null))), "the state holds numpy.")
        for name in ("O", "i8,O", "(1,)O", "i4,i4"):
            self.check_refused(archive(Calls(array, name, (1,), bytes(null), False)), "the state holds an array of ")
        for shape in ((2,), (1 << 62, 8)):
            self.check_refused(archive(Calls(array, "i8", shape, bytes(null), False)), "these are no bytes of Elastic's")

    def test_indices_beyond_the_size_of_a_sparse_tensor_are_refused(self):
        unchecked = functools.partial(torch.sparse_coo_tensor, check_invariants=False)
        make = getattr(torch, "_sparse_coo_tensor_unsafe", unchecked)  # torch 1.13
        evil = make(torch.tensor([[1 << 33, 1]]), torch.tensor([1.0, 2.0]), torch.Size([4]))
        self.check_refused(packed({"momentum": evil}), "these are no bytes of Elastic's")

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
