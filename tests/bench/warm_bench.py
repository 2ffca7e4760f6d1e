#!/usr/bin/python3
"""Measures how long Python workers take to be there again: from SIGKILL of one to the line of the script behind `import torch`.

Every contender in turn, with one worker and with eight:
  warm        cxxrun --warm
  executed    cxxrun
  torchrun    the same under torchrun, where torch has one that works
For each: the start of the job, each kill (a victim chosen anew), and the memory of all workers (PSS) with the warm Python.
Where there is strace: the files below /usr that the worker after a kill opens.
With --ballast the warm Python holds 1 and 3 GiB. Exit code 1: a bar of docs/evidence/performance.md is missed.
Usage: warm_bench.py --cxxrun PROGRAM [--reps N] [--ballast] [--smoke]"""
import argparse
import os
import random
import shutil
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
GUARD_S = 180
CALM_S = 1  # between a restart and the next kill: the warm Python has prepared for it (docs/use/warm.md)
BALLAST = """
import os
held = bytearray(os.urandom(1 << 20) * int(os.environ["BALLAST_MB"]))
"""
WORKER = """
import {module}
import os, signal, time
now = time.clock_gettime(time.CLOCK_MONOTONIC)
with open(os.environ["CXXRUN_BENCH"], "a") as file:
    file.write("%s %d %.9f\\n" % (os.environ["RANK"], os.getpid(), now))
signal.pause()
"""


class Job:
    """Workers that say when they have imported, and wait."""

    def __init__(self, folder, command, count, module, environment):
        self.said, self.count = folder + "/said", count
        open(self.said, "w").close()
        script = folder + "/worker.py"
        with open(script, "w") as file:
            file.write(WORKER.format(module=module))
        env = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM_", "PET_", "CXXRUN_"))}
        env.update({"CXXRUN_BENCH": self.said, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": folder,
                    "PYTHON_EXEC": PYTHON, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", **environment})
        self.began = time.monotonic()
        with open(folder + "/output", "wb") as output:
            self.process = subprocess.Popen([*command, script], env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def await_lines(self, count):
        """The lines from the last generation on: (rank, pid, when)."""
        end = time.monotonic() + GUARD_S
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.said) as file:
                lines = [line.split() for line in file if line.endswith("\n")]
            if len(lines) >= count:
                return [(int(rank), int(pid), float(when)) for rank, pid, when in lines[count - self.count:]]
            time.sleep(0.001)
        with open(os.path.dirname(self.said) + "/output", errors="replace") as output:
            raise RuntimeError(f"the job does not go on:\n{output.read()[-2000:]}")

    def pss(self, pids):
        total = 0
        for pid in pids:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        return total / 1024

    def zygotes(self):
        for pid in os.listdir("/proc"):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line, open(f"/proc/{pid}/environ", "rb") as environ:
                    if line.read().startswith(b"cxxrun: warm") and self.said.encode() in environ.read():
                        yield pid
            except OSError:
                continue

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def measure(command, count, kills, rng, module="torch", environment=None):
    """Milliseconds of the start and of each kill, and MiB."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/ballast.py", "w") as file:
            file.write("import torch\n" + BALLAST)
        job = Job(folder, command, count, module, environment or {})
        try:
            there = job.await_lines(count)
            start = (max(when for _, _, when in there) - job.began) * 1e3
            memory = job.pss([pid for _, pid, _ in there] + list(job.zygotes()))
            times = []
            for kill in range(kills):
                time.sleep(CALM_S)
                victim = rng.choice(there)[1]
                killed = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                there = job.await_lines(count * (kill + 2))
                times.append((max(when for _, _, when in there) - killed) * 1e3)
            return start, times, memory
        finally:
            job.end()


def opened(command):
    """What the worker that comes after a kill opens of the system's, or tries to: counted by the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        trace = ["strace", "-D", "-f", "-qq", "-e", "trace=open,openat,openat2", "-o", folder + "/trace"]
        job = Job(folder, [*trace, *command], 1, "torch", {})
        try:
            os.kill(job.await_lines(1)[0][1], signal.SIGKILL)
            pid = job.await_lines(2)[0][1]
            with open(folder + "/trace") as file:
                its = [line for line in file if line.split()[0] == str(pid)]
        finally:
            job.end()
    if not its:
        raise RuntimeError("strace has seen nothing of the worker")
    return [line for line in its if '"/usr/' in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cxxrun", default=os.path.join(ROOT, "build/release/bin/cxxrun"))
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--ballast", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="two workers, a module of the standard library, no bars")
    given = parser.parse_args()
    rng = random.Random(1)

    def cxxrun(count, *options):
        return [given.cxxrun, "--standalone", f"--nproc-per-node={count}", "--max-restarts=1000", "--restart-delay=0", *options]

    if given.smoke:
        for name, options in (("warm", ["--warm=decimal"]), ("executed", [])):
            start, times, memory = measure(cxxrun(2, *options), 2, 2, rng, "decimal")
            print(f"{name}: start {start:.0f} ms, again {statistics.median(times):.1f} ms, {memory:.0f} MiB")
        return
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        sys.exit(77)
    torchrun = [PYTHON, "-c", TORCHRUN, "--standalone", "--monitor_interval=0.1", "--max_restarts=1000"]
    figures = {}
    for count in (1, 8):
        contenders = {"warm": cxxrun(count, "--warm"), "executed": cxxrun(count), "torchrun": [*torchrun, f"--nproc_per_node={count}"]}
        for name, command in contenders.items():
            starts = []
            for i in range(3):
                kills = (given.reps if name == "warm" else max(3, given.reps // 5)) if i == 0 else 0
                start, again, memory = measure(command, count, kills, rng)
                starts.append(start)
                if i == 0:
                    times, pss = again, memory
            figures[name, count] = statistics.median(starts), statistics.median(times), pss
            print(f"| {count} | {name} | {figures[name, count][0]:.0f} | {figures[name, count][1]:.1f} | {min(times):.1f} to "
                  f"{max(times):.1f} | {pss:.0f} |", flush=True)
    for megabytes in (1024, 3072) if given.ballast else ():
        _, times, _ = measure(cxxrun(1, "--warm=ballast"), 1, given.reps, rng, "ballast", {"BALLAST_MB": str(megabytes)})
        figures["ballast", megabytes] = 0, statistics.median(times), 0
        print(f"| 1 | warm, {megabytes // 1024} GiB held | | {statistics.median(times):.1f} | {min(times):.1f} to {max(times):.1f} | |")
    paths = opened(cxxrun(1, "--warm")) if shutil.which("strace") else None
    print("| 1 | warm | opens below /usr: " + ("no strace |" if paths is None else f"{len(paths)} |"), *paths or [], flush=True)
    bars = [("one worker again within 60 ms", figures["warm", 1][1] <= 60),
            ("eight again in a tenth of the time", figures["warm", 8][1] * 10 <= figures["executed", 8][1]),
            ("eight start no later", figures["warm", 8][0] <= figures["executed", 8][0] * 1.05),
            ("a third of the memory", figures["warm", 8][2] * 3 <= figures["executed", 8][2])]
    if paths is not None:
        bars.append(("no file opened below /usr", not paths))
    if given.ballast:
        bars.append(("with 3 GiB within 200 ms", figures["ballast", 3072][1] <= 200))
    for what, kept in bars:
        print(("kept:   " if kept else "MISSED: ") + what)
    sys.exit(0 if all(kept for _, kept in bars) else 1)


if __name__ == "__main__":
    main()
