"""PyTorch scripts that hang, with cxxrun.install(), --warm or neither: the rank and its line of source are named, and nobody
innocent. Usage: python_hangs_test.py CXXRUN. CXXRUN_HANGS: so many, at random [one of each of three kinds];
CXXRUN_SEED: which; CXXRUN_CLEAN: seconds of a job in which nobody hangs. Exit code 77: skipped, with the reason."""
import os
import random
import re
import shutil
import statistics
import sys

import jobs
from jobs import JobCase, read
from torch_here import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINER, GRID = os.path.join(HERE, "hanging_trainer.py"), os.path.join(HERE, "hanging_grid.py")
PACKAGE = os.path.join(HERE, "../../src/runtime/python")
KINDS = {TRAINER: ["backward", "stop", "mismatch", "data", "disk"], GRID: ["tensor", "between", "stopped"]}
WORLD = {TRAINER: 3, GRID: 4}
IN_A_JOB = 5  # hangs, one in each generation
AT_A_TIME = 3  # jobs: a rank that hangs costs nothing
PATIENCE = 10  # seconds, and not fewer: on a busy machine ranks that do not hang are late, too
QUICK = 3  # for few hangs
GUARD = 600


def line_of(script, kind):
    lines = read(script).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# hangs: {kind}"))


def chosen_hangs(chosen, script, number):
    """Each kind as often as the others; (kind, rank, step)."""
    kinds = KINDS[script]
    hangs = [(kinds[i % len(kinds)], chosen.randrange(WORLD[script]), chosen.randrange(1, 8)) for i in range(number)]
    chosen.shuffle(hangs)
    return [(kind, 0 if kind == "disk" else rank, step) for kind, rank, step in hangs]


class PythonHangs(JobCase):
    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PYTHON_EXEC="/usr/bin/python3", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                   USE_LIBUV="0", CXXRUN_PACKAGE=PACKAGE)
        return env

    def begin(self, hangs, timeout, armed="line", folder="job", script=TRAINER, **environment):
        """A job in which each generation hangs in its way, and the last one ends. `armed` by the script's line, by --warm
        and the package on the path, or by nobody: --watch does it."""
        os.mkdir(self.path(folder))
        words = [":".join(map(str, hang)) for hang in hangs]
        module = "torch" if torch.__version__.startswith("1.") else "torch,torch._dynamo"
        warm = [f"--warm={module}"] if armed == "warm" else []
        armed_by = {"CXXRUN_PACKAGE": PACKAGE if armed == "line" else "", **({"PYTHONPATH": PACKAGE} if warm else {})}
        return self.start("--standalone", f"--nproc-per-node={WORLD[script]}", f"--max-restarts={len(hangs)}", *warm,
                          "--restart-delay=0", f"--hang-timeout={timeout}", "--log-dir", self.path(f"{folder}/logs"),
                          script, *words, env={**armed_by, "HUNG": self.path(f"{folder}/hung"), **environment})

    def files(self, folder, name):
        """(generation, rank) of each such file below --log-dir, with its path."""
        found = {}
        for place, _, files in os.walk(self.path(f"{folder}/logs")):
            where = re.search(r"/attempt_(\d+)/(\d+)$", place)
            if where and name in files:
                found[int(where[1]), int(where[2])] = os.path.join(place, name)
        return found

    def assert_named(self, hangs, job, folder="job", script=TRAINER):
        """Those ranks and no others were ended, and hang.txt has the line at which each hung. Returns after how long."""
        job.wait(GUARD)
        self.assert_codes([0], job)
        files = self.files(folder, "hang.txt")
        expected = {(generation, rank) for generation, (_, rank, _) in enumerate(hangs, 1)}
        self.assertEqual(set(files), expected, job.stderr)
        for generation, (kind, rank, step) in enumerate(hangs, 1):
            text = read(files[generation, rank])
            with self.subTest(kind=kind, rank=rank, step=step):
                self.assertIn(f'{os.path.basename(script)}", line {line_of(script, kind)} in ', text, job.stderr)
                self.assertRegex(text, "is stopped|was stopped" if kind in ("stop", "stopped") else
                                 "most others" if kind == "mismatch" else "did not enter")
        hung = dict(map(str.split, read(self.path(f"{folder}/hung")).splitlines()))
        return {place: os.stat(path).st_mtime - float(hung[str(place[0])]) for place, path in files.items()}

    def test_the_rank_and_its_line_are_named_and_nobody_else(self):
        hangs = [("backward", 1, 3), ("stop", 2, 2), ("mismatch", 0, 5)]
        plans = (("nobody", hangs[:1]), ("line", hangs[2:]), ("warm", hangs))  # without --warm each rank imports
        for (armed, some), job in jobs.some_at_a_time(lambda plan: self.begin(plan[1], QUICK, plan[0], plan[0]), plans):
            with self.subTest(armed=armed):
                self.assert_named(some, job, armed)

    def test_one_that_keeps_others_waiting_in_a_group_is_named_and_not_who_waits_for_it(self):
        hangs = [("tensor", 3, 2), ("between", 0, 3), ("stopped", 1, 2)]
        job = self.begin(hangs, QUICK, "warm", script=GRID)
        self.assert_named(hangs, job, script=GRID)
        self.assertIn("a collective of ranks 2, 3", read(self.files("job", "hang.txt")[1, 3]))

    def test_hangs_at_random(self):
        number = int(os.environ.get("CXXRUN_HANGS", "0"))
        if not number:
            self.skipTest("CXXRUN_HANGS says how many")
        seed = int(os.environ.get("CXXRUN_SEED", random.randrange(1 << 32)))
        chosen = random.Random(seed)
        plans = []
        for begin in range(0, number, IN_A_JOB):
            script = GRID if begin // IN_A_JOB % 4 > 1 else TRAINER
            hangs = chosen_hangs(chosen, script, min(IN_A_JOB, number - begin))
            plans.append((hangs, PATIENCE, ("nobody", "warm")[begin // IN_A_JOB % 2], f"job{begin}", script))
        took = []
        for (some, _, armed, folder, script), job in jobs.some_at_a_time(lambda plan: self.begin(*plan), plans, AT_A_TIME):
            with self.subTest(seed=seed, script=script, hangs=some, armed=armed):
                took += self.assert_named(some, job, folder, script).values()
                print(f"{len(took)} hangs named; median {statistics.median(took):.1f} s, at most {max(took):.1f} s",
                      flush=True)
            shutil.rmtree(self.path(folder))

    def test_nobody_is_named_where_nobody_hangs(self):
        seconds = int(os.environ.get("CXXRUN_CLEAN", "0"))
        if not seconds:
            self.skipTest("CXXRUN_CLEAN says for how long")
        for armed, script in (("line", TRAINER), ("warm", GRID)):
            self.begin([], PATIENCE, armed, armed, script, STEPS=str(seconds), PAUSE="1")
        for job in self.agents:
            job.wait(10 * seconds + GUARD)
            self.assert_codes([0], job)
            self.assertNotRegex(job.stderr, "wait in|are in |wait for")


if __name__ == "__main__":
    sys.exit(jobs.main())
