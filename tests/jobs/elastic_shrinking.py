"""A DDP training whose nodes go on without one that lacks a rank: elastic_shrinking.py [batch|global] [fails].

Notes in $DIR/events, each line "GENERATION RANK WORD…": `up PID WORLD` in each generation, and of each step that counts
`stepped STEP WORLD EPOCH BEFORE AFTER TIME`: what the sampler has consumed. It trains until the file $DIR/finish is there.
`fails`: whoever is started outside of a generation, when $DIR/fails is there, ends with 3 before it has made its Elastic. Prints "end
PID STEPS HASH" of the parameters."""
import hashlib
import os
import sys
import time

DIR = os.environ["DIR"]
if "fails" in sys.argv and os.path.exists(os.path.join(DIR, "fails")) and os.environ["CXXRUN_GENERATION"] == "1":
    sys.exit(3)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from cxxrun.torch import Elastic, ElasticSampler

SIZE = 509
FOREVER = 1 << 30


def note(*words):
    with open(os.path.join(DIR, "events"), "a") as file:
        file.write(" ".join(map(str, (job.generation, dist.get_rank(), *words))) + "\n")


torch.set_num_threads(1)
job = Elastic(policy="shrink")
torch.manual_seed(1)
inputs, labels = torch.randn(SIZE, 8), torch.randn(SIZE, 1)
torch.manual_seed(os.getpid())  # whoever is new knows nothing of the state
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = ElasticSampler(SIZE, **({"global_batch": 12} if "global" in sys.argv else {"batch": 3}))
job.track(model=model, optimizer=optimizer, data=data)
ddp = job.wrap(lambda: DDP(model))
steps, seen = FOREVER, 0
while job.running(steps):
    if job.generation != seen:
        seen = job.generation
        note("up", os.getpid(), job.world_size)
    before = data.state_dict()
    with job.step() as step:
        samples = data.next()
        over = torch.tensor([float(os.path.exists(os.path.join(DIR, "finish")))])
        dist.all_reduce(over)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(ddp(inputs[samples]), labels[samples], reduction="sum") * (
            data.weight / max(len(samples), 1))
        loss.backward()
        optimizer.step()
    if step.done:
        after = data.state_dict()
        place = before["consumed"] % SIZE if after["epoch"] == before["epoch"] else 0
        note("stepped", job.completed, job.world_size, after["epoch"], place, after["consumed"], time.monotonic())
        if over.item():
            steps = job.completed
    time.sleep(0.002)
digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest()
print(f"end {os.getpid()} {job.completed} {digest}", flush=True)
