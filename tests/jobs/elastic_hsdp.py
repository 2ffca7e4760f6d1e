"""Two nodes of two ranks train what is sharded inside each of them: elastic_hsdp.py [gloo]

With `gloo` by torch's own HSDP over one mesh of all ranks, to be compared; else by node_mesh() and replicate(). Each rank
writes its shards after three steps to $DIR/RANK.json."""
import contextlib
import json
import os
import sys

import torch
from torch.distributed.fsdp import fully_shard

import torch.distributed as dist

IS_GLOO = "gloo" in sys.argv
STEPS = 3
torch.set_num_threads(1)
if IS_GLOO:
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    job = None
else:
    from cxxrun.torch import Elastic

    job = Elastic(seed=None)
    mesh = job.node_mesh()
torch.manual_seed(1)
first, last = torch.nn.Linear(16, 30), torch.nn.Linear(30, 4)
model = torch.nn.Sequential(first, torch.nn.Tanh(), last)
for layer in (first, last, model):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
if job is not None:
    job.replicate(model)
    job.track(model=model, optimizer=optimizer)
    assert job.running(STEPS)
for step in range(STEPS):
    with contextlib.nullcontext() if job is None else job.step():
        torch.manual_seed(100 * step + dist.get_rank())
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(8, 16)).square().sum().backward()
        optimizer.step()
shards = [parameter.to_local().flatten().tolist() for parameter in model.parameters()]
with open(os.path.join(os.environ["DIR"], f"{dist.get_rank()}.json"), "w") as file:
    json.dump(shards, file)
assert job is None or not job.running(STEPS)
