"""Rows of tests/gpu/lease: the trainer on CUDA under cxxrun, two ranks on one GPU, undisturbed, killed and stopped."""
import contextlib
import os
import re
import signal
import statistics
import time

from job import OWN_HOST, Job, Over, under_cxxrun
from machine import Row

STEPS = (60, 400, 1600, 6400)  # more, when the training was over before all was done to it
FINAL = re.compile(r"final loss \S+ after \d+ steps, parameters [0-9a-f]{16}$", re.M)


class Training(Job):
    def __init__(self, machine, steps, restarts=0):
        self.curve = machine.file("curve")
        super().__init__(machine, under_cxxrun(machine, *OWN_HOST, machine.trainer, "--steps", steps, "--batch", 1, "--quiet",
                                               "--curve", self.curve, restarts=restarts))

    def trainers(self):
        found = []
        for pid in self.machine.processes():
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

    def how_far(self):
        return f"step {self.reached()[0]}"

    def strike(self, number, how):
        """Seconds until a step is done that was begun afterwards; the older and the newer process by turns."""
        step, restarts = self.reached()
        self.until(lambda: self.reached()[0] >= step + 3 and len(self.trainers()) == 2, self.how_far)
        try:
            os.kill(self.trainers()[number % 2], how)
        except (IndexError, ProcessLookupError):
            raise Over from None
        at = time.monotonic()
        self.until(lambda: self.reached()[1] > restarts, self.how_far)
        return time.monotonic() - at

    def final(self):
        """The line about loss and parameters."""
        code = self.end()
        lines = FINAL.findall(self.said())
        if code != 0 or len(lines) != 1:
            raise Row(f"wrong: the job ended with {code}; {self.last_words()}", False)
        return lines[0]


def undisturbed(machine, steps=STEPS[0]):
    """What it ends with, and seconds of a step."""
    machine.need(machine.launcher, machine.trainer)
    if steps not in machine.undisturbed:
        with Training(machine, steps) as job:
            machine.left()
            with contextlib.suppress(Over):
                job.until(lambda: job.reached()[0] >= 5, job.how_far)
            first, began = job.reached()[0], time.monotonic()
            machine.undisturbed[steps] = job.final(), (time.monotonic() - began) / max(1, steps - first)
    return machine.undisturbed[steps]


def whole(machine):
    final, seconds = undisturbed(machine)
    return f"ok: {final}; {1e3 * seconds:.0f} ms a step"


def disturbed(machine, how, times):
    """As often as there is time for, and at most `times`."""
    machine.need(machine.launcher, machine.trainer)
    for steps in STEPS:
        seconds = []
        with Training(machine, steps, times) as job:
            machine.left()
            try:
                while not seconds or len(seconds) < times and machine.left() > 3 * max(seconds) + 5:  # to end, after them
                    seconds.append(job.strike(len(seconds), how))
            except Over:
                job.final()  # unless it has failed
                continue
            final = job.final()
        wanted, _ = undisturbed(machine, steps)
        if final != wanted:
            raise Row(f"wrong: {final}; undisturbed {wanted}", False)
        return (f"ok: {final}, as undisturbed; {len(seconds)} of {times} times, {statistics.median(seconds):.2f} s until the next "
                f"step ({', '.join(f'{each:.2f}' for each in seconds)})")
    raise Row(f"wrong: {STEPS[-1]} steps are over before all was done", False)


def killed(machine):
    return disturbed(machine, signal.SIGKILL, 1 if machine.quick else 10)


def stopped(machine):
    return disturbed(machine, signal.SIGSTOP, 1 if machine.quick else 2)
