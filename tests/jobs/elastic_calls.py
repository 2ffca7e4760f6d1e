"""What torch's default group over libcxxrun carries, and what it refuses. Two ranks."""
import gc
import io
import os
import resource
import weakref

import torch

import torch.distributed as dist
from cxxrun import _lib, _process
from cxxrun.torch import Elastic, ElasticSampler, _buckets
from cxxrun.torch._undo import Before

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
    assert x.item() == wanted and work.is_completed() and work.get_future().wait() == [x], (op, x)
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

whole = torch.empty(4, dtype=torch.int16)
dist.all_gather_into_tensor(whole, torch.tensor([me, 7], dtype=torch.int16)) if hasattr(
    dist, "all_gather_into_tensor") else dist._all_gather_base(whole, torch.tensor([me, 7], dtype=torch.int16))
assert whole.tolist() == [0, 7, 1, 7]
x = torch.empty(0)
dist.all_reduce(x)
dist.broadcast(x, 0)

# Parts for each rank.
ramp = torch.arange(4.0) + 10 * me
out = torch.empty(2)
reduce_scatter_tensor = getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)
reduce_scatter_tensor(out, ramp)
assert out.tolist() == [[10, 12], [14, 16]][me], out
reduce_scatter_tensor(out, ramp, op=dist.ReduceOp.AVG)
assert out.tolist() == [[5, 6], [7, 8]][me], out
dist.reduce_scatter(out, list(ramp.reshape(2, 2).t()), op=dist.ReduceOp.MAX)  # parts that are not contiguous
assert out.tolist() == [[10, 12], [11, 13]][me], out
x = torch.tensor([me + 1.0])
dist.reduce(x, dst=1)
assert x.item() == (3 if me == 1 else 1)
parts = tensors() if me == 1 else None
dist.gather(torch.full((2,), float(me)), parts, dst=1)
assert parts is None or [part.tolist() for part in parts] == [[0, 0], [1, 1]]
dist.scatter(out, [torch.zeros(2), torch.ones(2)] if me == 0 else None, src=0)
assert out.tolist() == [me, me]
parts = tensors()
dist.all_to_all(parts, [torch.full((2,), 10.0 * me), torch.full((2,), 10.0 * me + 1)])
assert [part.tolist() for part in parts] == [[me, me], [10 + me, 10 + me]]
out = torch.empty(4)
dist.all_to_all_single(out, ramp)
assert out.tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]][me], out
several = [torch.full((2,), me + 1.0), torch.full((3,), me + 2.0)]
dist.all_reduce_coalesced(several)
assert [each.tolist() for each in several] == [[3, 3], [5, 5, 5]]
lists = [[torch.zeros(1), torch.zeros(2)] for _ in range(2)]
dist.all_gather_coalesced(lists, [torch.tensor([float(me)]), torch.tensor([me + 5.0, 6])])
assert [[each.tolist() for each in of] for of in lists] == [[[0], [5, 6]], [[1], [6, 6]]], lists

# Groups.
alone, both = [dist.new_group([rank]) for rank in range(2)], dist.new_group([1, 0])
assert [dist.get_rank(group) for group in alone] == [0 if me == rank else -1 for rank in range(2)]
assert (dist.get_rank(both), dist.get_world_size(both), dist.get_world_size(alone[me])) == (me, 2, 1)
x = torch.tensor([me + 1.0])
dist.all_reduce(x, group=alone[me])
assert x.item() == me + 1
dist.all_reduce(x, group=both)
assert x.item() == 3
x = torch.tensor([float(me)])
dist.broadcast(x, src=1, group=both)
assert x.item() == 1
dist.barrier(group=both)

# A buffer outlives its wait, which Ctrl-C may end, and not the call.
if me == 0:
    buffer = torch.zeros(1000)
    kept = weakref.ref(buffer)
    work = job._carrier.comm.start_broadcast(buffer.data_ptr(), 1000, 0, 1, buffer)
    del buffer, work
    gc.collect()
    assert kept() is not None
    dist.barrier()
    assert kept()[999] == 1
else:
    dist.broadcast(torch.ones(1000), 1)
    dist.barrier()

# A rank that may not have its part of the arena has its buckets copied, and with it all.
if me == 1:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
assert _buckets.make_buckets(job._carrier.comm, 1 << 20, job._carrier.facts) is None
if me == 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
assert _buckets.make_buckets(job._carrier.comm, 1 << 50, job._carrier.facts) is None
assert _buckets.make_buckets(job._carrier.comm, 1 << 20, job._carrier.facts) is not None

# A forked child is no rank, and its parent goes on. One that loads data needs none.
child = os.fork()
if child == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        os._exit(0 if "is no handle of this process" in str(error) else 1)
    os._exit(2)
assert os.waitpid(child, 0) == (child, 0)
data = torch.utils.data.TensorDataset(torch.ones(8))
loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork")
assert [each.sum().item() for (each,) in loader] == [4, 4]
dist.barrier()

# Refused, by name, and nothing is broken by it.
group = dist.group.WORLD
refused("send is", dist.send, torch.zeros(2), 1 - me)
refused("recv is", dist.recv, torch.zeros(2), 1 - me)
refused("not contiguous", group.broadcast, [torch.zeros(4, 4)[:, 0]])
refused("not contiguous", dist.all_reduce, torch.zeros(4, 4)[:, 0])
refused("sparse", dist.all_reduce, torch.zeros(2).to_sparse())
refused("meta", dist.all_reduce, torch.zeros(2, device="meta"))
refused("torch.int16", dist.all_reduce, torch.zeros(2, dtype=torch.int16))
refused("PRODUCT", dist.all_reduce, torch.zeros(2), dist.ReduceOp.PRODUCT)
refused("AVG of torch.int32", dist.all_reduce, torch.zeros(2, dtype=torch.int32), dist.ReduceOp.AVG)
refused("all_gather with", dist.all_gather, [torch.zeros(3), torch.zeros(3)], torch.zeros(2))
refused("reduce_scatter with", dist.reduce_scatter, torch.zeros(2), [torch.zeros(3), torch.zeros(3)])
refused("reduce_scatter_tensor with", reduce_scatter_tensor, torch.zeros(3), torch.zeros(4))
refused("all_to_all_single of parts", dist.all_to_all_single, torch.zeros(3), torch.zeros(3))
refused("the backend gloo", lambda: dist.new_group([0, 1], backend="gloo"))
if not torch.__version__.startswith("1."):
    refused("use_local_synchronization", lambda: dist.new_group([0], use_local_synchronization=True))
refused("is up already", Elastic, kind=RuntimeError)
if torch.__version__.startswith("1."):
    refused("this PyTorch has no FSDP2", job.node_mesh)
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


# What would be lost with the DDP of this world.
refused("register_comm_hook would be lost", lambda: ddp.register_comm_hook(None, None), kind=RuntimeError)
refused("grad_sync would be lost", setattr, ddp, "require_backward_grad_sync", False, kind=RuntimeError)
refused("grad_sync would be lost", delattr, ddp, "require_backward_grad_sync", kind=RuntimeError)
assert ddp.require_backward_grad_sync


# Gradients that are added up over several blocks would be lost with a step that fails. Those that nobody wants may stay.
def backward():
    ddp(torch.ones(1, 2)).sum().backward()


def step(*calls):
    with job.step():
        for call in calls:
            call()


step(backward)
refused("of an earlier step()", step, backward)
refused("of an earlier step()", step, backward, optimizer.step, kind=NotImplementedError)
for set_to_none in (False, True):
    step(lambda: optimizer.zero_grad(set_to_none), backward)
    step(lambda: 0)
    step(lambda: optimizer.zero_grad(set_to_none), backward, backward, optimizer.step)
    step(lambda: optimizer.zero_grad(set_to_none))
    step(backward, optimizer.step)
    step(backward, backward, optimizer.step)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(torch.ones_like(parameter))
job._completed = 0
optimizer.zero_grad()


# A failure after the update would leave out what follows it.
def fail():
    failure = _lib.PeerFailure("rank 7 died", "died", 7, "", 1)
    job._carrier.note(failure)
    raise failure


def fails(*calls):
    """A step in which these are made, and a peer dies in the last one. Whether a part of it is in the state."""
    completed = job.completed
    with job.step():
        for call in calls:
            call()
    torn, job._carrier.failure, job._fresh, job._torn = job._torn, None, False, False
    assert job.completed == completed
    return torn


def late():
    with job.step():
        optimizer.step()
        dist.all_reduce(torch.ones(1))


refused("before the update", late, kind=RuntimeError)
assert fails(optimizer.step, fail) and fails(lambda: optimizer.step(fail)) and not fails(fail)
if hasattr(torch.amp, "GradScaler"):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def scaled(*then):
        optimizer.zero_grad()
        scaler.scale(ddp(torch.ones(1, 2)).sum()).backward()
        scaler.unscale_(optimizer)
        for call in then:
            call()

    refused("track() the GradScaler", lambda: scaled(lambda: scaler.step(optimizer)), kind=RuntimeError)
    scaler.update()
    job.track(scaler=scaler)
    assert not fails(lambda: scaled(fail))
    scaled()
    assert [each.grad.max().item() for each in model.parameters()] == [1, 1]
    scaler.update()
    del job._tracked["scaler"]


# What a failed step has changed is taken back.
class Kept:
    def __init__(self):
        self.seen = [0]

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


kept, schedule = Kept(), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
job.track(kept=kept, schedule=schedule)
model.register_buffer("counted", torch.zeros(1))
(group,) = optimizer.param_groups
before = Before(job._tracked)
model.counted = model.counted + 1
kept.seen.append(1)
optimizer.step()
schedule.step()
assert group["lr"] == 0.5
optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))], "lr": 2.0})
group["momentum"], group["mine"] = 0.5, 3
before.restore()
assert (model.counted.item(), kept.seen) == (0, [0])
assert optimizer.param_groups == [group] and (group["lr"], group["momentum"], "mine" in group) == (1.0, 0, False), group
assert (schedule.last_epoch, schedule.get_last_lr(), len(group["params"])) == (0, [1.0], 2)
del job._tracked["schedule"]

# The sampler is torch's: a DataLoader takes the same samples as next(), an epoch for each iterator, and what a failed
# step has taken is taken again, also where that ended an epoch.
def samplers():
    return ElasticSampler(10, batch=2, seed=7), ElasticSampler(10, batch=2, seed=7)


data, same = samplers()
assert isinstance(data, torch.utils.data.Sampler)
assert ElasticSampler(7, batch=3).next() == [[3, 0, 6], [4, 5, 2]][me]  # elastic_sampler_test.cpp has the same
loader = torch.utils.data.DataLoader(torch.arange(10), batch_sampler=data)
for epoch in range(2):
    taken = [batch.tolist() for batch in loader]
    assert (taken, data.epoch) == ([same.next() for _ in taken], epoch) and len(taken) == 3, taken
    assert data.state_dict() == same.state_dict() == {"seed": 7, "epoch": epoch, "consumed": 10, "size": 10}
its = [None, None]
dist.all_gather_object(its, taken)
assert sorted(sum(its[0] + its[1], [])) == list(range(10))
data, same = samplers()
job.track(data=data)
batches = iter(torch.utils.data.DataLoader(torch.arange(10), batch_sampler=data))
refused("within step()", next, batches, kind=RuntimeError)
batches = iter(torch.utils.data.DataLoader(torch.arange(10), batch_sampler=data))
step(lambda: next(batches))
refused("within step()", data.next, kind=RuntimeError)
same.next()
job._updates.begin_step()
for ends in (False, True):
    before, wanted = Before(job._tracked), same.next()
    assert next(batches).tolist() == wanted
    if ends:
        assert list(batches) == []
        batches = iter(torch.utils.data.DataLoader(torch.arange(10), batch_sampler=data))
    before.restore()
    assert next(batches).tolist() == wanted
assert data.epoch == 0
job._updates.end_step()
refused("takes samples ahead", lambda: iter(torch.utils.data.DataLoader(torch.arange(10), batch_sampler=data, num_workers=1)))

# A file of somebody else's.
file = io.BytesIO()
torch.save({"model": model.state_dict()}, file)
refused("no checkpoint that Elastic.save() has written", job._unpack, file.getvalue(), kind=RuntimeError)

# Ctrl-C in the middle of what every rank does.
try:
    with job.step():
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
refused("was interrupted", job.running, 1, kind=RuntimeError)
job._interrupted = False

with ddp.no_sync():
    ddp(torch.ones(1, 2) * me).sum().backward()
assert model.weight.grad.flatten().tolist() == [me, me]
ddp(torch.ones(1, 2) * me).sum().backward()
assert model.weight.grad.flatten().tolist() == [1, 1], model.weight.grad
with job.step():
    optimizer.step()
assert not job.running(1) and not dist.is_initialized()
refused("the loop has ended", job.running, 2, kind=RuntimeError)
refused("generation that has ended", alone[me].barrier, kind=RuntimeError)
_process._kept = object()
refused("has told the launcher of itself already", Elastic, kind=RuntimeError)
print(f"carried and refused {os.getpid()}", flush=True)
