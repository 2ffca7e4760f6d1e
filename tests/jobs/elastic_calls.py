"""What torch's default group over libcxxrun carries, and what it refuses. Two ranks."""
import collections
import gc
import os
import resource
import types
import weakref

import torch

import torch.distributed as dist
from cxxrun.torch import Elastic, _buckets, _device, _elastic, _state
from elastic_claimed import DEVICE
from elastic_refused import refused

job = Elastic(device=DEVICE)
assert bool(job._carrier.facts.on_device) == (DEVICE is not None)
me, world = dist.get_rank(), dist.get_world_size()
assert (world, dist.get_backend()) == (2, "cxxrun")


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
sizes = [[3, 0], [2, 4]]  # by who gives and who takes
given = list(torch.arange(10.0 * me, 10 * me + sum(sizes[me])).split(sizes[me]))
parts = [torch.empty(of[me]) for of in sizes]
dist.all_to_all(parts, given)
assert [part.tolist() for part in parts] == [[[0, 1, 2], [10, 11]], [[], [12, 13, 14, 15]]][me], parts
out = torch.empty(sum(of[me] for of in sizes), 2, dtype=torch.bool)
rows = torch.stack([torch.cat(given) > 11, torch.ones(sum(sizes[me])) > 0], 1)
dist.all_to_all_single(out, rows, [of[me] for of in sizes], sizes[me])
assert out[:, 0].tolist() == [[False] * 5, [True] * 4][me] and out[:, 1].all(), out
dist.all_to_all([torch.empty(0), torch.empty(0)], [torch.empty(0), torch.empty(0)])
halves = dist._make_nccl_premul_sum(0.5)
if hasattr(torch, "compile"):  # 1.13 does not tell the factor
    own = dist._make_nccl_premul_sum([0.5, 0.25][me])
    for x in (torch.tensor([me + 1.0, 8]), torch.tensor([me + 1.0, 8], dtype=torch.float16)):
        dist.all_reduce(x, op=own)
        assert x.tolist() == [1, 6], x
    out = torch.empty(2)
    reduce_scatter_tensor(out, ramp, op=halves)
    assert out.tolist() == [[5, 6], [7, 8]][me] and ramp[0] == 10 * me, (out, ramp)
    x = torch.tensor([me + 1.0])
    dist.reduce(x, dst=1, op=dist._make_nccl_premul_sum(torch.tensor([0.5])))
    assert x.item() == (1.5 if me == 1 else 1)
else:
    refused("PREMUL_SUM", dist.all_reduce, torch.zeros(2), halves)
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
buffer = torch.full((1000,), float(me))
kept = weakref.ref(buffer)
work = job._carrier.comm.start_broadcast(buffer.data_ptr(), 1000, 0, 1, buffer)
if me == 0:
    del buffer, work
    gc.collect()
    assert kept() is not None
dist.barrier()
assert kept()[999] == 1

# A state is written into what the other one has, in pieces, and whoever wants nothing takes nothing.
_state._PIECE = 100
state = {"weights": collections.OrderedDict(first=torch.arange(70.0) + me, last=torch.full((3, 2), me, dtype=torch.int16)),
         "moments": [torch.tensor(2.5 - me), (torch.tensor([True, me == 1]), 7 + me)][:2 - me], "none": torch.empty(0, 4)}
first = state["weights"]["first"]
got = _state.share(job._carrier.gpu, job._carrier.comm, 0, me == 0, state)
assert got["weights"]["first"] is first or got["weights"]["first"].data_ptr() == first.data_ptr()
assert torch.equal(first, torch.arange(70.0)) and got["weights"]["last"].tolist() == [[0, 0]] * 3
assert got["moments"][0] == 2.5 and got["moments"][1][0].tolist() == [True, False] and got["moments"][1][1] == 7
_state.share(job._carrier.gpu, job._carrier.comm, 1, me == 1, {"first": torch.ones(70)} if me == 1 else None)
assert torch.equal(first, torch.arange(70.0))

# A rank that may not have its part of the arena has its buckets copied, and with it all.
if me == 1:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
assert _buckets.make_buckets(job._carrier.comm, 1 << 20, job._carrier.facts) is None
if me == 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
assert _buckets.make_buckets(job._carrier.comm, 1 << 50, job._carrier.facts) is None
assert (_buckets.make_buckets(job._carrier.comm, 1 << 20, job._carrier.facts) is None) == (DEVICE is not None)

# A forked child is no rank, and its parent goes on. One that loads data needs none.
child = os.fork()
if child == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        os._exit(0 if "is not a handle of this process" in str(error) else 1)
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
for given, taken in ((1, 2), (2, 1), (1, 1), (3, 3)):
    refused("all_to_all with lists", dist.all_to_all, tensors(taken), tensors(given))
refused("all_to_all_single of parts", dist.all_to_all_single, torch.zeros(3), torch.zeros(3))
refused("all_to_all_single with splits [1, 1] of 3", dist.all_to_all_single, torch.zeros(3), torch.zeros(3), [1, 1], [1, 2])
refused("in another size", dist.all_to_all_single, torch.zeros(3), torch.zeros(3), [1, 2], [[1, 2], [2, 1]][me])
refused("PREMUL_SUM of torch.int32", dist.all_reduce, torch.zeros(2, dtype=torch.int32), halves)
refused("the backend gloo", lambda: dist.new_group([0, 1], backend="gloo"))
if not torch.__version__.startswith("1."):
    refused("use_local_synchronization", lambda: dist.new_group([0], use_local_synchronization=True))
refused("is up already", Elastic, kind=RuntimeError)
its, there = _device.Cuda(None), dict(is_cuda=True, device=torch.device("cuda", 1))
its.device = torch.device("cuda", 0)
assert its.is_elsewhere(types.SimpleNamespace(**there))
its.device = torch.device("cuda", 1)
assert not its.is_elsewhere(types.SimpleNamespace(**there)) and not its.is_elsewhere(torch.zeros(1))
job._carrier.gpu.is_elsewhere = lambda _: True
refused(f"all_reduce of a tensor that is on cpu, where this rank's are on {job._carrier.gpu.device},", dist.all_reduce,
        torch.zeros(2))
refused("all_gather of a tensor that is on cpu,", dist.all_gather, tensors(), torch.zeros(2))
del job._carrier.gpu.is_elsewhere
if "CXXRUN_CLAIMED" not in os.environ:
    refused("is built without CUDA", _device.of, "cuda", kind=RuntimeError)
    torch.version.cuda = "13.0"
    refused('CUDA_VISIBLE_DEVICES is "": unset it', _device.of, "cuda", kind=RuntimeError)
    torch.version.cuda = None
if not _elastic.has_shards():
    refused("this PyTorch has no FSDP2", job.node_mesh)
dist.barrier()
job.close()
assert not dist.is_initialized()
print(f"carried and refused {os.getpid()}", flush=True)
