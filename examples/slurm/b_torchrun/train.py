"""A trainer class that goes on from its snapshot: the usual shape of a script for torchrun."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def set_up():
    """Returns this process's device; the process group takes everything else from the environment."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
        return device
    dist.init_process_group("gloo")
    return torch.device("cpu")


def make_data():
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(256, 6, generator=generator)
    return TensorDataset(x, x.sum(dim=1, keepdim=True))


class Trainer:
    def __init__(self, model, data, optimizer, device, save_every, snapshot_path):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.rank = int(os.environ["RANK"])
        self.data = data
        self.optimizer = optimizer
        self.device = device
        self.save_every = save_every
        self.snapshot_path = snapshot_path
        self.epochs_done = 0
        if os.path.exists(snapshot_path):
            self.load_snapshot(model)
        self.model = DistributedDataParallel(model)

    def load_snapshot(self, model):
        snapshot = torch.load(self.snapshot_path, map_location=self.device)
        model.load_state_dict(snapshot["model"])
        self.optimizer.load_state_dict(snapshot["optimizer"])
        self.epochs_done = snapshot["epochs"]
        print(f"rank {self.rank} resumes after epoch {self.epochs_done}", flush=True)

    def save_snapshot(self):
        """Renamed into place: whenever a process is killed, a whole snapshot is there."""
        snapshot = {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "epochs": self.epochs_done}
        torch.save(snapshot, self.snapshot_path + ".new")
        os.replace(self.snapshot_path + ".new", self.snapshot_path)

    def run_epoch(self):
        self.data.sampler.set_epoch(self.epochs_done)
        total = torch.zeros(1, device=self.device)
        for x, y in self.data:
            x, y = x.to(self.device), y.to(self.device)
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        return total.item() / len(self.data) / dist.get_world_size()

    def train(self, epochs, pause):
        while self.epochs_done < epochs:
            loss = self.run_epoch()
            self.epochs_done += 1
            print(f"rank {self.rank} of {dist.get_world_size()} (local {self.local_rank}, "
                  f"restart {os.environ['TORCHELASTIC_RESTART_COUNT']}): epoch {self.epochs_done} loss {loss:.6f}",
                  flush=True)
            if self.rank == 0 and self.epochs_done % self.save_every == 0:
                self.save_snapshot()
            time.sleep(pause)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("epochs", type=int)
    parser.add_argument("--save-every", type=int, default=1)
    parser.add_argument("--snapshot", default="snapshot.pt")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each epoch, as if it were a long one")
    arguments = parser.parse_args()

    device = set_up()
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    dataset = make_data()
    data = DataLoader(dataset, batch_size=16, sampler=DistributedSampler(dataset))
    trainer = Trainer(model, data, optimizer, device, arguments.save_every, arguments.snapshot)
    trainer.train(arguments.epochs, arguments.pause)
    del trainer  # its model before the group: where gloo ends with the last DistributedDataParallel, torch 1.13 may hang
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
