"""A PyTorch program as people write it for a cluster: DDP, a DataLoader with helpers, and a SIGTERM handler that lets the
loop end, evaluate and save, as it does after each epoch. What it does it tells line by line into the FIFO $TOLD:
torch_stops_test.py stops it at one of these lines. Usage: saving_trainer.py DIRECTORY CONTEXT"""
import os
import signal
import sys

RANK = int(os.environ["RANK"])
TOLD = os.open(os.environ["TOLD"], os.O_WRONLY)


def tell(*words):
    os.write(TOLD, (" ".join(map(str, (RANK, *words))) + "\n").encode())


if __name__ == "__main__":
    tell("import")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

if os.environ.get("CXXRUN_PACKAGE"):
    sys.path.insert(0, os.environ["CXXRUN_PACKAGE"])
    import cxxrun
else:
    cxxrun = None


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        point = torch.full((8,), index / 64)
        return point, point.sum().reshape(1)


def loader(context):
    return DataLoader(Samples(), batch_size=8, num_workers=2, multiprocessing_context=context)


def agreed(wanted):
    """All ranks stop after the same step."""
    flag = torch.tensor(float(bool(wanted)))
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag)


def evaluate(model, context):
    """Needs helpers of its own, as those of training may be in the middle of an epoch."""
    tell("evaluate")
    with torch.no_grad():
        return sum(float((model(x) - y).square().sum()) for x, y in loader(context))


def save(path, **what):
    tell("save")
    torch.save(what, path + ".new")
    os.rename(path + ".new", path)


def main(directory, context):
    stop = []
    if cxxrun is None:
        signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if cxxrun is not None:
        cxxrun.checkpoint_wanted()
    model = torch.nn.Linear(8, 1)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)
    tell("ready")
    step = 0
    while True:
        tell("epoch")
        for x, y in loader(context):
            tell("batch")
            optimizer.zero_grad()
            loss = (ddp(x) - y).square().mean()
            tell("forward")
            loss.backward()
            tell("backward")
            optimizer.step()
            step += 1
            tell("step")
            if agreed(stop) if cxxrun is None else cxxrun.checkpoint_wanted() and cxxrun.job_ends():
                save(f"{directory}/rank{RANK}.pt", step=step, model=model.state_dict(), loss=evaluate(model, context))
                dist.destroy_process_group()
                return
        save(f"{directory}/epoch{RANK}.pt", step=step, loss=evaluate(model, context))


if __name__ == "__main__":
    main(*sys.argv[1:])
