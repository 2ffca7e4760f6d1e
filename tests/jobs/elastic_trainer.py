"""A DDP training that survives: elastic_trainer.py STEPS [die=RANK:STEP:WHERE]… [WHAT=RANK:STEP:WHERE] [save] [install]
[wide] [fused] [gloo] [workers].

WHERE: forward, backward, map (of used parameters, torch's last all-reduce in a backward pass), metrics (before that of
the loss), update, half (of it), after (it) or between; a number: so many microseconds after the step has begun, wherever
that is. STEP counts from the first one of the generation. There the rank kills itself with SIGKILL or waits for ever (WHAT
is hang), the n-th time in generation n, or, in the first one, tells its agent to end (term) or kills it (node).
`save`: saves when it is wanted and after 5 steps, and goes on from there. `install`: with what scripts that do not survive
call. `wide`: with a bucket that moves to memory that the ranks share; it knows no `map`. `fused`: with optimizers that leave
out an update where they are told so. `gloo`: with torch's own groups, and what they alone carry; no `map` either, but
`connect`, where the ranks of a generation connect, as STEP 0. `workers`: with a DataLoader that has workers, which draw
random numbers.

Notes "GENERATION RANK WORD…" in $DIR/events, each with the time: in each generation once `met PID STEP` and
`stepped STEP`, `falls`, and `saved STEP`. Prints "end PID STEP HASH" of the parameters and, on rank 0, "averages HASH"
of BatchNorm's."""
import contextlib
import ctypes
import gc
import hashlib
import itertools
import os
import signal
import sys
import threading
import time

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

import torch.distributed as dist
import cxxrun
from cxxrun.torch import Elastic, ElasticSampler
from cxxrun.torch._group import Group
from elastic_claimed import DEVICE

STEPS = int(sys.argv[1])
FALLS = [word[4:] for word in sys.argv if word.startswith("die=")]
TOLD = [word[5:] for word in sys.argv if word.startswith("term=")]
NODES = [word[5:] for word in sys.argv if word.startswith("node=")]
HANGS = [word[5:] for word in sys.argv if word.startswith("hang=")]
SAVES, INSTALLS, WIDE = "save" in sys.argv, "install" in sys.argv, "wide" in sys.argv
GLOO, WORKERS = "gloo" in sys.argv, "workers" in sys.argv
FUSED = {"fused": True} if "fused" in sys.argv else {}
WIDTH = 8192 if WIDE else 32
torch.set_num_threads(1)
collect = gc.collect


def told_collect(*arguments):
    """While one of those lasts, the others wait."""
    note("collected")
    return collect(*arguments)


gc.collect = told_collect


def note(*words, at=0.0):
    with open(os.path.join(os.environ["DIR"], "events"), "a") as file:
        file.write(" ".join(map(str, (job.generation, dist.get_rank(), *words, at or time.monotonic()))) + "\n")


def die_after(microseconds):
    """The kernel kills this process then, whatever it is in."""
    event = (ctypes.c_int * 16)(0, 0, signal.SIGKILL)  # struct sigevent: SIGEV_SIGNAL
    timer, spec = ctypes.c_void_p(), (ctypes.c_long * 4)(0, 0, *divmod(max(microseconds, 1) * 1000, 10 ** 9))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) or libc.timer_settime(timer, 0, spec, None):
        raise OSError(ctypes.get_errno(), "timer")


def is_at(place, where):
    rank, step, wanted = place.split(":")
    return (dist.get_rank(), job.completed - first, where) == (int(rank), int(step), wanted)


def fall(where):
    for place in FALLS[job.generation - 1:job.generation]:
        moment = place.split(":")[2]
        if where == "forward" and moment.isdigit() and is_at(place, moment):
            note("falls", at=time.monotonic() + int(moment) / 1e6)
            die_after(int(moment))
        if is_at(place, where):
            note("falls")
            os.kill(os.getpid(), signal.SIGKILL)
        if where == "between" and moment.isdigit() and job.completed == STEPS and int(place.split(':')[0]) == rank:
            signal.pause()  # the moment comes
    if job.generation == 1 and any(is_at(place, where) for place in NODES):
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    if job.generation == 1 and any(is_at(place, where) for place in TOLD):
        os.kill(os.getppid(), signal.SIGTERM)
    if any(is_at(place, where) for place in HANGS[job.generation - 1:job.generation]):
        note("falls")
        threading.Event().wait()  # hangs


class Branches(torch.nn.Module):
    """With BatchNorm buffers, dropout, and a branch that not every rank uses."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(16, WIDTH), torch.nn.BatchNorm1d(WIDTH), torch.nn.Tanh(),
                                         torch.nn.Dropout())
        self.left, self.right = torch.nn.Linear(WIDTH, 4), torch.nn.Linear(WIDTH, 4)

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


def all_reduce(group, tensors, options=None):
    if tensors[0].dtype == torch.int32:  # the map: all gradients are through
        for work in begun:
            with contextlib.suppress(RuntimeError):  # the reducer tells of it
                work.wait()
        fall("map")
        begun.clear()
    begun.append(its_all_reduce(group, tensors, options))
    return begun[-1]


def dying(reconfigure):
    """Where the ranks of a generation connect, which not all of them can do then."""
    def call(uuid, **named):
        if any(place == os.environ["RANK"] + ":0:connect" for place in FALLS[uuid - 1:uuid]):
            os.kill(os.getpid(), signal.SIGKILL)
        return reconfigure(uuid=uuid, **named)

    return call


begun, its_all_reduce = [], Group.allreduce
if not WIDE and not GLOO:  # a bucket is known by who calls
    Group.allreduce = all_reduce
if GLOO:
    dist._reconfigure = dying(dist._reconfigure)
if INSTALLS:
    assert cxxrun.install()
torch.manual_seed(1)
inputs, labels = torch.randn(512, 16), torch.randint(0, 4, (512,))
job = Elastic(checkpoint=os.path.join(os.environ["DIR"], "checkpoint") if SAVES else None, seed=3,
              backend="gloo" if GLOO else None, device=DEVICE)
torch.manual_seed(1 if job.generation == 1 else os.getpid())  # whoever is new knows nothing of the state
model = Branches()
optimizer = torch.optim.AdamW(model.first.parameters(), lr=0.01, **FUSED)
heads = torch.optim.SGD([*model.left.parameters(), *model.right.parameters()], lr=0.1, momentum=0.9, **FUSED)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
data = ElasticSampler(len(inputs), batch=8)


class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return len(inputs)

    def __getitem__(self, index):
        return index, torch.rand(1) if WORKERS else torch.zeros(1)


loader = torch.utils.data.DataLoader(Noisy(), batch_sampler=data, num_workers=2 if WORKERS else 0,
                                     multiprocessing_context="fork" if WORKERS else None)
order = itertools.chain.from_iterable(itertools.repeat(loader))  # 16 steps are an epoch
job.track(model=model, optimizer=optimizer, heads=heads, schedule=schedule, data=data)


def make():
    global half
    halves = [dist.new_group([first, first + 1]) for first in range(0, dist.get_world_size(), 2)]  # of each world anew
    half = halves[dist.get_rank() // 2]
    return DDP(model, find_unused_parameters=True, bucket_cap_mb=25 if WIDE else 0.001)


def pass_on(number):
    """The previous rank's, and of both the exclusive or: torch's group over libcxxrun has neither."""
    rank, size, given = dist.get_rank(), dist.get_world_size(), torch.empty(1, dtype=torch.int64)
    sent = dist.isend(torch.tensor([number]), (rank + 1) % size)
    dist.recv(given, (rank - 1) % size)
    sent.wait()
    assert given.item() == number - rank + (rank - 1) % size
    dist.all_reduce(given, op=dist.ReduceOp.BXOR)


ddp = job.wrap(make)
world = seen = first = 0
while job.running(STEPS):
    rank = dist.get_rank()
    if job.generation != world:
        world, first = job.generation, job.completed
        note("met", os.getpid(), job.completed)
    before = job.completed
    with job.step() as step:
        samples, noise = next(order)
        fall("forward")
        ones = torch.ones(1)
        dist.all_reduce(ones, group=half)
        assert ones.item() == 2
        if GLOO:
            pass_on(1000 * job.completed + dist.get_rank())
        hidden = ddp(inputs[samples] + noise)
        loss = torch.nn.functional.cross_entropy(Falls.apply(hidden), labels[samples])
        model.zero_grad(set_to_none=True)
        loss.backward()
        fall("metrics")
        dist.all_reduce(loss.detach())
        assert GLOO or job._carrier.failure is None, "an all_reduce that failed has returned"
        fall("update")
        optimizer.step()
        schedule.step()
        fall("half")
        if any("half" in place for place in FALLS):  # the others notice it there, with half an update done
            dist.barrier()
        heads.step()
        fall("after")
    assert step.done == (job.completed > before)
    assert not WIDE or GLOO or job.completed - first < 3 or job._carrier._buckets._moved, "no bucket has moved"
    fall("between")
    if INSTALLS:
        cxxrun.step(job.completed)
    if job.generation != seen:
        seen = job.generation
        note("stepped", job.completed)
    if SAVES and (job.checkpoint_wanted() or job.completed == 5):
        job.save()
        note("saved", job.completed)


def digest(tensors):
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()


print(f"end {os.getpid()} {job.completed} {digest(model.parameters())}", flush=True)
if rank == 0:
    print(f"averages {digest(model.buffers())}", flush=True)
if os.environ.get("LEAVES") == "at once":
    job.close()
    os._exit(0)
