"""Knows Slurm and nothing else: rank, size and local rank are Slurm's own variables."""
import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["SLURM_PROCID"])
    world = int(os.environ["SLURM_NTASKS"])
    local_rank = int(os.environ["SLURM_LOCALID"])
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank % torch.cuda.device_count()) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo", rank=rank, world_size=world)

    weight = torch.zeros(4, device=device)
    for step in range(1, 4):
        generator = torch.Generator().manual_seed(100 * step + rank)
        x = torch.randn(8, 4, generator=generator).to(device)
        error = x @ weight - x.sum(dim=1)
        both = torch.cat([2 * error @ x / len(x), error.square().mean().reshape(1)])
        dist.all_reduce(both)
        both /= world
        weight -= 0.1 * both[:-1]
        print(f"task {rank} of {world} on {os.environ['SLURMD_NODENAME']}, local {local_rank}: "
              f"step {step} loss {both[-1].item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
