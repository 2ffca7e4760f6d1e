"""The two launchers, as command lines: cxxrun, and the newest torchrun that is to be had. Both run in the same root and
with the same options, and show the workers' lines on the console behind a prefix, so that what is left is their own."""
import dataclasses
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
sys.path.insert(0, str(SUPPORT))
from torchrun import TORCHRUN  # noqa: E402

SLURM_LINE = r"(srun|slurmstepd[\w-]*): "
TODAYS = str(SUPPORT / "todays_torch")


@dataclasses.dataclass(frozen=True)
class Side:
    name: str
    version: str
    launcher: tuple
    own: str  # the field of a row that holds options for this side alone
    worker_line: str  # the prefix of what workers say

    def command(self, row, logs, meeting=("--standalone",)):
        return [*self.launcher, *meeting, "--nproc_per_node", str(row.nproc), "--max_restarts", "0", "--log_dir",
                str(logs), *row.both, *getattr(row, self.own), *row.program]

    def own_lines(self, console):
        """What the launcher itself says, not the workers and not Slurm. Pure."""
        return [line for line in console.splitlines() if not re.match(f"{self.worker_line}|{SLURM_LINE}", line)]


def meeting(endpoint, nodes, index=None):
    """How several agents find each other."""
    rank = [] if index is None else ["--node_rank", str(index)]
    return ["--nnodes", str(nodes), "--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint, "--rdzv_id", "failures",
            *rank]


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def root():
    """(words before every command, torchrun's command without them or None, its release)"""
    code, version = output(TODAYS, "version")
    if code == 0:
        return (TODAYS, "run"), ("/usr/bin/python3", "-m", "torch.distributed.run"), version
    code, version = output("/usr/bin/python3", "-c", "import torch.distributed.run, torch; print(torch.__version__)")
    return (), ("/usr/bin/python3", "-c", TORCHRUN) if code == 0 else None, version


def sides(cxxrun):
    """cxxrun, and torchrun or None."""
    before, torchrun, version = root()
    _, own_version = output(cxxrun, "--version")
    ours = Side("cxxrun", own_version.split()[-1], (*before, cxxrun), "cxxrun", r"\[[^\]\s]+:\d+\] ")
    theirs = Side("torchrun", version, (*before, *torchrun), "torchrun", r"\[default\d+\]:") if torchrun else None
    return ours, theirs
