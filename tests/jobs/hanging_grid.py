"""Four ranks, tensor x data parallel: pairs of neighbours add up in their group, and ranks in the same place of two pairs
in another one. It hangs as it is told (told_hang.py), in lines that python_hangs_test.py finds by their comments."""
import os
import signal
import time

from told_hang import MINE, PAUSE, STEP, STEPS, for_ever, note  # before torch: it installs

import torch
import torch.distributed as dist
from cxxrun import _page, _process


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    mine, other = pairs[dist.get_rank() // 2], across[dist.get_rank() % 2]
    while _process.page().get(_page.GROUP_WORDS + 24) == 0:  # a rank that is stopped shows what was seen of it before
        time.sleep(0.01)
    x = torch.ones(64)
    for at in range(STEPS):
        hangs = MINE if at == STEP else "none"
        if hangs == "tensor":
            for_ever()  # hangs: tensor
        earlier = dist.all_reduce(x.clone(), group=other, async_op=True)
        if hangs == "between":
            for_ever()  # hangs: between
        dist.all_reduce(x, group=mine)
        if hangs == "stopped":
            note()
            os.kill(os.getpid(), signal.SIGSTOP)  # hangs: stopped
        earlier.wait()
        x /= 2
        time.sleep(PAUSE)
    print("ends", dist.get_rank(), flush=True)
    dist.destroy_process_group()


main()
