"""A PyTorch script that hangs as it is told (told_hang.py). Each place that hangs has a line that python_hangs_test.py finds
by its comment."""
import io
import itertools
import os
import signal
import time

from told_hang import MINE, PAUSE, STEP, STEPS, for_ever, kind, note  # before torch: it installs

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

if not torch.__version__.startswith("1."):
    import torch._dynamo  # noqa: F401: DDP does it when the first one is made, while others may wait in a collective


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
    if MINE == "disk" and at >= STEP:
        note()
    while True:
        try:
            with open("/dev/full" if MINE == "disk" and at >= STEP else os.devnull, "wb") as file:
                file.write(state.getbuffer())
            return
        except OSError:
            time.sleep(0.1)


def main():
    torch.set_num_threads(1)
    loader = iter(DataLoader(Samples(), batch_size=2, num_workers=1 if kind == "data" else 0))
    first = next(loader)  # a helper starts as slowly as a rank: before any rank waits for another
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    parallel = DistributedDataParallel(model)
    for at, x in enumerate(itertools.chain([first], loader)):  # hangs: data
        y = parallel(x)
        if MINE == "backward" and at == STEP:
            y = Slow.apply(y)
        if MINE in ("stop", "mismatch") and at == STEP:
            note()
        if MINE == "stop" and at == STEP:
            os.kill(os.getpid(), signal.SIGSTOP)  # hangs: stop
        if MINE == "mismatch" and at == STEP:
            dist.barrier()  # hangs: mismatch
        y.sum().backward()
        time.sleep(PAUSE)
        if at % 4 == 3:
            if dist.get_rank() == 0:
                save(model, at)  # hangs: disk
            dist.barrier()
    print("ends", dist.get_rank(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":  # helpers of a DataLoader may import this
    main()
