"""The host runs ahead of the device, and a peer dies meanwhile: elastic_gate.py HOW

Two ranks, 6 steps, CXXRUN_CLAIMED=late. In step 3 of generation 1 the stream of rank 0 is held while it makes the backward
pass, and rank 1 dies before the update. HOW: update, rank 0 goes on to it; loss, it looks at what the others should have
added and raises; own, the same in a step in which nobody dies, where it is the script's own; quiet, nothing happens.
Prints "end PID COMPLETED HASH"."""
import ctypes
import hashlib
import os
import signal
import sys

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

import torch.distributed as dist
from cxxrun.torch import Elastic
from elastic_claimed import DEVICE

HOW = sys.argv[1]
torch.set_num_threads(1)
job = Elastic(seed=3, device=DEVICE)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
job.track(model=model, optimizer=optimizer)
ddp = job.wrap(lambda: DDP(model, gradient_as_bucket_view=True))


def is_third():
    return HOW != "quiet" and (job.generation, job.completed) == (1, 3)


def hold():
    """The device has something else to do, in front of what is queued from now on."""
    spin = ctypes.CDLL(None).cxxrun_cuda_double_spin
    spin.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    spin(None, 10 ** 9)


while job.running(6):
    try:
        with job.step():
            optimizer.zero_grad(set_to_none=True)
            loss = ddp(torch.randn(4, 8)).square().mean()
            if is_third() and dist.get_rank() == 0:
                hold()
            loss.backward()
            ranks = torch.ones(1)
            dist.all_reduce(ranks)
            if is_third() and HOW != "own" and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if is_third() and HOW in ("loss", "own") and ranks.item() != 2:
                raise ArithmeticError("this is not the sum")
            optimizer.step()
    except ArithmeticError:
        print(f"{dist.get_rank()} raised in step {job.completed} of generation {job.generation}", flush=True)
        sys.exit(3)
parameters = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
print(f"end {os.getpid()} {job.completed} {hashlib.sha256(parameters).hexdigest()}", flush=True)
