"""Trains a small model with DistributedDataParallel, and keeps its processes when a rank dies."""
import argparse
import time

import torch
import torch.distributed as dist
from cxxrun.torch import Elastic
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


def batch(step, rank):
    """A batch of its own for every step and rank; the function to learn is y = sum(x)."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(16, 8, generator=generator)
    return x, x.sum(dim=1, keepdim=True)


def mean_over_ranks(value):
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--pause-ms", type=int, default=0)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    arguments = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    job = Elastic(arguments.checkpoint, device=device)
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    job.track(model=model, optimizer=optimizer)
    ddp = job.wrap(lambda: DistributedDataParallel(model))

    while job.running(arguments.steps):
        step, rank = job.completed + 1, dist.get_rank()  # another rank where nodes have gone or come
        with job.step():
            x, y = (tensor.to(device) for tensor in batch(step, rank))
            loss = torch.nn.functional.mse_loss(ddp(x), y)
            optimizer.zero_grad()
            loss.backward()
            mean = mean_over_ranks(loss)
            optimizer.step()
            if rank == 0:
                print(f"step {step}: loss {mean:.4f} over {dist.get_world_size()} ranks", flush=True)
        if job.checkpoint_wanted():
            job.save()
        time.sleep(arguments.pause_ms / 1000)

    weights = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
    print(f"rank {rank} ends with weights {weights:.9f}", flush=True)


if __name__ == "__main__":
    main()
