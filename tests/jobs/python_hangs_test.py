"""PyTorch scripts that hang, with cxxrun.install(): the rank and its line of source are named, and nobody innocent.
Usage: python_hangs_test.py CXXRUN. CXXRUN_HANGS: so many, at random [one of each of three kinds]; CXXRUN_SEED: which.
Exit code 77: skipped, with the reason."""
import os
import random
import re
import shutil
import sys

try:
    import torch.distributed
    if not torch.distributed.is_available():
        raise ImportError("torch was built without distributed")
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-torch)")
    sys.exit(77)

import jobs
from jobs import JobCase, read

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINER = os.path.join(HERE, "hanging_trainer.py")
PACKAGE = os.path.join(HERE, "../../src/python")
KINDS = ["backward", "stop", "mismatch", "data", "disk"]
WORLD = 3
IN_A_JOB = 5  # hangs, one in each generation
GUARD = 120


def line_of(kind):
    lines = read(TRAINER).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# hangs: {kind}"))


def chosen_hangs(chosen, number):
    """Each kind as often as the others; (kind, rank, step)."""
    hangs = [(KINDS[i % len(KINDS)], chosen.randrange(WORLD), chosen.randrange(1, 8)) for i in range(number)]
    chosen.shuffle(hangs)
    return [(kind, 0 if kind == "disk" else rank, step) for kind, rank, step in hangs]


class PythonHangs(JobCase):
    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PYTHON_EXEC="/usr/bin/python3", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                   USE_LIBUV="0", CXXRUN_PACKAGE=PACKAGE)
        return env

    def run_hangs(self, hangs, timeout):
        """A job in which each generation hangs in its way, and the last one ends."""
        words = [":".join(map(str, hang)) for hang in hangs]
        job = self.start("--standalone", f"--nproc-per-node={WORLD}", f"--max-restarts={len(hangs)}", "--restart-delay=0",
                         f"--hang-timeout={timeout}", "--log-dir", self.path("logs"), TRAINER, *words)
        job.wait(GUARD)
        self.assert_codes([0], job)
        return job

    def files(self, name):
        """(generation, rank) of each such file below --log-dir, with its text."""
        found = {}
        for folder, _, files in os.walk(self.path("logs")):
            place = re.search(r"/attempt_(\d+)/(\d+)$", folder)
            if place and name in files:
                found[int(place[1]), int(place[2])] = read(os.path.join(folder, name))
        return found

    def assert_named(self, hangs, job):
        """Those ranks and no others were ended, and hang.txt has the line at which each hung."""
        files = self.files("hang.txt")
        expected = {(generation, rank) for generation, (_, rank, _) in enumerate(hangs, 1)}
        self.assertEqual(set(files), expected, job.stderr)
        for generation, (kind, rank, step) in enumerate(hangs, 1):
            text = files[generation, rank]
            with self.subTest(kind=kind, rank=rank, step=step):
                self.assertIn(f'{os.path.basename(TRAINER)}", line {line_of(kind)} in ', text, job.stderr)
                self.assertRegex(text, "is stopped|was stopped" if kind == "stop" else
                                 "most others" if kind == "mismatch" else "did not enter")

    def test_the_rank_and_its_line_are_named_and_nobody_else(self):
        number = int(os.environ.get("CXXRUN_HANGS", "0"))
        seed = int(os.environ.get("CXXRUN_SEED", random.randrange(1 << 32)))
        if number == 0:
            hangs = [("backward", 1, 3), ("stop", 2, 2), ("mismatch", 0, 5)]
            self.assert_named(hangs, self.run_hangs(hangs, 2))
        hangs = chosen_hangs(random.Random(seed), number)
        for begin in range(0, number, IN_A_JOB):
            some = hangs[begin:begin + IN_A_JOB]
            with self.subTest(seed=seed, hangs=some):
                self.assert_named(some, self.run_hangs(some, 3))
            shutil.rmtree(self.path("logs"))


if __name__ == "__main__":
    sys.exit(jobs.main())
