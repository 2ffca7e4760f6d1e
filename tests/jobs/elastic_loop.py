"""The loop of Elastic: what a step that fails takes back, and what is refused in it. Two ranks."""
import io
import os

import torch

import torch.distributed as dist
from cxxrun import _lib, _process
from cxxrun.torch import Elastic, ElasticSampler, _pickled, _state
from cxxrun.torch._undo import Before
from elastic_claimed import DEVICE
from elastic_refused import refused

refused("policy='shrnk': one of 'wait', 'shrink'", lambda: Elastic(policy="shrnk"), kind=ValueError)
refused("policy=None: one of", lambda: Elastic(policy=None), kind=ValueError)
job = Elastic(device=DEVICE)
me = dist.get_rank()
alone = [dist.new_group([rank]) for rank in range(2)]

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
_process.is_helper, asks = lambda: True, _process.is_helper
refused('if __name__ == "__main__"', Elastic, kind=RuntimeError)
_process.is_helper = asks
refused("track() the model", job.running, 1, kind=RuntimeError)
job.track(model=model, optimizer=optimizer)
refused("name has no state_dict()", lambda: job.track(name=3), kind=TypeError)
refused("give Elastic(checkpoint=PATH)", job.save, kind=ValueError)
refused("tail 'odd'", ElasticSampler, 3, 1, 0, "odd", kind=ValueError)
refused("leaves all of them out", ElasticSampler(3, 2, tail="drop").next, kind=ValueError)
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
# Of each optimizer for itself.
extra = torch.nn.Linear(2, 1)
other = torch.optim.SGD(extra.parameters(), lr=1.0)
job.track(other=other)
step(optimizer.zero_grad, backward, lambda: extra(torch.ones(1, 2)).sum().backward(), optimizer.step)
step(optimizer.zero_grad, backward, lambda: extra(torch.ones(1, 2)).sum().backward(), optimizer.step)  # as in a GAN
refused("of an earlier step()", step, other.step)
for set_to_none in (False, True):
    step(lambda: extra.zero_grad(set_to_none), lambda: extra(torch.ones(1, 2)).sum().backward())
step(extra.zero_grad, lambda: extra(torch.ones(1, 2)).sum().backward(), other.step)
del job._tracked["other"], job._updates._made["other"]
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
stranger = torch.optim.SGD(model.parameters(), lr=1.0)  # in no track(): what it has changed is seen
assert fails(backward, stranger.step, fail) and not fails(backward, fail)
with job.step():
    optimizer.step()
    fail()
with job.step():
    fail()
assert job._torn  # of the first one
job._carrier.failure, job._fresh, job._torn = None, False, False
before = Before(job._tracked)
with torch.no_grad():
    model.weight.add_(0)
    assert before.is_updated() and not before.is_updated(left_out=True)  # the other one has no gradient, perhaps
    model.bias.add_(0).add_(0)
    assert before.is_updated(left_out=True)
words = torch.nn.Embedding(2, 2, max_norm=1.0)
job.track(words=words)
assert not fails(lambda: words(torch.tensor([0])), fail)
del job._tracked["words"]


def of_before():
    with job.step():
        raise _lib.PeerFailure("rank 7 died", "died", 7, "", job.generation - 1)


refused(f"begun in generation {job.generation - 1}, which has ended", of_before, kind=RuntimeError)
assert job._carrier.failure is None
with job.step():
    optimizer.step()
    fail()
backward()
job._unpack(job._pack())  # of another rank's: the gradients are of the step that is done again
assert model.weight.grad is None
job._checkpoint = os.path.join("no", "such", "directory")
job.save()  # a file with a whole step would get a part of this one
job._checkpoint, job._carrier.failure, job._fresh, job._torn = None, None, False, False
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

    def wait():
        raise AssertionError("what a step keeps of a GradScaler waits for the device")

    scaler.get_scale = scaler._get_growth_tracker = wait
    assert not fails(lambda: scaled(fail))
    scaled()
    assert [each.grad.max().item() for each in model.parameters()] == [1, 1]
    scaler.update()
    del scaler.get_scale, scaler._get_growth_tracker
    del job._tracked["scaler"]


def own_in_update():
    with job.step():
        optimizer.step()
        raise RuntimeError("my own mistake")


refused("my own mistake", own_in_update, kind=RuntimeError)
refused("after its update had begun, and this rank cannot go on", job.running, 1, kind=RuntimeError)
job._fresh = job._torn = False


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
moving = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
before = Before({"moving": moving})
backward()
moving.step()
before.restore()
assert not moving.state  # a fused one that leaves out its first update has moments of no value
del job._tracked["schedule"]


class Counting(torch.nn.Module):
    seen = [0]

    def get_extra_state(self):
        return self.seen

    def set_extra_state(self, state):
        self.seen = state


# In torch 1.13 the state of each of these schedules has a method of its own.
schedules = [torch.optim.lr_scheduler.OneCycleLR(moving, 1.0, total_steps=9),
             torch.optim.lr_scheduler.CyclicLR(moving, 0.1, 1.0)]
its = {"counting": torch.nn.Sequential(Counting()), "one": schedules[0], "cyclic": schedules[1]}
for _ in range(2):
    before = Before(its)
    its["counting"][0].seen.append(1)
    for each in schedules:
        each.step()
    before.restore()
    assert [each.last_epoch for each in schedules] == [0, 0] and its["counting"][0].seen == [0]
    _pickled.packed({name: _state.of(each) for name, each in its.items()})

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
ahead, one = torch.utils.data.DataLoader(torch.arange(10), batch_sampler=data), torch.random.get_rng_state()
assert len(list(ahead)) == 3 and torch.equal(torch.random.get_rng_state(), one)  # it has drawn no number of the step's

# With more ranks what is left of an epoch may be less than a step of theirs.
grown, rest = ElasticSampler(10, batch=2, tail="drop"), ElasticSampler(10, batch=2, tail="drop")
grown.load_state_dict({"seed": 0, "epoch": 0, "consumed": 7, "size": 10})
assert len(grown.next()) == 2 and grown.state_dict() == {"seed": 0, "epoch": 1, "consumed": 4, "size": 10}
rest.load_state_dict({"seed": 0, "epoch": 0, "consumed": 3, "size": 10})
assert [len(each) for each in rest] == [2] and (rest.epoch, rest.state_dict()["consumed"]) == (0, 10)

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

# A file of somebody else's.
file = io.BytesIO()
torch.save({"model": model.state_dict()}, file)
refused("no checkpoint that Elastic.save() has written", job._unpack, file.getvalue(), kind=RuntimeError)

# Ctrl-C in the middle of what every rank does.
counted = model.counted.item()
try:
    with job.step():
        model.counted += 1
        raise KeyboardInterrupt
except KeyboardInterrupt:
    assert model.counted.item() == counted
refused("was interrupted", job.running, 1, kind=RuntimeError)
assert not job._torn
job._interrupted = False
try:
    with job.step():
        optimizer.step()
        raise KeyboardInterrupt
except KeyboardInterrupt:
    assert job._torn and job._fresh  # it has half of a step, which no other rank is to be given
job._interrupted = job._fresh = job._torn = False


def interrupted(*_):
    raise KeyboardInterrupt


job._checkpoint, job._on_rank_0 = "anything", interrupted
try:
    job.save()
except KeyboardInterrupt:
    refused("was interrupted", job.save, kind=RuntimeError)
del job._on_rank_0
job._checkpoint, job._interrupted = None, False

with ddp.no_sync():
    ddp(torch.ones(1, 2) * me).sum().backward()
assert model.weight.grad.flatten().tolist() == [me, me]
ddp(torch.ones(1, 2) * me).sum().backward()
assert model.weight.grad.flatten().tolist() == [1, 1], model.weight.grad
with job.step():
    optimizer.step()
assert not job.running(1) and dist.get_world_size() == 2  # for an evaluation, or for more steps
evaluated = torch.tensor([me])
dist.all_reduce(evaluated)
assert evaluated.tolist() == [1] and not job.running(1)
job.close()
assert not dist.is_initialized()
refused("close() was called", job.running, 2, kind=RuntimeError)
refused("close() was called", job.checkpoint_wanted, kind=RuntimeError)
job.close()
refused("generation that has ended", alone[me].barrier, kind=RuntimeError)
_process._kept = object()
refused("has told the launcher of itself already", Elastic, kind=RuntimeError)
print(f"the loop is kept {os.getpid()}", flush=True)
