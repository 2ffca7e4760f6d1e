"""Elastic(backend=…): what is refused, and what torch's own groups carry that the one over libcxxrun does not. With `waits`
three ranks: rank 2 kills itself while rank 0 waits for rank 1, which is somewhere else until $DIR/go is there; with
`groups` rank 2 does while all make a group, when it has told the others where it listens; with `late` rank 1 hangs when
the others wait for it after an update, so that no rank has the whole state and all read the checkpoint. Prints
"PID trained" and notes "GENERATION RANK WORD TIME" in $DIR/events."""
import os
import signal
import sys
import threading
import time

import torch

import torch.distributed as dist
from cxxrun.torch import Elastic
from elastic_refused import refused

refused('backend=\'mpi\': there is "gloo"', lambda: Elastic(backend="mpi"), kind=ValueError)
refused("has not been run on a GPU", lambda: Elastic(backend="nccl"))
refused('there are "cuda" and "cpu"', lambda: Elastic(device="meta"), kind=ValueError)
refused("torch sees no GPU", lambda: Elastic(device="cuda"), kind=RuntimeError)
refused("without backend=", lambda: Elastic(backend="gloo", device="cuda"), kind=ValueError)
if not hasattr(dist, "_reconfigure"):
    refused("takes PyTorch 2.14", lambda: Elastic(backend="gloo"))
    print(os.getpid(), "refused")
    sys.exit()
job = Elastic(os.path.join(os.environ["DIR"], "checkpoint"), backend="gloo")
refused("without backend=", job.node_mesh, kind=RuntimeError)
assert dist.get_backend() == "gloo"


def note(word):
    with open(os.path.join(os.environ["DIR"], "events"), "a") as file:
        file.write(f"{job.generation} {dist.get_rank()} {word} {time.monotonic()}\n")


def carried():
    me, world = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([me + 1j], dtype=torch.complex64)
    dist.all_reduce(x)
    assert x.item() == sum(range(world)) + world * 1j
    x = torch.full((2,), 2, dtype=torch.int8)
    dist.all_reduce(x, op=dist.ReduceOp.PRODUCT)
    assert x.tolist() == 2 * [2 ** world]
    whole, sizes = torch.empty(sum(range(1, world + 1))), [1 + rank for rank in range(world)]
    dist.all_to_all_single(whole, torch.full(((1 + me) * world,), float(me)), sizes, [1 + me] * world)
    assert whole.tolist() == [float(rank) for rank in range(world) for _ in range(1 + rank)]
    if me == 0:
        x = torch.empty(1)
        senders = {dist.recv(x) for _ in range(world - 1)}
        assert senders == set(range(1, world))
    else:
        dist.send(torch.ones(1), 0)
    objects = [None] * world
    group = dist.new_group(list(range(world)), use_local_synchronization=True)
    dist.all_gather_object(objects, {"rank": me}, group=group)
    assert [its["rank"] for its in objects] == list(range(world))


def waits():
    if dist.get_rank() == 2:
        note("dies")
        os.kill(os.getpid(), signal.SIGKILL)
    if dist.get_rank() == 1:
        while not os.path.exists(os.path.join(os.environ["DIR"], "go")):
            time.sleep(0.01)
    dist.broadcast(torch.ones(1), 1)


def groups():
    if dist.get_rank() == 2:
        store = job._world._store
        tell = store.set

        def told(*words):
            tell(*words)
            note("dies")
            os.kill(os.getpid(), signal.SIGKILL)

        store.set = told
    dist.new_group(list(range(dist.get_world_size())))


def late():
    optimizer.step()
    if dist.get_rank() == 1:
        threading.Event().wait()
    dist.all_reduce(torch.ones(1))


if job.generation == 1:
    carried()  # before the loop, too
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job.track(model=model, optimizer=optimizer)
ddp = job.wrap(lambda: torch.nn.parallel.DistributedDataParallel(model))
while job.running(6):
    completed = job.completed
    with job.step():
        carried()
        if sys.argv[1:] and (job.generation, completed) == (1, 3):
            {"waits": waits, "groups": groups, "late": late}[sys.argv[1]]()
        optimizer.zero_grad()
        ddp(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    if job.completed == completed:
        note("noticed")
    elif job.completed == 2:
        job.save()
print(os.getpid(), "trained", flush=True)
