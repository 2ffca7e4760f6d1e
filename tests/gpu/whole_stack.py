"""Rows of tests/gpu/run: the trainer on CUDA under cxxrun, two ranks on one GPU, undisturbed, killed and stopped."""
import contextlib
import os
import re
import signal
import statistics
import time

from job import Job
from machine import Row

STEPS = (400, 1600, 6400)  # more, when the training was over before all was done to it
FINAL = re.compile(r"final loss \S+ after \d+ steps, parameters [0-9a-f]{16}$", re.M)


class Over(Exception):
    """The training was over before it was disturbed enough."""


class Training(Job):
    def __init__(self, machine, steps, times):
        self.curve = machine.file("curve")
        super().__init__(machine, times, machine.trainer, "--steps", steps, "--batch", 1, "--quiet", "--curve", self.curve)

    def trainers(self):
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if os.path.samefile(f"/proc/{pid}/exe", self.machine.trainer):
                    found.append(pid)
        return found

    def reached(self):
        """(steps done, restarts before the last of them), by the last whole line of the curve."""
        try:
            with open(self.curve) as file:
                step, _, _, restarts = file.read().split("\n")[-2].split(",")
                return int(step), int(restarts)
        except (OSError, ValueError, IndexError):
            return 0, 0

    def until(self, condition):
        while not condition():
            if self.process.poll() is not None:
                raise Over
            if self.machine.left() == 0:
                raise Row(f"wrong: not done within the row's time, after step {self.reached()[0]}; {self.last_words()}", False)
            time.sleep(0.002)

    def strike(self, number, how):
        """Seconds until a step is done that was begun afterwards; the older and the newer process by turns."""
        step, restarts = self.reached()
        self.until(lambda: self.reached()[0] >= step + 3 and len(self.trainers()) == 2)
        try:
            os.kill(self.trainers()[number % 2], how)
        except (IndexError, ProcessLookupError):
            raise Over from None
        at = time.monotonic()
        self.until(lambda: self.reached()[1] > restarts)
        return time.monotonic() - at

    def final(self):
        """The line about loss and parameters."""
        code = self.end()
        lines = FINAL.findall(self.said())
        if code != 0 or len(lines) != 1:
            raise Row(f"wrong: the job ended with {code}; {self.last_words()}", False)
        return lines[0]


def undisturbed(machine, steps=STEPS[0]):
    machine.need(machine.launcher, machine.trainer)
    with Training(machine, steps, 0) as job:
        machine.left()
        return "ok: " + job.final()


def disturbed(machine, how, times):
    machine.need(machine.launcher, machine.trainer)
    for steps in STEPS:
        with Training(machine, steps, times) as job:
            machine.left()
            try:
                seconds = [job.strike(number, how) for number in range(times)]
            except Over:
                job.final()  # unless it has failed
                continue
            final = "ok: " + job.final()
        whole = undisturbed(machine, steps)
        if final != whole:
            raise Row(f"wrong: {final[4:]}; undisturbed {whole[4:]}", False)
        return (f"{final}, as undisturbed; {times} times, {statistics.median(seconds):.2f} s until the next step "
                f"(at most {max(seconds):.2f} s)")
    raise Row(f"wrong: {STEPS[-1]} steps are over before all was done", False)


def killed(machine):
    return disturbed(machine, signal.SIGKILL, 1 if machine.quick else 10)


def stopped(machine):
    return disturbed(machine, signal.SIGSTOP, 1 if machine.quick else 3)
