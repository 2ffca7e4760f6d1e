"""Runs in a container, takes its GPU from --local-rank and the rest from the environment."""
import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", type=int, required=True)
    local_rank = parser.parse_args().local_rank
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    weight = torch.zeros(4, device=device)
    for step in range(1, 4):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(100 * step + rank)).to(device)
        error = x @ weight - x.sum(dim=1)
        both = torch.cat([2 * error @ x / len(x), error.square().mean().reshape(1)])
        dist.all_reduce(both)
        both /= world
        weight -= 0.1 * both[:-1]
        print(f"rank {rank} of {world}, local rank {local_rank}, in {os.environ.get('APPTAINER_NAME', 'no container')}: "
              f"step {step} loss {both[-1].item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
