"""python -m cxxrun.selftest: tells line by line whether install() works in this Python. Exit code 1: something does not.

Without a launcher it tries what it can; `cxxrun --standalone --max-restarts 0 -m cxxrun.selftest` tries everything."""
import os
import signal
import sys
import tempfile
from typing import Callable, List, Tuple

from cxxrun import _flight, _install, _process, _version, _watch

Row = Tuple[str, Callable[[], str]]


class Missing(Exception):
    """Not a fault; the text says what is missing."""


def _package() -> str:
    return f"{_version.VERSION} in {os.path.dirname(os.path.abspath(__file__))}, Python {sys.version.split()[0]}"


def _stack() -> str:
    _install.arm()
    if _install.armed() is None:
        raise Missing(f"signal {_install.SIGNAL} is the program's own: no Python stacks of this process")
    os.kill(os.getpid(), _install.SIGNAL)
    written = os.pread(_install.armed(), 1 << 16, 0).decode(errors="replace")
    if "in _stack" not in written:
        raise RuntimeError("faulthandler wrote no stack")
    return f"faulthandler answers signal {_install.SIGNAL} ({signal.strsignal(_install.SIGNAL)})"


def _torch() -> str:
    try:
        import torch
        import torch.distributed as dist
    except ImportError as missing:
        raise Missing(f"not here: {missing}") from None
    if not dist.is_available():
        raise Missing(f"torch {torch.__version__} was built without torch.distributed")
    return f"torch {torch.__version__}: " + _count(torch, dist)


def _count(torch: object, dist: object) -> str:
    with tempfile.NamedTemporaryFile() as file:
        alone = dist.FileStore(file.name, 1)  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=alone, rank=0, world_size=1)  # type: ignore[attr-defined]
        c10d = sys.modules["torch.distributed.distributed_c10d"]
        group = _watch.default_group(c10d)
        before = _watch.number_of(group)
        kept = torch.ones(3)  # type: ignore[attr-defined]  # outlives destroy_process_group(), which may hang otherwise in 2.6
        dist.all_reduce(kept)  # type: ignore[attr-defined]
        after = _watch.number_of(group)
        recorder = _flight.recorder()
        told = recorder is not None and _flight.told(recorder(), str(getattr(group, "group_name", "0")), 1) is not None
        dist.destroy_process_group()  # type: ignore[attr-defined]
    if before is None or after != before + 1:
        raise RuntimeError(f"an all_reduce took the sequence number from {before} to {after}")
    return "collectives are counted, " + ("its flight recorder tells what they are" if told else
                                          "what they are is read from stacks")


def _library() -> str:
    try:
        from cxxrun import _lib
    except ImportError as missing:
        if "cannot be loaded" in str(missing) and not os.environ.get("CXXRUN_LIBRARY"):
            raise Missing(f"{missing}; cxxrun.torch.Elastic alone needs it") from None
        raise
    samples, _ = _lib.sampler_next((0, 0, 0), 4, 0, 0, 1, 4)
    if sorted(samples) != [0, 1, 2, 3]:
        raise RuntimeError(f"the sampler gave {samples}")
    return f"{_lib.PLACE}, for cxxrun.torch.Elastic"


def _launcher() -> str:
    if not os.environ.get("CXXRUN_AGENT"):
        raise Missing("CXXRUN_AGENT is not set: not started by cxxrun")
    if _process.page() is None:
        raise RuntimeError(_process.why_not())
    return "the agent has given this process a page"


def main() -> int:
    rows: List[Row] = [("package", _package), ("stacks", _stack), ("torch", _torch), ("library", _library),
                       ("launcher", _launcher)]
    faults = 0
    for name, check in rows:
        try:
            print(f"ok       {name}: {check()}", flush=True)
        except Missing as missing:
            print(f"skipped  {name}: {missing}", flush=True)
        except Exception as error:  # whatever it is, the user wants to see it
            print(f"FAILED   {name}: {type(error).__name__}: {error}", flush=True)
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
