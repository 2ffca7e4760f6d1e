"""Trains with one process per Slurm task; each task sees only the GPU that Slurm bound to it."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def pick_device():
    """With --gpus-per-task=1 there is one visible GPU, whatever LOCAL_RANK is."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())


def main():
    device = pick_device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(1, 4):
        generator = torch.Generator().manual_seed(100 * step + rank)
        x = torch.randn(8, 4, generator=generator).to(device)
        loss = (model(x) - x.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        print(f"rank {rank} of {world} on {os.environ['SLURMD_NODENAME']}, local rank {os.environ['LOCAL_RANK']}: "
              f"step {step} loss {mean.item() / world:.6f}", flush=True)
    del model  # before its group: where gloo ends with the last DistributedDataParallel, torch 1.13 may hang
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
