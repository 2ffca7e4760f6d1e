"""A job of two ranks on one GPU under cxxrun, of which nothing is left afterwards."""
import contextlib
import os
import re
import signal
import subprocess
import time

from machine import ON_ONE_GPU, Row

HANG = 5  # seconds after which cxxrun kills a rank that the other one waits for
OWN_HOST = 'NCCL_HOSTID=cxxrun-$$ exec "$0" "$@"'  # a worker has RANK of its generation, but one pid for its life
FIRST = re.compile(r"^\[[^\]]*:0\] (.*)$", re.M)  # what rank 0 says


class Job:
    def __init__(self, machine, times, program, *words):
        """It may be formed anew so often."""
        self.machine, self.name = machine, machine.file("job")
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        with open(self.name + ".said", "w") as said:
            self.process = machine.launch(
                [machine.launcher, "--standalone", "--nproc-per-node", 2, "--max-restarts", times,
                 "--restart-timeout", 30, "--hang-timeout", HANG, "sh", "-c", OWN_HOST, program, *words],
                {"CUDA_VISIBLE_DEVICES": device, "CXXRUN_GPU_JOB": self.name, **ON_ONE_GPU}, stdout=said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing is left on the GPU, whatever has happened."""
        if self.process is None:  # it was only planned
            return
        given_up = time.monotonic() + self.machine.burial()
        while (pids := self.processes()) and time.monotonic() < given_up:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()

    def processes(self):
        """The pids of cxxrun and of what it has started, by age. What has ended has no environment any more."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                if f"CXXRUN_GPU_JOB={self.name}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        return sorted(found)

    def end(self):
        """The exit code, or words in its place."""
        left = self.machine.left()
        try:
            return self.process.wait(timeout=left)
        except subprocess.TimeoutExpired:
            return "nothing: it still runs"

    def said(self):
        with open(self.name + ".said", errors="replace") as file:
            return file.read().replace("|", "/")

    def last_words(self):
        return (self.said().strip().splitlines() or ["nothing was said"])[-1]


def check(machine, name, restarts=0, wanted=""):
    """A check of gpu_check's as the program of a job, in whose words `wanted` has to be found."""
    machine.need(machine.launcher)
    quick = ["--quick"] if machine.quick else []
    with Job(machine, restarts, machine.program, machine.plugin, name, *quick) as job:
        code = job.end()
        lines = FIRST.findall(job.said())[1:]  # the first one is about the machine
        if code != 0 or not lines or wanted not in job.said():
            raise Row("; ".join(["wrong", *lines, f"the job ended with {code}", job.last_words()]), False)
        return "; ".join(lines)
