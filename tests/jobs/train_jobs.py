"""What the tests of examples/train share: its jobs, its workers' processes, its last line, its curve."""
import csv
import os
import re
import signal
import subprocess
import sys

import jobs
from jobs import JobCase, alive, processes_with, read, wait_until

TRAIN = ""
FINAL = re.compile(r"final loss (\d+\.\d+) after (\d+) steps, parameters ([0-9a-f]{16})$", re.M)


class TrainCase(JobCase):
    def final(self, text):
        """(loss, steps, hash) of the one last line."""
        found = FINAL.findall(text)
        self.assertEqual(len(found), 1, text)
        return found[0]

    def train(self, workers, *options, max_restarts=3, env=None):
        """Starts one agent with `workers` workers."""
        return self.start("--standalone", "--nproc-per-node", str(workers), "--max-restarts", str(max_restarts),
                          TRAIN, *options, env=env)

    def train_pair(self, *options, max_restarts=3):
        """Two agents with two workers each that take each other for another host's, and so use TCP."""
        def node(host):
            return self.start_node("--nproc-per-node", "2", "--max-restarts", str(max_restarts), TRAIN, *options,
                                   env={"CXXRUN_HOST_ID": host})
        first = node("a")
        first.says("waiting for nodes")
        return first, node("b")

    def trained(self, workers, *options, **more):
        """The last line of a job that ends well."""
        job = self.train(workers, *options, **more)
        self.assert_success([job])
        return self.final(job.stdout)

    def assert_success(self, agents):
        """Training takes its time, much of it under a sanitizer."""
        for agent in agents:
            agent.wait(600)
        self.assert_codes([0] * len(agents), *agents)

    def assert_worlds_agree(self, steps):
        """Sums are rounded in another order, so the losses are equal to a few digits only. Returns those of one rank."""
        losses = []
        for world in (1, 2, 4):
            self.trained(world, "--steps", steps, "--batch", str(8 // world), "--quiet", "--curve", self.path(f"{world}.csv"))
            losses.append([float(row[1]) for row in self.curve(f"{world}.csv")])
        for other in losses[1:]:
            self.assertAlmostEqual(losses[0][0], other[0], delta=1e-5)
            for mine, theirs in zip(losses[0], other, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=2e-3)
        return losses[0]

    def alone(self, *options, env=None):
        return subprocess.run([TRAIN, *options], env=self.environment(env), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=jobs.GUARD)

    def workers(self):
        """{rank: pid} of the trainers that run now."""
        found = {}
        for pid in processes_with(self.marker):
            try:
                if not os.path.samefile(f"/proc/{pid}/exe", TRAIN):
                    continue
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            except OSError:
                continue
            if b"RANK" in variables and alive(pid):
                found[int(variables[b"RANK"])] = pid
        return found

    def kill(self, rank):
        """SIGKILL; false when it was gone already."""
        pid = self.workers().get(rank)
        try:
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            return pid is not None
        except ProcessLookupError:
            return False

    def curve(self, name="curve.csv"):
        """[(step, loss as written, world, restart)] of the whole lines."""
        text = read(self.path(name))
        rows = list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))
        return [(int(row["step"]), row["loss"], int(row["world"]), int(row["restart"])) for row in rows]

    def last_step(self, name="curve.csv"):
        """0 before the first; looks at the end of the file only, because it is asked often."""
        try:
            with open(self.path(name), "rb") as file:
                file.seek(max(0, os.stat(file.fileno()).st_size - 200))
                lines = file.read().split(b"\n")[:-1]  # what stands behind the last newline is torn
                return int(lines[-1].split(b",")[0])
        except (OSError, ValueError, IndexError):
            return 0

    def await_step(self, step, job, name="curve.csv"):
        wait_until(lambda: self.last_step(name) >= step or job.process.poll() is not None, f"step {step} is done")


def main(why_not=None):
    """SCRIPT CXXRUN TRAIN [unittest arguments]"""
    global TRAIN
    TRAIN = os.path.abspath(sys.argv.pop(2))
    jobs.main(why_not)
