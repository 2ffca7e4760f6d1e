"""What torch's default group over libcxxrun carries, and what it refuses. Two ranks."""
import os

import torch

import torch.distributed as dist
from cxxrun.torch import Elastic, ElasticSampler

job = Elastic()
me, world = dist.get_rank(), dist.get_world_size()
assert (world, dist.get_backend()) == (2, "cxxrun")


def refused(what, call, *arguments, kind=NotImplementedError):
    try:
        call(*arguments)
    except kind as error:
        assert what in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError(f"{what} was not refused")


def tensors(count=2):
    return [torch.zeros(2) for _ in range(count)]


# Carried, with each type and operation.
for name in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"):
    x = torch.tensor([me + 1, 5], dtype=getattr(torch, name))
    dist.all_reduce(x)
    assert x.tolist() == [3, 10]
    dist.broadcast(x.fill_(me), src=1)
    assert x.tolist() == [1, 1]
for op, wanted in ((dist.ReduceOp.MIN, 1), (dist.ReduceOp.MAX, 2), (dist.ReduceOp.AVG, 1.5)):
    x = torch.tensor([me + 1.0])
    work = dist.all_reduce(x, op=op, async_op=True)
    work.wait()
    assert x.item() == wanted, (op, x)
parts = [torch.zeros(2, dtype=torch.bool) for _ in range(2)]
dist.all_gather(parts, torch.tensor([me == 0, True]))
assert [part.tolist() for part in parts] == [[True, True], [False, True]]
objects = [None, None]
dist.all_gather_object(objects, {"rank": me})
assert objects == [{"rank": 0}, {"rank": 1}]
objects = ["of 0", 7] if me == 0 else [None, None]
dist.broadcast_object_list(objects)
assert objects == ["of 0", 7]
dist.barrier()

# Refused, by name, and nothing is broken by it.
group = dist.group.WORLD
refused("reduce is", dist.reduce, torch.zeros(2), 0)
refused("scatter is", dist.scatter, torch.zeros(2), tensors() if me == 0 else None)
refused("gather is", dist.gather, torch.zeros(2), tensors() if me == 0 else None)
refused("reduce_scatter is", dist.reduce_scatter, torch.zeros(2), tensors())
refused("alltoall is", dist.all_to_all, tensors(), tensors())
refused("send is", dist.send, torch.zeros(2), 1 - me)
refused("recv is", dist.recv, torch.zeros(2), 1 - me)
refused("not contiguous", group.broadcast, [torch.zeros(4, 4)[:, 0]])
refused("torch.int16", dist.all_reduce, torch.zeros(2, dtype=torch.int16))
refused("PRODUCT", dist.all_reduce, torch.zeros(2), dist.ReduceOp.PRODUCT)
refused("AVG of torch.int32", dist.all_reduce, torch.zeros(2, dtype=torch.int32), dist.ReduceOp.AVG)
refused("all_gather into", dist.all_gather, [torch.zeros(3), torch.zeros(3)], torch.zeros(2))
refused("new_group()", dist.new_group, [0, 1])
dist.barrier()

# The loop.
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
refused("track() the model", job.running, 1, kind=RuntimeError)
job.track(model=model, optimizer=optimizer)
refused("name has no state_dict()", lambda: job.track(name=3), kind=TypeError)
refused("give Elastic(checkpoint=PATH)", job.save, kind=ValueError)
refused("tail 'odd'", ElasticSampler, 3, 1, 0, "odd", kind=ValueError)
ddp = job.wrap(lambda: torch.nn.parallel.DistributedDataParallel(model))
refused("use it inside of the loop", lambda: ddp(torch.zeros(1, 2)), kind=RuntimeError)
assert job.running(1)


def own():
    with job.step():
        raise RuntimeError("my own mistake")


refused("my own mistake", own, kind=RuntimeError)
assert job.completed == 0
with ddp.no_sync():
    ddp(torch.ones(1, 2) * me).sum().backward()
assert model.weight.grad.flatten().tolist() == [me, me]
ddp(torch.ones(1, 2) * me).sum().backward()
assert model.weight.grad.flatten().tolist() == [1, 1], model.weight.grad
with job.step():
    optimizer.step()
assert not job.running(1) and not dist.is_initialized()
print(f"carried and refused {os.getpid()}", flush=True)
