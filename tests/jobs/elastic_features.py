"""What of torch's own works in the group that survives, as under torchrun: elastic_features.py [gloo]. Two ranks.

Prints "RANK NAME HASH" of what each feature has trained; with `gloo` in torch's group, to be compared."""
import contextlib
import hashlib
import os
import sys

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

import torch.distributed as dist

torch.set_num_threads(1)
IS_GLOO = "gloo" in sys.argv
STEPS = 4
SCALER = torch.amp.GradScaler("cpu", init_scale=1024.0) if hasattr(torch.amp, "GradScaler") else None


class Net(torch.nn.Module):
    def __init__(self, norm=torch.nn.BatchNorm1d):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 8), norm(8), torch.nn.Tanh())
        self.head, self.unused = torch.nn.Linear(8, 3), torch.nn.Linear(8, 3)

    def forward(self, x, other=False):
        hidden = self.body(x)
        return self.unused(hidden) if other else self.head(hidden)


class Other(torch.nn.Module):
    """Every parameter is used twice, as with activation checkpointing."""

    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(6, 6)

    def forward(self, x):
        return self.one(self.one(x))


class Large(torch.nn.Module):
    """Its buckets move to memory that the ranks share: in the third step, because torch makes them anew in the second."""

    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(6, 20000), torch.nn.Linear(20000, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x))) / 100


class Many(torch.nn.Module):
    """With a bucket for each parameter."""

    def __init__(self):
        super().__init__()
        self.each = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(6)) for _ in range(1500))

    def forward(self, x):
        return sum(x @ (each * number / 1e6) for number, each in enumerate(self.each))


def inputs(step, rank):
    torch.manual_seed(1000 * step + rank)
    return torch.randn(5, 6)


def plain(ddp, optimizer, step):
    ddp(inputs(step, dist.get_rank())).square().sum().backward()
    optimizer.step()


def no_sync(ddp, optimizer, step):
    with ddp.no_sync():
        ddp(inputs(step, dist.get_rank())).square().sum().backward()
    plain(ddp, optimizer, step + 100)


def unused(ddp, optimizer, step):
    ddp(inputs(step, dist.get_rank()), other=(step + dist.get_rank()) % 2 == 0).square().sum().backward()
    optimizer.step()


def clip(ddp, optimizer, step):
    ddp(inputs(step, dist.get_rank())).square().sum().backward()
    torch.nn.utils.clip_grad_norm_(ddp.parameters(), 0.5)
    optimizer.step()


def scaler(ddp, optimizer, step):
    """In the third step one rank's loss is infinite, and no rank makes an update. That of 1.13 is for GPUs; this is its
    rule."""
    loss = ddp(inputs(step, dist.get_rank())).square().sum() * (float("inf") if (step, dist.get_rank()) == (2, 1) else 1)
    if hasattr(torch.amp, "GradScaler"):
        SCALER.scale(loss).backward()
        SCALER.step(optimizer)
        SCALER.update()
    else:
        (1024 * loss).backward()
        if all(torch.isfinite(each.grad).all() for each in ddp.parameters()):
            for each in ddp.parameters():
                each.grad.div_(1024.0)
            optimizer.step()


def hooked(ddp):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    ddp.register_comm_hook(None, default_hooks.allreduce_hook)
    return ddp


def in_small_buckets(module):
    its, dist._DEFAULT_FIRST_BUCKET_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES, 24
    try:
        return DDP(module, bucket_cap_mb=24 / (1 << 20))
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = its


def in_files(ddp):
    """A bucket would not begin with a page then."""
    torch.multiprocessing.set_sharing_strategy("file_system")
    return ddp


def in_group(module):
    return DDP(module, process_group=[dist.new_group([0, 1]), dist.new_group([0])][0])


CASES = {  # what is made, its step
    "plain": (Net, lambda module: DDP(module, find_unused_parameters=True), plain),
    "buffers_broadcast": (Net, lambda module: DDP(module, broadcast_buffers=True, find_unused_parameters=True), plain),
    "buffers_own": (Net, lambda module: DDP(module, broadcast_buffers=False, find_unused_parameters=True), plain),
    "no_sync": (Other, DDP, no_sync),
    "find_unused_parameters": (Net, lambda module: DDP(module, find_unused_parameters=True), unused),
    "static_graph": (Other, lambda module: DDP(module, static_graph=True), plain),
    "gradient_as_bucket_view": (Other, lambda module: DDP(module, gradient_as_bucket_view=True), plain),
    "large": (Large, DDP, plain),
    "large_view": (Large, lambda module: DDP(module, gradient_as_bucket_view=True), plain),
    "large_static": (Large, lambda module: DDP(module, static_graph=True), plain),
    "many_buckets": (Many, in_small_buckets, plain),
    "file_system": (Large, lambda module: in_files(DDP(module)), plain),
    "clip_grad_norm_": (Other, DDP, clip),
    "GradScaler": (Other, DDP, scaler),
    "allreduce_hook": (Other, lambda module: hooked(DDP(module)), plain),
    "new_group": (Other, in_group, plain),
}


def torchs_files():
    """Blocks of 512 bytes in /dev/shm that this process keeps, of each of torch's files."""
    sizes = {}
    for entry in os.scandir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            sizes[os.readlink(entry.path)] = os.stat(entry.path).st_blocks
    return {name: blocks for name, blocks in sizes.items() if name.startswith("/dev/shm/torch_") and blocks}


def train(job, name):
    kind, wrap, do = CASES[name]
    torch.manual_seed(dist.get_rank())  # DDP gives all the parameters of rank 0
    module = kind()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.5)
    if job is None:
        ddp = wrap(module)
    else:
        ddp = job.again(name, module, optimizer, wrap)
    for step in range(STEPS):
        with job.step() if job is not None else contextlib.nullcontext():
            optimizer.zero_grad()
            do(ddp, optimizer, step)
        if job is not None and step >= 2:
            shared = job._carrier._buckets
            assert (shared is not None and len(shared._moved) > 0) == name.startswith("large"), (name, step)
            assert not torchs_files(), torchs_files()
    torch.multiprocessing.set_sharing_strategy("file_descriptor")
    tensors = [*module.parameters(), *module.buffers()]
    digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in tensors)).hexdigest()
    print(f"{dist.get_rank()} {name} {digest}", flush=True)


def ask_for_ranks():
    """What scripts do with the rank, without being told it."""
    mine = torch.utils.data.distributed.DistributedSampler(range(11), seed=5)
    print(f"{dist.get_rank()} DistributedSampler {','.join(map(str, mine))}", flush=True)
    if dist.get_rank() == 0:
        print("0 get_rank() saves", flush=True)


if IS_GLOO:
    dist.init_process_group("gloo")
    for name in CASES:
        train(None, name)
    ask_for_ranks()
    dist.destroy_process_group()
else:
    from cxxrun.torch import Elastic, _updates

    class Job(Elastic):
        """A feature after the other in one job."""

        def again(self, name, module, optimizer, wrap):
            self._tracked.clear()
            self._updates = _updates.Updates(self._carrier, self._tracked)
            self._wrapped.clear()
            self.track(module=module, optimizer=optimizer, **({"scaler": SCALER} if SCALER else {}))
            ddp = self.wrap(lambda: wrap(module))
            assert self.running(1 << 30)
            return ddp

    job = Job(seed=None)
    for name in CASES:
        train(job, name)
    ask_for_ranks()

    def refused(what, call):
        try:
            call()
        except Exception as error:
            assert what in str(error), (what, error)
        else:
            raise AssertionError(f"{what} was not refused")
        print(f"{dist.get_rank()} {what}: refused", flush=True)

    # SyncBatchNorm is for GPUs everywhere.
    synced = torch.nn.SyncBatchNorm.convert_sync_batchnorm(Net())
    refused("SyncBatchNorm", lambda: DDP(synced, find_unused_parameters=True)(torch.randn(5, 6)))
    from torch.distributed.optim import ZeroRedundancyOptimizer
    parameters = Other().parameters()
    refused("ZeroRedundancyOptimizer", lambda: job.track(
        zero=ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.SGD, lr=0.1)))
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    def with_power_sgd():
        module = Other()
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def make(its):
            ddp = DDP(its)
            ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
            return ddp

        ddp = job.again("powerSGD_hook", module, optimizer, make)
        for step in range(STEPS):
            with job.step():
                optimizer.zero_grad()
                plain(ddp, optimizer, step)

    refused("powerSGD_hook", with_power_sgd)
    refused("send is", lambda: dist.send(torch.zeros(1), 1 - dist.get_rank()))
    job.close()
