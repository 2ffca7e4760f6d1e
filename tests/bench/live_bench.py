#!/usr/bin/python3
"""What the live view of a job of 64 ranks costs (docs/use/live.md): processor time of `cxxrunctl status` on a node of it, memory of
its agent; and by live_bench.cpp the pulses at their coordinator.

The parts of status: how long the program takes to start (--version), and to find the agents (a job that is not there); the
rest is the question and the text. Processor times are the kernel's, exec included. The workers sleep.
Usage: live_bench.py --cxxrun PROGRAM --cxxrunctl PROGRAM [--pulses live_bench] [--reps N] [--smoke]
Exit code 1: a bar is missed."""
import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUARD_S = 300
STATUS_MS, MEMORY_MB = 20, 0.3


def environment(folder):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PET_", "CXXRUN_"))}
    return {**env, "TMPDIR": folder}


def processor_ms(program, arguments, env):
    """Of a program from its exec to its end, and its exit code."""
    pid = os.posix_spawn(program, [program, *arguments], env, file_actions=[
        (os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_WRONLY, 0) for fd in (1, 2)])
    _, status, usage = os.wait4(pid, 0)
    return (usage.ru_utime + usage.ru_stime) * 1e3, os.waitstatus_to_exitcode(status)


def median_ms(program, arguments, env, code, reps):
    times = []
    for _ in range(reps):
        ms, found = processor_ms(program, arguments, env)
        if found != code:
            raise RuntimeError(f"{program} {' '.join(arguments)}: exit code {found}")
        times.append(ms)
    return statistics.median(times)


class Job:
    def __init__(self, given, folder, agents, ranks, worker=("sleep", "1000")):
        self.id, self.ctl, self.env = f"live-bench-{os.getpid()}-{agents}", given.cxxrunctl, environment(folder)
        command = [given.cxxrun, "--nnodes", str(agents), "--rdzv-endpoint", f"127.0.0.1:{random.randint(20000, 32000)}",
                   "--rdzv-id", self.id, f"--nproc-per-node={ranks // agents}", *worker]
        self.said = open(folder + f"/said{agents}", "wb")
        self.processes = [subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said)
                          for _ in range(agents)]
        self.ranks = ranks

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        self.said.close()

    def wait(self, condition, what):
        end = time.monotonic() + GUARD_S
        while time.monotonic() < end and all(process.poll() is None for process in self.processes):
            if found := condition():
                return found
            time.sleep(0.02)
        raise RuntimeError(f"not within {GUARD_S} s: {what}")

    def agents(self):
        """Their pids, once all workers run."""
        def children(pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
                return [int(word) for word in file.read().split()]
            return []
        def found():
            agents = [pid for process in self.processes for pid in children(process.pid)]
            return agents if sum(len(children(pid)) for pid in agents) >= self.ranks else None
        return self.wait(found, "all workers run")

    def await_table(self):
        def told():
            done = subprocess.run([self.ctl, "status", self.id, "--json"], env=self.env, capture_output=True, check=False)
            return done.returncode == 0 and len(json.loads(done.stdout)["workers"]) == self.ranks
        self.wait(told, "all workers are told of")


def kib(pid, name):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))


def on_processor_ms(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e6


def measure(given, folder, agents, ranks):
    """Prints a row. Milliseconds of status, and the MB that the first one adds to the first agent."""
    with Job(given, folder, agents, ranks) as job:
        pids = job.agents()
        before = kib(pids[0], "VmRSS")
        job.await_table()
        more = (kib(pids[0], "VmRSS") - before) / 1024
        start = median_ms(job.ctl, ["--version"], job.env, 0, given.reps)
        nowhere = {**job.env, "PATH": "/nonexistent"}  # no squeue
        find = median_ms(job.ctl, ["status", "no-such-job"], nowhere, 113, given.reps) - start
        used = on_processor_ms(pids)
        status = median_ms(job.ctl, ["status", job.id], job.env, 0, given.reps)
        theirs = (on_processor_ms(pids) - used) / given.reps
    print(f"| {agents} of {ranks // agents} | {status:.1f} | {start:.1f} | {find:.1f} | {status - start - find:.1f} | {theirs:.1f} "
          f"| {more:.2f} |", flush=True)
    return status, more


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cxxrun", default=os.path.join(ROOT, "build/release/bin/cxxrun"))
    parser.add_argument("--cxxrunctl", default=os.path.join(ROOT, "build/release/bin/cxxrunctl"))
    parser.add_argument("--pulses", default=os.path.join(ROOT, "build/release/tests/live_bench"))
    parser.add_argument("--reps", type=int, default=25)
    parser.add_argument("--smoke", action="store_true", help="two ranks, and no bars")
    given = parser.parse_args()
    print("| agents and ranks of this node | status, ms | start | finding | asking, showing | all agents, ms a status "
          "| first status, MB more |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        if given.smoke:
            given.reps = 2
            measure(given, folder, 1, 2)
            sys.exit(subprocess.run([given.pulses, "--smoke"], check=False).returncode)
        rows = [measure(given, folder, agents, 64) for agents in (1, 8)]
    pulses = subprocess.run([given.pulses], check=False).returncode
    bars = [(f"status within {STATUS_MS} ms", all(status <= STATUS_MS for status, _ in rows)),
            (f"at most {MEMORY_MB} MB more", rows[0][1] <= MEMORY_MB),
            ("pulses", pulses == 0)]
    for what, kept in bars:
        print(("kept:   " if kept else "MISSED: ") + what)
    sys.exit(0 if all(kept for _, kept in bars) else 1)


if __name__ == "__main__":
    main()
