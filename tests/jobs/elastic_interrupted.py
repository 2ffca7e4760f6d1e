"""Two ranks: rank 1 kills itself behind the last step, which both have saved, and the one that takes its place waits at the
gate `newcomer`. Rank 0 is interrupted meanwhile, and goes on as a person does who runs the loop again, and then for more
steps."""
import os
import signal


def note(*words):
    with open(os.path.join(os.environ["DIR"], "events"), "a") as file:
        file.write(" ".join(map(str, (os.environ["CXXRUN_GENERATION"], os.environ["RANK"], *words))) + "\n")


if os.environ["CXXRUN_GENERATION"] == "2":
    note("waits")
    open(os.path.join(os.environ["DIR"], "newcomer")).close()

import torch

import torch.distributed as dist
from cxxrun.torch import Elastic

os.chdir(os.environ["DIR"])
job = Elastic(checkpoint="checkpoint")
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job.track(model=model, optimizer=optimizer)
ddp = job.wrap(lambda: torch.nn.parallel.DistributedDataParallel(model))


def train():
    for steps in (3, 6):
        while job.running(steps):
            with job.step():
                optimizer.zero_grad()
                ddp(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            if job.completed == 3:
                job.save()
                if (job.generation, dist.get_rank()) == (1, 1):
                    os.kill(os.getpid(), signal.SIGKILL)


note("trains", os.getpid())
while True:
    try:
        train()
        break
    except KeyboardInterrupt:
        note("interrupted", job.completed)
note("ends", os.getpid(), job.completed, job.generation)
