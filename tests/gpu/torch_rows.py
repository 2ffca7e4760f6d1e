"""The rows of tests/gpu/lease about PyTorch: cxxrun.torch.Elastic on a GPU, and what torch does by itself."""
import importlib.util
import os
import re
import signal
import statistics
import sys
import tempfile
import time

from job import Job, Over, under_cxxrun
from machine import HERE, ON_ONE_GPU, Planned, Row

sys.path.append(str(HERE.parent / "support"))
from torchrun import TORCHRUN  # noqa: E402

STEPS = 40
DEATHS = ("8:backward", "8:update", "8:forward")
END = re.compile(r"end \d+ (\d+ [0-9a-f]{16}); (.*)")
AT = re.compile(r"\bat (\d+) (\d+) (\w+) ?(\S*) ([\d.]+)$", re.M)
NO_GPU_FOR_TORCH = "not run: the stand-in is none for torch itself"


def need(machine):
    machine.need(machine.launcher, machine.library)
    if importlib.util.find_spec("torch") is None:
        raise Row(f"not run: {sys.executable} has no torch", True)


def warm():
    """What a process that waits has imported. DDP of new releases needs torch._dynamo."""
    folder = os.path.dirname(importlib.util.find_spec("torch").origin)
    return "--warm=torch" + ",torch._dynamo" * os.path.isdir(os.path.join(folder, "_dynamo"))


def variables(machine):
    """As after an installation: launcher and package are found, and nothing is set. torch brings its own libraries."""
    unset = dict.fromkeys(name for name in machine.environment if name.startswith("CXXRUN_") and name != "CXXRUN_CUDA_DOUBLE")
    return {**unset, "PATH": f"{machine.launcher.parent}:{os.environ.get('PATH', '')}",
            "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH"),
            "PYTHONPATH": ":".join(filter(None, (str(machine.package), os.environ.get("PYTHONPATH")))),
            "PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
            "CXXRUN_GPU_DUMP": str(max(1.0, machine.limit - 3)), **({"CXXRUN_CLAIMED": "yes"} if machine.preload else {})}


def wrong(text, how):
    """A job that has ended: what it said of it."""
    lines = list(dict.fromkeys(text.splitlines()))
    telling = [line for line in lines if re.search(r"(Error|Failure)\b|[Ee]rror:|refus|WARN", line)]
    found = [line for line in lines if "wrong: " in line][:1] + telling[-2:] or lines[-2:] or ["nothing was said"]
    return Row(f"wrong: it ended with {how}; " + " // ".join(found)[:900], False)


def of_elastic(machine, *words, ranks=2, restarts=0, options=(), device="cuda"):
    """What its ranks say."""
    need(machine)
    command = under_cxxrun(machine, HERE / "torch_elastic.py", device, *words, ranks=ranks, restarts=restarts,
                           options=["--restart-delay", 0, *options])
    with Job(machine, command, variables(machine)) as job:
        code = job.end()
        if code != 0:
            raise wrong(job.said(), code)
        return job.said()


# ---- it starts


def starts(machine):
    """Alone, and two ranks under cxxrun."""
    need(machine)
    script = [HERE / "torch_elastic.py", "none", "start"]
    nothing = {**variables(machine), **dict.fromkeys(ON_ONE_GPU), "LD_PRELOAD": None,
               "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}
    with Job(machine, [sys.executable, *script], nothing) as one, \
            Job(machine, under_cxxrun(machine, *script, options=()), nothing) as both:
        for job, ranks in ((one, 1), (both, 2)):
            code = job.end()
            if code != 0 or len(re.findall(f"started: 3 steps of {ranks}", job.said())) != ranks:
                raise wrong(job.said(), code)
    return "ok: one process, and two ranks under cxxrun"


# ---- it survives


def undisturbed(machine, device="cuda"):
    """(steps and hash, what else it says)"""
    if device not in machine.undisturbed:
        ends = END.findall(of_elastic(machine, "train", STEPS, "view", device=device))
        if len(ends) != 2 or len({end for end, _ in ends}) != 1:
            raise Row(f"wrong: the ranks end with {ends}", False)
        machine.undisturbed[device] = ends[0]
    return machine.undisturbed[device]


def trains(machine):
    end, more = undisturbed(machine)
    return f"ok: {end} on both ranks; {more}"


def survives(*words, deaths=DEATHS, is_warm=False, device="cuda"):
    def row(machine):
        need(machine)
        said = of_elastic(machine, "train", STEPS, *words, *deaths, restarts=len(deaths), device=device,
                          options=[warm()] if is_warm else ())
        return survived(said, undisturbed(machine, device)[0], len(deaths))
    return row


def survived(said, wanted, deaths):
    """By what the ranks have said."""
    ends = {end for end, _ in END.findall(said)}
    events = [(int(generation), int(rank), word, more, float(at)) for generation, rank, word, more, at in AT.findall(said)]
    pids = {more for _, rank, word, more, _ in events if (rank, word) == (0, "met")}
    told = []
    for generation, _, word, where, at in events:
        if word == "falls":
            noticed, met, stepped = (
                max((end - at for of, _, its, _, end in events if (of, its) == (generation + later, name)), default=float("nan"))
                for name, later in (("noticed", 0), ("met", 1), ("stepped", 1)))
            told.append(f"{where}: noticed after {noticed:.2f} s, met {met:.2f}, next step {stepped:.2f}")
    text = "; ".join(told)
    if ends != {wanted}:
        raise Row(f"wrong: ends with {', '.join(sorted(ends)) or 'nothing'}, undisturbed {wanted}; {text}", False)
    if len(pids) != 1 or len(told) != deaths:
        raise Row(f"wrong: {len(told)} of {deaths} deaths; the survivor has had the pids {', '.join(sorted(pids))}; {text}", False)
    return f"ok: {wanted} as undisturbed, the survivor kept its pid; {text}"


def held(machine):
    """The host of the survivor has run ahead of its stream when the other one dies."""
    if machine.preload:
        raise Row(NO_GPU_FOR_TORCH, True)
    return survives("view", "hold", deaths=("6:held",))(machine)


def gated(machine):
    """The gate on the device: rank 1 dies behind what the host has queued, and rank 0 goes on, or raises because of it."""
    need(machine)
    whole, told = None, []
    for how, restarts in (("quiet", 0), ("update", 1), ("loss", 1)):
        with tempfile.TemporaryDirectory() as folder:
            command = under_cxxrun(machine, HERE.parent / "jobs/elastic_gate.py", how, "fused", *["gpu"] * (not machine.preload),
                                   restarts=restarts, options=["--restart-delay", 0])
            late = {"CXXRUN_CLAIMED": "late"} if machine.preload else {}
            with Job(machine, command, {**variables(machine), **late, "DIR": folder}) as job:
                code, said = job.end(), job.said()
        if code != 0:
            raise wrong(f"{said}\nwrong: {how}", code)
        ends = re.findall(r"end \d+ (\d+ [0-9a-f]{16})", said)
        whole = whole or ends[0]
        if ends != [whole] * 2:
            raise Row(f"wrong: {how} ends with {', '.join(ends)}, undisturbed {whole}", False)
        told.append(how + ", one step taken back" * ("back" in said.split()))
    return f"ok: {whole} after {'; '.join(told)}"


def calls(device="cuda"):
    def row(machine):
        said = of_elastic(machine, "calls", device=device)
        return "; ".join(dict.fromkeys(re.findall(r"(?:ok: \d+ calls|behind a kernel).*", said)))
    return row


# ---- its price


def rate(ranks, kind):
    def row(machine):
        steps, rounds = (5, 2) if machine.quick else (30, 4)
        said, rates = of_elastic(machine, "rate", steps, rounds, kind, ranks=ranks), {}
        for arm, each in re.findall(r"rate \d (\w+) ([\d.]+)", said):
            rates.setdefault(arm, []).append(float(each))
        elastic, (name, own) = rates.pop("elastic"), rates.popitem()
        ratio = statistics.median(elastic) / statistics.median(own)
        each = "; ".join(f"{arm} {', '.join(f'{its:.1f}' for its in of)}" for arm, of in (("elastic", elastic), (name, own)))
        host = re.findall(r"host, all_reduce.*", said)[:1]
        return "; ".join([f"ok: elastic / {name} = {ratio:.3f} of steps/s, medians of {len(own)} turns", each, *host])
    return row


def by_torch(*words):
    def row(machine):
        need(machine)
        if machine.preload and words[0] == "gate":
            raise Row(NO_GPU_FOR_TORCH, True)
        code, lines = machine.end(machine.launch([sys.executable, HERE / "torch_alone.py", *words],
                                                 {**variables(machine), "CUBLAS_WORKSPACE_CONFIG": None, "LD_PRELOAD": None}))
        if code != 0:
            raise wrong("\n".join(lines), code)
        return "; ".join(lines)
    return row


# ---- beside torchrun


def plain(launcher):
    def row(machine):
        need(machine)
        script, restarts = HERE / "torch_plain.py", 2
        torchrun = ["-c", TORCHRUN] if machine.preload else ["-m", "torch.distributed.run"]  # Debian's needs help
        command = under_cxxrun(machine, script, restarts=restarts, options=()) if launcher == "cxxrun" else [
            sys.executable, *torchrun, "--standalone", "--nproc_per_node=2", f"--max_restarts={restarts}", script]
        with Job(machine, command, {**variables(machine), "LD_PRELOAD": None}) as job:
            began = time.monotonic()
            try:
                steps = steps_of(job, 0, 10)
                os.kill(int(re.findall(r"pid 1 (\d+)", job.said())[-1]), signal.SIGKILL)
                killed = time.monotonic()
                again = steps_of(job, steps[0][0], 1)
            except Over:
                raise wrong(job.said(), job.end())
        return f"ok: start to first step {parts(steps[0], began)}; kill to next step {parts(again[0], killed)}"
    return row


def steps_of(job, older, number):
    """The lines of a process that is not the `older` one, when there are so many."""
    def found():
        return re.findall(rf"step \d+ (?!{older} )(\d+) ([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+)\n", job.said())

    job.until(lambda: len(found()) >= number, lambda: f"{len(found())} of {number} steps")
    return found()


def parts(line, since):
    script, imported, grouped, stepped = (float(each) - since for each in line[1:])
    return f"{stepped:.2f} s (script after {script:.2f}, torch {imported:.2f}, group {grouped:.2f})"


FIRST = {
    "torch-facts": Planned("PyTorch: versions, libraries, copies", 30, True, by_torch("facts")),
    "elastic-start": Planned("Elastic() as installed, nothing set, tensors of the CPU", 45, True, starts),
    "elastic-gate": Planned("the update of a fused optimizer left out by the device: rank 1 killed", 100, True, gated),
    "elastic-calls": Planned('Elastic(device="cuda"), two ranks: each collective', 30, True, calls()),
    "elastic": Planned("the same: DDP, undisturbed", 35, True, trains),
    "elastic-warm": Planned("the same with --warm and loss.item(): rank 1 killed", 45, True,
                            survives("unused", "item", is_warm=True)),
    "elastic-rate-2": Planned("steps/s by torch's own, in turns, two ranks, fused AdamW", 40, True, rate(2, "fused")),
    "elastic-rate-1": Planned("steps/s by torch's own, in turns, one rank, fused AdamW", 30, True, rate(1, "fused")),
    "torch-gate": Planned("what a host that waits before the update costs", 40, True, by_torch("gate", 100)),
    "elastic-held": Planned("rank 1 killed while a kernel holds the survivor's stream", 45, True, held),
}
SECOND = {
    "elastic-waits-2": Planned("the same where the host waits before the update: AdamW that is not fused", 40, False,
                               rate(2, "foreach")),
    "elastic-waits-1": Planned("the same, one rank", 30, False, rate(1, "foreach")),
    "elastic-kill": Planned("Elastic, DDP: rank 1 killed, without --warm", 100, False, survives("view")),
    "elastic-staged": Planned("Elastic() with tensors of the GPU: rank 1 killed", 80, False,
                              survives("view", deaths=DEATHS[:1], device="none")),
    "elastic-staged-calls": Planned("Elastic() with tensors of the GPU: each collective", 45, False, calls("none")),
    "plain-cxxrun": Planned("a plain script under cxxrun: a rank killed", 60, False, plain("cxxrun")),
    "plain-torchrun": Planned("the same under torchrun", 75, False, plain("torchrun")),
}
