"""SIGTERM at any moment of a PyTorch job that saves when it is told to end, and needs its DataLoader's helpers for that.
Usage: torch_stops_test.py CXXRUN. CXXRUN_STOPS: how many moments [4]; CXXRUN_SEED: which; CXXRUN_PACKAGE:
where the package cxxrun is that ranks agree with, instead of by themselves. Exit code 77: skipped."""
import collections
import multiprocessing
import os
import random
import select
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import jobs
import wrappers
from jobs import JobCase
from torch_here import torch

TRAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saving_trainer.py")
PACKAGE = os.environ.get("CXXRUN_PACKAGE", "")
STEPS_IN_EPOCH = 8
# What a rank tells, and how often at most before it is told to end.
WORDS = {"ready": 1, "epoch": 3, "batch": 20, "forward": 20, "backward": 20, "step": 20, "evaluate": 2, "save": 2}
if PACKAGE:  # where nobody handles the signal before there is something to save
    WORDS["import"] = 1
AT_A_TIME = 2
GUARD = 600

Moment = collections.namedtuple("Moment", "number ranks rank word count helpers around")


def moment(chosen, number):
    """`helpers`: how they start. `around` the program: a shell, --warm or nothing."""
    ranks, word = chosen.randint(1, 3), chosen.choice(list(WORDS))
    helpers = chosen.choice((multiprocessing.get_start_method(), "fork", "fork", "fork"))
    most = WORDS[word] if helpers == "fork" else min(WORDS[word], STEPS_IN_EPOCH)  # the others import torch
    return Moment(number, ranks, chosen.randrange(ranks), word, chosen.randint(1, most), helpers,
                  chosen.choice(("shell", "warm", "", "")))


class Told:
    """What the job tells, line by line."""

    def __init__(self, path):
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR)  # no end of file between two writers
        self.rest = b""

    def line(self, job):
        """(rank, word); None: the job has ended."""
        while b"\n" not in self.rest:
            while not select.select([self.fd], [], [], 0.1)[0]:
                if job.process.poll() is not None:
                    return None
            self.rest += os.read(self.fd, 4096)
        line, _, self.rest = self.rest.partition(b"\n")
        rank, word = line.decode().split()
        return int(rank), word

    def drop(self):
        os.close(self.fd)


class Stops(JobCase):
    def setUp(self):
        super().setUp()
        self.lock = threading.Lock()

    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PYTHON_EXEC="/usr/bin/python3", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                   USE_LIBUV="0", CXXRUN_PACKAGE=PACKAGE)
        return env

    def stop_at(self, when):
        """Tells a job to end as soon as the rank has told the word so many times, and waits for its end."""
        folder = self.path(f"job{when.number}")
        os.mkdir(folder)
        told = Told(os.path.join(folder, "told"))
        shell = ["--no-python", *wrappers.SHELL, "/usr/bin/python3"] if when.around == "shell" else []
        with self.lock:
            job = self.start("--standalone", f"--nproc-per-node={when.ranks}", "--max-restarts=0",
                             *(["--warm"] if when.around == "warm" else []), *shell, TRAINER, folder, when.helpers,
                             env={"TOLD": os.path.join(folder, "told"), jobs.MARKER: f"{self.marker}-{when.number}"})
        count = when.count
        while count > 0 and (line := told.line(job)):
            count -= line == (when.rank, when.word)
        job.process.terminate()
        job.wait(GUARD)
        told.drop()
        return when, job, folder

    def check_saved(self, when, folder):
        """All in one step, or nobody if nobody had begun to listen."""
        paths = [os.path.join(folder, f"rank{rank}.pt") for rank in range(when.ranks)]
        if when.word == "import" and not any(map(os.path.exists, paths)):
            return
        saved = [torch.load(path) for path in paths]
        self.assertEqual(len({each["step"] for each in saved}), 1, saved)
        for each in saved:
            self.assertGreaterEqual(each["loss"], 0)

    def test_the_save_is_complete_and_nothing_is_left(self):
        seed = int(os.environ.get("CXXRUN_SEED", random.randrange(1 << 32)))
        chosen, number = random.Random(seed), int(os.environ.get("CXXRUN_STOPS", "4"))
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            moments = [moment(chosen, each) for each in range(number)]
            for when, job, folder in pool.map(self.stop_at, moments):
                with self.subTest(seed=seed, moment=when):
                    self.assert_codes([143], job)
                    self.check_saved(when, folder)
                    self.assertNotIn("DataLoader worker", job.stderr)
                    self.assertNotIn("SIGKILL", job.stderr)
                    self.assertRegex(job.stderr,
                                     r"told to end by SIGTERM from pid \d+ \(.+\), uid \d+: waiting up to 30 s for ")
                    self.assert_nothing_left(marker=job.marker)
                shutil.rmtree(folder)
                print(f"stop {when.number + 1} of {number}", flush=True)


if __name__ == "__main__":
    sys.exit(jobs.main())
