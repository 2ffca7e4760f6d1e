"""A job on one GPU, of which nothing is left afterwards."""
import re
import subprocess
import time

from machine import OF_NCCL, ON_ONE_GPU, Row

# A worker has RANK of its generation, but one pid for its life.
OWN_HOST = ("sh", "-c", 'NCCL_HOSTID=cxxrun-$$ exec "$0" "$@"')
FIRST = re.compile(r"^\[[^\]]*:0\] (.*)$", re.M)  # what rank 0 says


class Over(Exception):
    """It has ended while something was waited for."""


def under_cxxrun(machine, *program, ranks=2, restarts=0, options=("--hang-timeout", 5)):
    """It may be formed anew `restarts` times."""
    return [machine.launcher, "--standalone", "--nproc-per-node", ranks, "--max-restarts", restarts, "--restart-timeout", 30,
            *options, *program]


class Job:
    def __init__(self, machine, command, variables=None):
        self.machine, self.name = machine, machine.file("job")
        device = machine.environment.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        with open(self.name, "w") as said:
            self.process = machine.launch(command, {"CUDA_VISIBLE_DEVICES": device, **ON_ONE_GPU, **(variables or {})},
                                          stdout=said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process is not None:  # else it was only planned
            self.machine.bury()
            self.machine.told.say(f"{self.said()}\n# ended with {self.process.poll()}")

    def until(self, condition, how_far=lambda: "nothing"):
        while True:
            left = self.machine.left()
            if condition():
                return
            if self.process.poll() is not None:
                raise Over
            if left == 0:
                raise Row(f"wrong: not done within the row's time, after {how_far()}; {self.last_words()}", False)
            time.sleep(0.002)

    def end(self):
        """The exit code, or words in its place."""
        left = self.machine.left()
        try:
            return self.process.wait(timeout=left)
        except subprocess.TimeoutExpired:
            return "nothing: it still runs"

    def said(self):
        with open(self.name, errors="replace") as file:
            return file.read()

    def last_words(self):
        lines = [line for line in self.said().splitlines() if line.strip() and not OF_NCCL.search(line)]
        return (lines or ["nothing was said"])[-1]


def check(machine, name, restarts=0, wanted=""):
    """A check of gpu_check's as the program of a job, in whose words `wanted` has to be found."""
    machine.need(machine.launcher)
    quick = ["--quick"] if machine.quick else []
    command = under_cxxrun(machine, *OWN_HOST, machine.program, machine.plugin, name, *quick, restarts=restarts)
    with Job(machine, command) as job:
        code = job.end()
        lines = [line for line in FIRST.findall(job.said()) if not OF_NCCL.search(line)][1:]  # after that about the machine
        if code != 0 or not lines or wanted not in job.said():
            raise Row("; ".join(["wrong", *lines, f"the job ended with {code}", job.last_words()]), False)
        return "; ".join(lines)
