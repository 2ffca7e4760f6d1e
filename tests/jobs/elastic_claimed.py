"""Elastic(device=DEVICE) where there is no GPU: with CXXRUN_CLAIMED tensors of the CPU are taken for the device's, by
libcuda_double.so, while libcxxrun looks where they lie. Else DEVICE is None. There are no streams: where one would wait
for a call the host does; with CXXRUN_CLAIMED=late nobody does before the update. With CXXRUN_CLAIMED=staged DEVICE is
None, and the host carries tensors of the CPU as if they were on a device."""
import ctypes
import os
import threading

import torch

from cxxrun.torch import _device

HOW = os.environ.get("CXXRUN_CLAIMED")
DEVICE = "cuda" if HOW in ("yes", "late") else None


class Event:
    def synchronize(self):
        """All has been done when it was queued."""


class Claimed(_device.Cuda):
    def __init__(self):
        self._claim = ctypes.CDLL(None).cxxrun_cuda_double_claim
        self._claim.argtypes, self._claim.restype = [ctypes.c_void_p, ctypes.c_size_t], None
        self._lock = threading.Lock()

    def choose(self, local_rank):
        self.device = torch.device("cpu")

    def carries(self, tensor):
        return tensor.numel() > 0

    def is_elsewhere(self, tensor):
        return False

    def begin(self, call, tensors, after):
        for its in after:
            its.wait()
        with self._lock:
            for each in tensors:
                self._claim(each.data_ptr(), each.numel() * each.element_size())
            try:
                return call(0)
            finally:
                for each in tensors:
                    self._claim(each.data_ptr(), 0)

    def let_wait(self, its, stream=None):
        if HOW != "late":
            its.wait()

    def future(self, result, let_wait):
        let_wait(None)
        future = torch.futures.Future()
        future.set_result(result)
        return future

    def after(self, calls):
        for its in calls:
            if its.error is not None:  # known already
                raise its.error
            while not its.is_done(100):
                pass

    def pinned_zero(self):
        return torch.zeros(())

    def event(self):
        return Event()

    def make_room(self):
        pass

    def settle(self):
        pass


class Staged(_device.Host):
    def stages(self, tensor):
        return True


if HOW is not None:
    of = _device.of
    _device.of = lambda device: Claimed() if device == DEVICE == "cuda" else Staged() if HOW == "staged" else of(device)
