#!/usr/bin/python3
"""Measures how long training stands still when a rank is killed: from SIGKILL to the first step that is done after it.

Four ranks of examples/train on this machine, a victim chosen anew each time; every contender in turn:
  in place    cxxrun; the survivors keep their processes, a fresh one gets their state
  restarted   cxxrun; the survivors are not known to it (no CXXRUN_AGENT), so all are started anew from a checkpoint
  torchrun    the same under torchrun, where it is installed
Checkpoints of the last two are written after every step, so that nothing but the step in progress is done again.
Usage: survival_bench.py --cxxrun PROGRAM --train PROGRAM [--reps N] [--workers N] [--smoke]"""
import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from torchrun import TORCHRUN  # noqa: E402

PYTHON = "/usr/bin/python3"
GUARD_S = 120


def workers(train, marker):
    """The pids of the ranks that run now."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.path.samefile(f"/proc/{name}/exe", train):
                with open(f"/proc/{name}/environ", "rb") as file, open(f"/proc/{name}/stat") as stat:
                    if marker in file.read() and stat.read().rsplit(")", 1)[1].split()[0] not in "ZX":
                        found.append(int(name))
        except OSError:
            continue
    return sorted(found)


def last_line(path):
    """(step, restart) of the curve's last whole line, or None."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.stat(path).st_size - 200))
            fields = file.read().split(b"\n")[-2].split(b",")
            return int(fields[0]), int(fields[3])
    except (OSError, ValueError, IndexError):
        return None


def await_line(path, found, process):
    end = time.monotonic() + GUARD_S
    while time.monotonic() < end and process.poll() is None:
        line = last_line(path)
        if line is not None and found(line):
            return time.monotonic()
        time.sleep(0.0005)
    raise RuntimeError("the job does not go on")


def measure(command, train, count, kills, rng, saves):
    """Milliseconds of each kill, and how many of the other ranks kept their process."""
    with tempfile.TemporaryDirectory() as folder:
        curve = folder + "/curve.csv"
        marker = f"CXXRUN_BENCH={os.path.basename(folder)}".encode()
        name, value = marker.decode().split("=")
        env = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM_", "PET_", "CXXRUN_"))}
        env.update({name: value, "OMP_NUM_THREADS": "1", "TMPDIR": folder})
        options = ["--steps", "100000000", "--batch", "1", "--quiet", "--curve", curve]
        options += ["--checkpoint-dir", folder + "/saved", "--save-every", "1"] if saves else []
        with open(folder + "/output", "wb") as output:
            process = subprocess.Popen([*command, train, *options], env=env, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output)
        try:
            times, kept = [], []
            for _ in range(kills):
                before = last_line(curve) or (0, -1)
                await_line(curve, lambda line: line[0] >= before[0] + 20, process)
                there = workers(train, marker)
                if len(there) != count:
                    raise RuntimeError(f"{len(there)} ranks instead of {count}")
                victim = rng.choice(there)
                restarts = last_line(curve)[1]
                killed = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                times.append((await_line(curve, lambda line: line[1] > restarts, process) - killed) * 1e3)
                kept.append(len(set(there) & set(workers(train, marker))))
            return times, kept
        except RuntimeError as error:
            with open(folder + "/output", errors="replace") as output:
                sys.exit(f"{command[0]}: {error}\n{output.read()[-2000:]}")
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pid in workers(train, marker):
                os.kill(pid, signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cxxrun", default=os.path.join(ROOT, "build/release/bin/cxxrun"))
    parser.add_argument("--train", default=os.path.join(ROOT, "build/release/bin/examples/train"))
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="few kills, and no torchrun: does it measure at all?")
    given = parser.parse_args()
    reps = 3 if given.smoke else given.reps
    flags = ["--standalone", f"--nproc-per-node={given.workers}", "--max-restarts=1000", "--restart-delay=0"]
    contenders = [("in place", [given.cxxrun, *flags], False, 100),
                  ("restarted", [given.cxxrun, *flags, "env", "-u", "CXXRUN_AGENT"], True, None)]
    has_torch = subprocess.run([PYTHON, "-c", "import torch.distributed.run"], stdin=subprocess.DEVNULL,
                               capture_output=True, check=False).returncode == 0
    if has_torch and not given.smoke:
        contenders.append(("torchrun", [PYTHON, "-c", TORCHRUN, "--standalone", "--no_python", "--monitor_interval=0.1",
                                        f"--nproc_per_node={given.workers}", "--max_restarts=1000"], True, None))
    rng = random.Random(1)
    print(f"{given.workers} ranks, {reps} kills each; from SIGKILL to the first step after it, ms")
    print(f"{'':12}{'median':>10}{'least':>10}{'most':>10}{'processes kept':>17}")
    for name, command, saves, target in contenders:
        times, kept = measure(command, os.path.realpath(given.train), given.workers, reps, rng, saves)
        verdict = "" if target is None else f"   target {target} ms: {'met' if statistics.median(times) <= target else 'MISSED'}"
        print(f"{name:12}{statistics.median(times):10.1f}{min(times):10.1f}{max(times):10.1f}"
              f"{min(kept):9} of {given.workers - 1}{verdict}", flush=True)


if __name__ == "__main__":
    main()
