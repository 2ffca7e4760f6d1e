"""FSDP2 inside a node, cxxrun between nodes: elastic_shards.py STEPS [die=RANK:STEP:WHERE]… [WHAT=RANK:STEP:WHERE]

WHERE: forward, backward, metrics, update or after. There the rank kills itself, the n-th time in generation n, or, in the
first one, its agent (WHAT is node), or waits for ever (stuck). Notes and prints as elastic_trainer.py does, the hash of the
shard of each rank as "end PID STEP LOCAL_RANK:HASH"."""
import hashlib
import os
import signal
import sys
import threading

import torch
from torch.distributed.fsdp import fully_shard

import torch.distributed as dist
from cxxrun.torch import Elastic, ElasticSampler
from elastic_claimed import DEVICE
from elastic_refused import refused

STEPS = int(sys.argv[1])
FALLS = [word[4:] for word in sys.argv if word.startswith("die=")]
NODES = [word[5:] for word in sys.argv if word.startswith("node=")]
STUCK = [word[6:] for word in sys.argv if word.startswith("stuck=")]
torch.set_num_threads(1)


def note(*words):
    with open(os.path.join(os.environ["DIR"], "events"), "a") as file:
        file.write(" ".join(map(str, (job.generation, dist.get_rank(), *words))) + "\n")


def fall(where):
    here = f"{dist.get_rank()}:{job.completed}:{where}"
    if here in FALLS[job.generation - 1:job.generation]:
        os.kill(os.getpid(), signal.SIGKILL)
    if here in NODES and job.generation == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    if here in STUCK and job.generation == 1:
        threading.Event().wait()


class Falls(torch.nn.Module):
    """In the middle of a backward pass."""

    def forward(self, x):
        if x.requires_grad:
            x.register_hook(lambda gradient: fall("backward"))
        return x


torch.manual_seed(1)
inputs, labels = torch.randn(512, 16), torch.randint(0, 4, (512,))
job = Elastic(seed=3, device=DEVICE)
refused("comes first", job.replicate, torch.nn.Linear(1, 1), kind=RuntimeError)
job._checkpoint = "checkpoint"
refused("without checkpoint=", job.node_mesh, kind=RuntimeError)
job._checkpoint = None
os.environ["MASTER_PORT"] = "1"  # as of a generation that has ended
mesh = job.node_mesh()
refused("give Elastic(checkpoint=PATH)", job.save, kind=ValueError)
refused("comes first", job.replicate, torch.nn.Linear(1, 1), kind=RuntimeError)
refused("beside node_mesh()", dist.new_group, [0, 1])
torch.manual_seed(1 if job.generation == 1 else os.getpid())  # whoever is new knows nothing of the state
first, last = torch.nn.Linear(16, 30), torch.nn.Linear(30, 4)
model = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Dropout(), Falls(), last)
for layer in (first, last, model):
    fully_shard(layer, mesh=mesh)
job.replicate(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = ElasticSampler(len(inputs), batch=8)
job.track(model=model, optimizer=optimizer, data=data)
seen = 0
while job.running(STEPS):
    with job.step():
        samples = data.next()
        fall("forward")
        loss = torch.nn.functional.cross_entropy(model(inputs[samples]), labels[samples])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        fall("metrics")
        dist.all_reduce(loss.detach())
        fall("update")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        fall("after")
    if job.generation != seen:
        seen = job.generation
        note("stepped", os.getpid(), job.completed)
shards = b"".join(parameter.to_local().detach().numpy().tobytes() for parameter in model.parameters())
print(f"end {os.getpid()} {job.completed} {os.environ['LOCAL_RANK']}:{hashlib.sha256(shards).hexdigest()}", flush=True)
