"""Trains a small model sharded over all ranks, and writes checkpoints with torch.distributed.checkpoint: each rank its
own part, in the background while training goes on. Restarted, it goes on from the newest that is whole. For PyTorch 2.6
or later.

Nothing in it knows cxxrun: ranks, world size and the place to meet come from the environment, as under torchrun."""
import argparse
import os
import pathlib
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard


class Training(Stateful):
    """What a checkpoint holds."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.steps = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.steps = state["steps"].item()


def newest(folder):
    """The last checkpoint that is whole: the metadata is written, and renamed, when all ranks have written theirs."""
    whole = [path.parent for path in pathlib.Path(folder).glob("step-*/.metadata")]
    return max(whole, default=None)


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
    parser.add_argument("--checkpoint", default="checkpoints")
    arguments = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    savers = dist.new_group(backend="gloo")  # what is said while saving does not mix with training

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
    model = fully_shard(model, mesh=init_device_mesh(device, (world,)))
    training = Training(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    if path := newest(arguments.checkpoint):
        dcp.load({"training": training}, checkpoint_id=path)
        if rank == 0:
            print(f"goes on after step {training.steps}", flush=True)
    dist.barrier()  # nobody writes before all have found the same checkpoint

    saving = None
    while training.steps < arguments.steps:
        step = training.steps + 1
        x, y = (tensor.to(device) for tensor in batch(step, rank))
        loss = torch.nn.functional.mse_loss(model(x), y)
        training.optimizer.zero_grad()
        loss.backward()
        training.optimizer.step()
        training.steps = step
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if saving is not None:
            saving.result()  # one at a time
        saving = dcp.async_save({"training": training}, checkpoint_id=f"{arguments.checkpoint}/step-{step:06}",
                                process_group=savers)
        if rank == 0:
            print(f"step {step}: loss {mean.item() / world:.4f} over {world} ranks", flush=True)
        time.sleep(arguments.pause_ms / 1000)
    if saving is not None:
        saving.result()

    weights = sum(parameter.full_tensor().double().sum().item() for parameter in model.parameters())
    print(f"rank {rank} ends with weights {weights:.9f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
