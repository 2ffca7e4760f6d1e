"""torchrun of Debian's torch 1.13 as a command line: [/usr/bin/python3, "-c", TORCHRUN, options…]"""
# It cannot parse its own --redirects on Python 3.11: iterating a Flag no longer yields members that are zero or a union.
# Only that parser is replaced, by what later releases of torch do.
TORCHRUN = """
import sys
import torch.distributed.run
from torch.distributed.elastic.multiprocessing import Std
def parse(cls, text):
    parts = [part.split(":") for part in text.split(",")]
    if len(parts[0]) == 1:
        return Std(int(text))
    return {int(rank): Std(int(value)) for rank, value in parts}
Std.from_str = classmethod(parse)
torch.distributed.run.main(sys.argv[1:])
"""
