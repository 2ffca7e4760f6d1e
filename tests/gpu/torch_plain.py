"""A script of a user's, without a line of cxxrun: DDP over torch's own nccl, or gloo where torch has no GPU. Each rank
says "pid RANK PID", rank 0 "step NUMBER PID SCRIPT IMPORTED GROUP NOW" (times of the machine) after each step."""
import os
import time

os.environ["NCCL_HOSTID"] = f"cxxrun-{os.getpid()}"
began = time.monotonic()
import torch

import torch.distributed as dist

imported = time.monotonic()
print(f"pid {os.environ['RANK']} {os.getpid()}", flush=True)
ON, WIDTH = ("cuda", 1024) if torch.cuda.is_available() else ("cpu", 16)
if ON == "cuda":
    torch.cuda.set_device(0)
dist.init_process_group("nccl" if ON == "cuda" else "gloo")
grouped = time.monotonic()
torch.manual_seed(1)
model = torch.nn.Sequential(*[each for _ in range(4) for each in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())],
                            torch.nn.Linear(WIDTH, 16)).to(ON)
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
for step in range(100000):
    loss = ddp(torch.randn(64, WIDTH, device=ON)).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    loss.item()
    if dist.get_rank() == 0:
        print(f"step {step} {os.getpid()} {began:.3f} {imported:.3f} {grouped:.3f} {time.monotonic():.3f}", flush=True)
