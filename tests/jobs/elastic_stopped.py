"""Two ranks: rank 1 stops itself, and rank 0 waits for it: elastic_stopped.py backward|wanted

backward: for its part of DDP's backward pass; wanted: for its answer to checkpoint_wanted(). Rank 0 is interrupted there,
notes it, and that the loop cannot go on."""
import os
import signal
import sys
import threading

import torch

import torch.distributed as dist
from cxxrun.torch import Elastic

WHERE = sys.argv[1]


def note(*words):
    with open(os.path.join(os.environ["DIR"], "events"), "a") as file:
        file.write(" ".join(map(str, (os.environ["CXXRUN_GENERATION"], os.environ["RANK"], *words))) + "\n")


def tell():
    """When the main thread waits."""
    while True:
        frame = sys._current_frames()[threading.main_thread().ident]
        while frame is not None:
            if frame.f_code.co_name in ("wait", "await_end") and "cxxrun" in frame.f_code.co_filename:
                note("waits", os.getpid())
                return
            frame = frame.f_back


def meet(where):
    if (where, job.completed) == (WHERE, 3):
        if dist.get_rank() == 1:
            note("stops", os.getpid())
            os.kill(os.getpid(), signal.SIGSTOP)
        threading.Thread(target=tell, daemon=True).start()


job = Elastic()
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
job.track(model=model, optimizer=optimizer)
ddp = job.wrap(lambda: torch.nn.parallel.DistributedDataParallel(model))
try:
    while job.running(100):
        with job.step():
            optimizer.zero_grad()
            loss = ddp(torch.ones(1, 2)).sum()
            meet("backward")
            loss.backward()
            optimizer.step()
        meet("wanted")
        job.checkpoint_wanted(), job.checkpoint_wanted()  # the second one waits for what the first one has begun
except KeyboardInterrupt:
    note("interrupted")
    try:
        job.running(100)
    except RuntimeError as error:
        note("refused", "was interrupted" in str(error))
    os._exit(7)
