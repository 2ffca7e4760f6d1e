"""A DDP training that survives: elastic_trainer.py STEPS [die=RANK:STEP:WHERE]… [WHAT=RANK:STEP:WHERE] [save] [install].

WHERE: forward, backward, update, half (of the update), metrics (after it) or between. There the rank kills itself with
SIGKILL, the n-th time in generation n, or, in the first one, tells its agent to end (WHAT is term) or waits for ever
(hang). `save`: saves when it is wanted and after 5 steps, and goes on from there. `install`: with what scripts that do not
survive call.

Notes "GENERATION RANK WORD…" in $DIR/events: `stepped PID STEP` once in each generation, `saved STEP`. Prints
"end PID STEP HASH" of the parameters and, on rank 0, "averages HASH" of BatchNorm's."""
import hashlib
import os
import signal
import sys

import threading

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

import torch.distributed as dist
import cxxrun
from cxxrun.torch import Elastic, ElasticSampler

STEPS = int(sys.argv[1])
FALLS = [word[4:] for word in sys.argv if word.startswith("die=")]
TOLD = [word[5:] for word in sys.argv if word.startswith("term=")]
HANGS = [word[5:] for word in sys.argv if word.startswith("hang=")]
SAVES, INSTALLS = "save" in sys.argv, "install" in sys.argv
torch.set_num_threads(1)


def note(*words):
    with open(os.path.join(os.environ["DIR"], "events"), "a") as file:
        file.write(" ".join(map(str, (job.generation, dist.get_rank(), *words))) + "\n")


def fall(where):
    here = f"{dist.get_rank()}:{job.completed}:{where}"
    if here in FALLS[job.generation - 1:job.generation]:
        os.kill(os.getpid(), signal.SIGKILL)
    if here in TOLD and job.generation == 1:
        os.kill(os.getppid(), signal.SIGTERM)
    if here in HANGS and job.generation == 1:
        threading.Event().wait()  # hangs


class Branches(torch.nn.Module):
    """With BatchNorm buffers, dropout, and a branch that not every rank uses."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.Tanh(),
                                         torch.nn.Dropout())
        self.left, self.right = torch.nn.Linear(32, 4), torch.nn.Linear(32, 4)

    def forward(self, x):
        hidden = self.first(x)
        return self.left(hidden) if (job.completed + dist.get_rank()) % 3 else self.left(hidden) + self.right(hidden)


class Falls(torch.autograd.Function):
    """In the middle of a backward pass."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        fall("backward")
        return gradient


if INSTALLS:
    assert cxxrun.install()
torch.manual_seed(1)
inputs, labels = torch.randn(512, 16), torch.randint(0, 4, (512,))
job = Elastic(checkpoint=os.path.join(os.environ["DIR"], "checkpoint") if SAVES else None, seed=3)
torch.manual_seed(1 if job.generation == 1 else os.getpid())  # whoever is new knows nothing of the state
model = Branches()
optimizer = torch.optim.AdamW(model.first.parameters(), lr=0.01)
heads = torch.optim.SGD([*model.left.parameters(), *model.right.parameters()], lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
data = ElasticSampler(len(inputs), batch=8)
job.track(model=model, optimizer=optimizer, heads=heads, schedule=schedule, data=data)
ddp = job.wrap(lambda: DDP(model, find_unused_parameters=True, bucket_cap_mb=0.001))
seen = 0
while job.running(STEPS):
    rank = dist.get_rank()
    with job.step():
        samples = data.next()
        fall("forward")
        hidden = ddp(inputs[samples])
        loss = torch.nn.functional.cross_entropy(Falls.apply(hidden), labels[samples])
        model.zero_grad(set_to_none=True)
        loss.backward()
        fall("update")
        optimizer.step()
        schedule.step()
        fall("half")
        if any("half" in place for place in FALLS):  # the others notice it there, with half an update done
            dist.barrier()
        heads.step()
        fall("metrics")
        dist.all_reduce(loss.detach())
    fall("between")
    if INSTALLS:
        cxxrun.step(job.completed)
    if job.generation != seen:
        seen = job.generation
        note("stepped", os.getpid(), job.completed)
    if SAVES and (job.checkpoint_wanted() or job.completed == 5):
        job.save()
        note("saved", job.completed)


def digest(tensors):
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()


print(f"end {os.getpid()} {job.completed} {digest(model.parameters())}", flush=True)
if rank == 0:
    print(f"averages {digest(model.buffers())}", flush=True)
