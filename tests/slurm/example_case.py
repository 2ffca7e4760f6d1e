"""What the tests of examples/slurm share: submitting a script as it is, and reading what its ranks printed."""
import collections
import os
import re
import shutil
import subprocess

from slurm_case import SlurmCase

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "../../examples/slurm")
PYTHON = "/usr/bin/python3"  # Debian's: the one that python3-torch belongs to

Line = collections.namedtuple("Line", "rank world text step loss")
LINE = re.compile(r"(?:rank|task) (\d+) of (\d+)(.*?): (?:step|epoch) (\d+) loss (\d+\.\d{6})")

NO_TORCH = "no torch.distributed for /usr/bin/python3 (Debian: python3-torch)"


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed"], stderr=subprocess.DEVNULL).returncode == 0


def script(example, name):
    with open(os.path.join(EXAMPLES, example, name)) as f:
        return f.read()


def lines_of(text):
    """What the ranks printed after each step (plain srun sometimes mixes two lines)."""
    return [Line(int(rank), int(world), text, int(step), loss) for rank, world, text, step, loss in LINE.findall(text)]


class ExampleCase(SlurmCase):
    def environment(self, extra=None):
        """USE_LIBUV: the default of newer releases of PyTorch needs a library that Debian builds it without."""
        return super().environment({"USE_LIBUV": "0", **(extra or {})})

    def submit(self, example, text, *arguments, programs=()):
        """Submits the script's text from a copy of the example's directory; `programs` (path, name) are found first."""
        shutil.copytree(os.path.join(EXAMPLES, example), self.dir, dirs_exist_ok=True)
        os.makedirs(self.path("bin"), exist_ok=True)
        if not os.path.exists(self.path("bin/python3")):
            os.symlink(PYTHON, self.path("bin/python3"))
        for path, name in programs:
            shutil.copy(path, self.path("bin/" + name))
        head, directive, rest = text.rpartition("#SBATCH")
        first, _, body = rest.partition("\n")
        path = f"PATH={self.path('bin')}:$PATH"
        return self.sbatch(f"{head}{directive}{first}\n{path}\n{body}", *arguments)

    def finish(self, job, state="COMPLETED"):
        """Waits for the job and returns what it wrote."""
        ended = self.wait_job(job, guard=120)
        text = self.output(job)
        self.assertEqual(ended, state, text)
        return text

    def run_example(self, example, name, *arguments, **more):
        return self.finish(self.submit(example, script(example, name), *arguments, **more))

    def exit_code(self, job):
        """(exit code, signal) of the batch script."""
        code, number = self.job(job)["ExitCode"].split(":")
        return int(code), int(number)

    def assert_trained(self, text, world, steps):
        """Every rank printed every step once, and all ranks the same loss; returns the losses by step."""
        lines = lines_of(text)
        self.assertEqual({line.world for line in lines}, {world}, text)
        self.assertEqual(sorted((line.rank, line.step) for line in lines),
                         [(rank, step) for rank in range(world) for step in range(1, steps + 1)], text)
        losses = collections.defaultdict(set)
        for line in lines:
            losses[line.step].add(line.loss)
        self.assertTrue(all(len(of_step) == 1 for of_step in losses.values()), text)
        return [losses[step].pop() for step in sorted(losses)]
