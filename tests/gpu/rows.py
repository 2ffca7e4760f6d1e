"""The rows of tests/gpu/lease."""
import os
import shutil
import signal

import job
import torch_rows
import whole_stack
from machine import NO_GPU, Planned, Row

SANITIZERS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/nvidia/compute-sanitizer")


def alone(check):
    return lambda machine: machine.cell(machine.start(check))


def quick(row):
    def run(machine):
        before, machine.quick = machine.quick, True
        try:
            return row(machine)
        finally:
            machine.quick = before
    return run


def two_ranks(check, *second, repeats=False):
    """`second`: options of rank 1."""
    def row(machine):
        seconds = ["--seconds", machine.limit - 5] if repeats else []
        words = ["--id", machine.file("id"), *seconds]
        return machine.cell(*[machine.start(check, *words, *more, rank=rank) for rank, more in enumerate(((), second))])
    return row


def facts(machine):
    code, lines = machine.end(machine.start("facts"))
    if code != 0:
        raise Row(lines[0] if code == NO_GPU and lines else "; ".join(lines) or "nothing was said", code == NO_GPU)
    return lines[0]


def survival(machine):
    first, second = machine.file("id"), machine.file("id")
    survivor = machine.start("survival", "--id", first, "--next-id", second, rank=0)
    victim = machine.start("survival", "--id", first, "--next-id", second, "--dies", rank=1)
    replacement = machine.start("survival", "--id", second, rank=1)  # waits until the survivor wants it
    code, lines = machine.end(victim)
    if code != -signal.SIGKILL:
        raise Row(f"wrong: the rank that was to be killed ended with {code}: {lines[-1] if lines else 'nothing'}", False)
    return machine.cell(survivor, replacement)


def sanitizer(tool):
    def row(machine):
        program = shutil.which("compute-sanitizer", path=":".join((os.environ.get("PATH", ""), *SANITIZERS)))
        if program is None:
            raise Row("not run: there is no compute-sanitizer here", True)
        return machine.cell(*[machine.start(check, before=(program, "--tool", tool, "--error-exitcode", 9))
                              for check in ("kernels", "all-reduce", "overlap")], excuse="Device not supported")
    return quick(row)


def trainer(machine):
    machine.need(machine.trainer)
    code, lines = machine.end(machine.launch([machine.trainer, "--steps", 20]))
    last = (lines or ["nothing"])[-1]
    if code != 0:
        raise Row(f"wrong: ended with {code}: {last}", False)
    return last


def of_job(check, restarts=0, wanted=""):
    return lambda machine: job.check(machine, check, restarts, wanted)


# In the order in which they are worth a loan's time: what must be right and has never run on a GPU first, then what has,
# then what only a GPU can say.
ROWS = {
    "machine": Planned("the machine", 40, True, facts),
    "all-reduce-2": Planned("all_reduce, two ranks on one GPU", 45, True, two_ranks("all-reduce")),
    "survival": Planned("SIGKILL of one of two ranks: abort, rebuild", 30, True, survival),
    **torch_rows.FIRST,
    "all-reduce-1": Planned("all_reduce, one rank", 30, True, alone("all-reduce")),
    "kernels-quick": Planned("casts, products, squares of some floats: the CPU's bits", 30, True, quick(alone("kernels"))),
    "stack": Planned("the whole stack, two ranks on one GPU", 60, True, whole_stack.whole),
    "stack-kill": Planned("the same, a rank killed", 60, True, whole_stack.killed),
    "fault": Planned("a kernel of one rank fails: its end, rebuild", 40, False, of_job("fault", 1, ": exit code 74")),
    "capture": Planned("a capture in global mode beside calls", 30, False, of_job("capture")),
    **torch_rows.SECOND,
    "driver": Planned("calls of the driver beside a kernel, without NCCL", 15, False, alone("driver")),
    "host-cost-1": Planned("host's cost of a bucket, one rank", 15, False, alone("host-cost")),
    "host-cost-2": Planned("host's cost of a bucket, two ranks on one GPU", 30, False, two_ranks("host-cost")),
    "alone": Planned("world of one: cost of a bucket", 15, False, alone("alone")),
    "overlap": Planned("buckets beside the computation", 15, False, alone("overlap")),
    "trainer": Planned("the trainer on CUDA", 15, False, trainer),
    "kernels": Planned("casts, products, squares of all floats: the CPU's bits, speed against a copy", 120, False, alone("kernels")),
    "stack-stop": Planned("the whole stack, a rank stopped", 60, False, whole_stack.stopped),
    "stop": Planned("SIGSTOP of one of two ranks: abort", 45, False, two_ranks("stop", "--dies", repeats=True)),
    "abort-memory": Planned("50 aborts: memory of the GPU", 60, False, two_ranks("abort-memory", repeats=True)),
    "large": Planned("1 GiB of gradients: memory of the host, steps", 55, False, of_job("large")),
    "memcheck": Planned("compute-sanitizer: memory", 60, False, sanitizer("memcheck")),
    "racecheck": Planned("compute-sanitizer: races", 60, False, sanitizer("racecheck")),
}
