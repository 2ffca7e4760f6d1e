"""A PyTorch script that hangs as it is told: in generation N as the Nth of its arguments says, KIND:RANK:STEP, and not at
all after the last. Each place that hangs has a line that python_hangs_test.py finds by its comment."""
import io
import os
import signal
import sys
import time

if os.environ.get("CXXRUN_PACKAGE"):
    sys.path.insert(0, os.environ["CXXRUN_PACKAGE"])
    import cxxrun
    cxxrun.install()

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = 12
kind, rank, step = (sys.argv + ["none:0:0"] * 9)[int(os.environ["CXXRUN_GENERATION"])].split(":")
MINE = kind if int(rank) == int(os.environ["RANK"]) else "none"
STEP = int(step)


def for_ever():
    while True:
        time.sleep(1000)


class Samples(Dataset):
    def __len__(self):
        return 2 * STEPS

    def __getitem__(self, number):
        if MINE == "data" and number // 2 == STEP:
            for_ever()
        return torch.full((64,), 1.0 + number)


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        for_ever()  # hangs: backward


def save(model, at):
    """As on a full disk, where a save is tried again."""
    state = io.BytesIO()
    torch.save(model.state_dict(), state)
    while True:
        try:
            with open("/dev/full" if MINE == "disk" and at >= STEP else os.devnull, "wb") as file:
                file.write(state.getbuffer())
            return
        except OSError:
            time.sleep(0.1)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    parallel = DistributedDataParallel(model)
    helpers = 1 if kind == "data" else 0
    for at, x in enumerate(DataLoader(Samples(), batch_size=2, num_workers=helpers)):  # hangs: data
        y = parallel(x)
        if MINE == "backward" and at == STEP:
            y = Slow.apply(y)
        if MINE == "stop" and at == STEP:
            os.kill(os.getpid(), signal.SIGSTOP)  # hangs: stop
        if MINE == "mismatch" and at == STEP:
            dist.barrier()  # hangs: mismatch
        y.sum().backward()
        if at % 4 == 3:
            if dist.get_rank() == 0:
                save(model, at)  # hangs: disk
            dist.barrier()
    print("ends", dist.get_rank(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":  # helpers of a DataLoader may import this
    main()
