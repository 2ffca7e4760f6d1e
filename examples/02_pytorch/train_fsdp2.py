"""Trains a small model whose parameters, gradients and optimizer are sharded over all ranks (FSDP2), and goes on from
its checkpoint when it is restarted: the whole state, gathered and written by rank 0. For PyTorch 2.6 or later.

Nothing in it knows cxxrun: ranks, world size and the place to meet come from the environment, as under torchrun."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard

WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def sharded_model(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                                torch.nn.Linear(64, 1)).to(device)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def load(path, model, optimizer):
    """The number of finished steps."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path, map_location="cpu", mmap=True)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=WHOLE)
    return state["steps"]


def save(path, model, optimizer, steps):
    """Called by all ranks. Written beside and renamed: whenever a process is killed, a whole checkpoint is there."""
    model_state, optimizer_state = get_state_dict(model, optimizer, options=WHOLE)
    if dist.get_rank() == 0:
        torch.save({"model": model_state, "optimizer": optimizer_state, "steps": steps}, path + ".new")
        os.replace(path + ".new", path)


def batch(step, rank):
    """A batch of its own for every step and rank; the function to learn is y = sum(x)."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(16, 8, generator=generator)
    return x, x.sum(dim=1, keepdim=True)


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--pause-ms", type=int, default=0)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    arguments = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    rank = dist.get_rank()

    model = sharded_model(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    done = load(arguments.checkpoint, model, optimizer)
    if rank == 0 and done:
        print(f"goes on after step {done}", flush=True)

    for step in range(done + 1, arguments.steps + 1):
        x, y = (tensor.to(device) for tensor in batch(step, rank))
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        save(arguments.checkpoint, model, optimizer, step)
        if rank == 0:
            print(f"step {step}: loss {mean.item() / dist.get_world_size():.4f} over {dist.get_world_size()} ranks",
                  flush=True)
        time.sleep(arguments.pause_ms / 1000)

    weights = sum(parameter.full_tensor().double().sum().item() for parameter in model.parameters())
    print(f"rank {rank} ends with weights {weights:.9f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
