"""SIGTERM at any moment of a PyTorch job that saves when it is told to end, and needs its DataLoader's helpers for that.
Usage: torch_stops_test.py CXXRUN. CXXRUN_STOPS: how many moments [4]; CXXRUN_SEED: which; CXXRUN_PACKAGE:
where the package cxxrun is that ranks agree with, instead of by themselves. Exit code 77: skipped."""
import multiprocessing
import os
import random
import select
import sys

try:
    import torch.distributed
    if not torch.distributed.is_available():
        raise ImportError("torch was built without distributed")
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-torch)")
    sys.exit(77)

import jobs
import wrappers
from jobs import JobCase

TRAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saving_trainer.py")
# What a rank tells, and how often at most before it is told to end.
WORDS = {"ready": 1, "epoch": 3, "batch": 20, "forward": 20, "backward": 20, "step": 20}


def moment(chosen):
    """(workers, rank that tells, word, how often, how helpers start, whether a shell is around the program)"""
    workers, word = chosen.randint(1, 2), chosen.choice(list(WORDS))
    return (workers, chosen.randrange(workers), word, chosen.randint(1, WORDS[word]),
            chosen.choice((multiprocessing.get_start_method(), "fork", "fork", "fork")), chosen.random() < 0.25)


class Told:
    """What the job tells, line by line."""

    def __init__(self, path):
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR)  # no end of file between two writers
        self.rest = b""

    def line(self, job):
        while b"\n" not in self.rest:
            while not select.select([self.fd], [], [], 0.1)[0]:
                assert job.process.poll() is None, job.stderr
            self.rest += os.read(self.fd, 4096)
        line, _, self.rest = self.rest.partition(b"\n")
        rank, word = line.decode().split()
        return int(rank), word

    def drop(self):
        os.close(self.fd)


class Stops(JobCase):
    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PYTHON_EXEC="/usr/bin/python3", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                   USE_LIBUV="0", TOLD=self.path("told"), CXXRUN_PACKAGE=os.environ.get("CXXRUN_PACKAGE", ""))
        return env

    def stop_at(self, workers, rank, word, count, context, wrapped):
        """Tells the job to end as soon as `rank` has told `word` so many times; its stderr."""
        told = Told(self.path("told"))
        program = [*(["--no-python", *wrappers.SHELL, "/usr/bin/python3"] if wrapped else []), TRAINER]
        job = self.start("--standalone", f"--nproc-per-node={workers}", "--max-restarts=0", *program, self.dir, context)
        while count > 0:
            count -= told.line(job) == (rank, word)
        job.process.terminate()
        self.assert_codes([143], job)
        told.drop()
        return job.stderr

    def check_saved(self, workers):
        steps = set()
        for rank in range(workers):
            saved = torch.load(self.path(f"rank{rank}.pt"))
            steps.add(saved["step"])
            self.assertGreaterEqual(saved["loss"], 0)
            os.unlink(self.path(f"rank{rank}.pt"))
        self.assertEqual(len(steps), 1)

    def test_the_save_is_complete_and_nothing_is_left(self):
        seed = int(os.environ.get("CXXRUN_SEED", random.randrange(1 << 32)))
        chosen = random.Random(seed)
        for number in range(int(os.environ.get("CXXRUN_STOPS", "4"))):
            when = moment(chosen)
            with self.subTest(seed=seed, number=number, moment=when):
                stderr = self.stop_at(*when)
                self.check_saved(when[0])
                self.assertNotIn("DataLoader worker", stderr)
                self.assertRegex(stderr, r"told to end by SIGTERM from pid \d+ \(.+\), uid \d+: waiting up to 30 s for ")
                self.assert_nothing_left()
            os.unlink(self.path("told"))


if __name__ == "__main__":
    sys.exit(jobs.main())
