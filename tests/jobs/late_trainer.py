"""Trains with DistributedDataParallel over gloo, unmodified; its layers and its data sleep, as if a device computed and files were
read.
Usage: late_trainer.py DIR computing|input RANK FACTOR: what that rank takes so many times as long for."""
import os
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

DIR, KIND, LATE, FACTOR = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
RANK = int(os.environ["RANK"])
UNIT = 0.012  # seconds
random.seed(RANK)
torch.manual_seed(0)


def spend(units, kind):
    late = FACTOR if RANK == LATE and kind == KIND else 1.0
    time.sleep(UNIT * units * late * random.lognormvariate(0, 0.05))


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        spend(1, "computing")
        return x @ weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        spend(2, "computing")
        return gradient @ weight.t(), x.t() @ gradient


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.randn(64, 64) / 8) for _ in range(6))

    def forward(self, x):
        for weight in self.weights:
            x = Layer.apply(x, weight)
        return x.square().mean()


class Data(Dataset):
    def __len__(self):
        return 10**9

    def __getitem__(self, index):
        if index % 4 == 0:
            spend(10, "input")  # a batch
        return torch.zeros(64)


dist.init_process_group("gloo")
model = DistributedDataParallel(Model())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step, batch in enumerate(DataLoader(Data(), batch_size=4), 1):
    optimizer.zero_grad()
    model(batch).backward()
    optimizer.step()
    if step == 10 and RANK == 0:
        with open(DIR + "/trains", "w") as file:
            file.write(str(time.time()))
