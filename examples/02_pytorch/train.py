"""Trains a small model with DistributedDataParallel, and goes on from its checkpoint when it is restarted."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


def load(path, model, optimizer):
    """The number of finished steps."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["steps"]


def save(path, model, optimizer, steps):
    """Written beside and renamed: whenever this process is killed, a whole checkpoint is there."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps}, path + ".new")
    os.replace(path + ".new", path)


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

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    done = load(arguments.checkpoint, model, optimizer)
    ddp = DistributedDataParallel(model)
    if rank == 0 and done:
        print(f"goes on after step {done}", flush=True)

    for step in range(done + 1, arguments.steps + 1):
        x, y = (tensor.to(device) for tensor in batch(step, rank))
        loss = torch.nn.functional.mse_loss(ddp(x), y)
        optimizer.zero_grad()
        loss.backward()
        mean = mean_over_ranks(loss)
        optimizer.step()
        if rank == 0:
            print(f"step {step}: loss {mean:.4f} over {dist.get_world_size()} ranks", flush=True)
            save(arguments.checkpoint, model, optimizer, step)
        time.sleep(arguments.pause_ms / 1000)

    weights = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
    print(f"rank {rank} ends with weights {weights:.9f}", flush=True)
    dist.barrier()
    del ddp  # before its group: where gloo ends with the last DistributedDataParallel, torch 1.13 may hang
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
