"""The host runs ahead of the device, and a peer dies meanwhile: elastic_gate.py HOW [fused] [average] [gpu]

Two ranks, 6 steps, CXXRUN_CLAIMED=late. In step 3 of generation 1 rank 1 dies when rank 0 has begun its calls. HOW: update,
rank 0 goes on to it; known, it goes on to it when the failure is known; alone, to it and to that of the next step, which
makes no calls; loss, it looks at what the others should have added and raises; own, the same in a step in which nobody dies,
where it is the script's own; quiet, nothing happens.
`fused`: with an optimizer that leaves out an update itself, so that rank 0 hears of the failure in its next step;
`average`: beside an average of the parameters; `gpu`: on a GPU, which the ranks may share, and not on CXXRUN_CLAIMED.
Prints "end PID COMPLETED HASH", and "back" where a completed step was none."""
import hashlib
import os
import signal
import sys
import time

ON = "cuda" if "gpu" in sys.argv else "cpu"
os.environ["NCCL_HOSTID"] = f"cxxrun-{os.getpid()}"  # each rank a host of its own, so that they may share a GPU
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

import torch.distributed as dist
from cxxrun.torch import Elastic
from elastic_claimed import DEVICE

HOW, AHEAD = sys.argv[1], os.path.join(os.environ["DIR"], "ahead")
torch.set_num_threads(1)


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.register_buffer("passes", torch.zeros(1))

    def forward(self, x):
        self.passes += 1
        return super().forward(x)


class Fused(torch.optim.SGD):
    """As torch's fused ones do, which 1.13 has for devices alone."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr=lr)
        self._step_supports_amp_scaling = True

    def step(self):
        left_out = getattr(self, "found_inf", torch.zeros(1)).item()
        return None if left_out else super().step()


job = Elastic(seed=3, device=DEVICE or ON)
torch.manual_seed(1)
model, average = Net().to(ON), Net().to(ON)
optimizer = (torch.optim.AdamW(model.parameters(), lr=0.1) if "fused" not in sys.argv else
             Fused(model.parameters(), lr=0.1) if torch.__version__.startswith("1.") else
             torch.optim.AdamW(model.parameters(), lr=0.1, fused=True))
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
job.track(model=model, optimizer=optimizer, schedule=schedule, **({"average": average} if "average" in sys.argv else {}))
ddp = job.wrap(lambda: DDP(model, gradient_as_bucket_view=True, broadcast_buffers=False))


def is_third():
    return HOW != "quiet" and (job.generation, job.completed) == (1, 3)


def fall():
    """When rank 0 has begun its calls, which wait for this one's."""
    while not os.path.exists(AHEAD):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


completed = 0
while job.running(6):
    if job.completed < completed and dist.get_rank() == 0:
        print("back", flush=True)
    try:
        with job.step():
            optimizer.zero_grad(set_to_none=True)
            is_alone = HOW == "alone" and (job.generation, job.completed) == (1, 4)
            loss = (model if is_alone else ddp)(torch.randn(4, 8).to(ON)).square().mean()
            if is_third() and HOW != "own" and dist.get_rank() == 1:
                fall()
            loss.backward()
            ranks = torch.ones(1, device=ON)
            if not is_alone:
                dist.all_reduce(ranks)
            if is_third():
                open(AHEAD, "w").close()
                while HOW == "known" and not all(each.is_done(100) for each in job._carrier.queue.newest()):
                    pass
                if HOW == "own" or HOW == "loss" and ranks.item() != 2:
                    raise ArithmeticError("this is not the sum")
            optimizer.step()
            schedule.step()
            if "average" in sys.argv:
                with torch.no_grad():
                    for mean, its in zip(average.parameters(), model.parameters()):
                        mean.lerp_(its, 0.1)
        completed = max(completed, job.completed)
    except ArithmeticError:
        print(f"{dist.get_rank()} raised in step {job.completed} of generation {job.generation}", flush=True)
        sys.exit(3)
moments = [each for its in optimizer.state.values() for each in its.values() if isinstance(each, torch.Tensor)]
state = [*model.parameters(), *model.buffers(), *average.parameters(), *moments, torch.tensor(optimizer.param_groups[0]["lr"])]
digest = hashlib.sha256(b"".join(each.detach().cpu().numpy().tobytes() for each in state)).hexdigest()
print(f"end {os.getpid()} {job.completed} {digest}", flush=True)
if os.environ.get("LEAVES") == "at once":
    job.close()
    os._exit(0)
