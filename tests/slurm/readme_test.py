"""What README.md, docs/use/first_minutes.md and examples/slurm tell a user to type under Slurm, typed as it stands there.
Usage: readme_test.py CXXRUN"""
import pathlib
import re

import slurm_case
from slurm_case import SlurmCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
NEEDS = (ROOT / "examples/slurm/README.md").read_text()
FIRST_MINUTES = (ROOT / "docs/use/first_minutes.md").read_text()
GPUS, CPUS = 8, 64  # of each node, as the README's job script asks for
TRAIN = """import os
with open(os.environ["DIR"] + "/events", "a") as file:
    file.write(f"{os.environ['CXXRUN_GENERATION']} {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n")
"""


def setUpModule():
    slurm_case.use_cluster(nodes=4, gpus=GPUS, cpus=CPUS)


def typed(page, line):
    """That line of a page without its remark; it has to stand there."""
    found = re.search(rf"(?m)^ +{re.escape(line)}(?= *$| +#)", page)
    assert found, f"the page does not show: {line}"
    return found[0].strip()


class Readme(SlurmCase):
    def setUp(self):
        super().setUp()
        self.make_file("train.py", TRAIN)

    def ranks(self):
        return sorted((event[1], event[3]) for event in self.events("of"))

    def of(self, count):
        return [(rank, str(count)) for rank in range(count)]

    def test_the_first_line_under_srun(self):
        line = typed(README, "srun cxxrun train.py")
        self.login("salloc", "-Q", "-N2", "--ntasks-per-node=1", f"--gpus-per-node={GPUS}", "sh", "-c", line, code=0)
        self.assertEqual(self.ranks(), self.of(2 * GPUS))
        self.row("README", line, "one job of all nodes, a worker for each GPU")

    def test_the_job_script(self):
        script = re.search(r"(?m)^    #!/bin/bash\n(?:    .*\n)+", README)[0].replace("\n    ", "\n").strip() + "\n"
        self.assertIn("\nsrun cxxrun train.py\n", script)
        self.sbatch(script, state="COMPLETED")
        self.assertEqual(self.ranks(), self.of(2 * GPUS))
        self.row("README", "sbatch job.sh, with the script of README.md", "the same")

    def test_the_job_script_of_init(self):
        typed(FIRST_MINUTES, "sbatch job.sh")
        self.assertIn("`cxxrun --init train.py > job.sh`", README)
        done = self.login("sh", "-c", typed(FIRST_MINUTES, "cxxrun --init train.py > job.sh") + "; sbatch --parsable job.sh")
        job = done.out.strip()
        self.assertEqual((done.code, job.isdigit()), (0, True), done)
        self.wait_job(job, "COMPLETED")
        self.assertEqual(self.ranks(), self.of(2 * GPUS))

    def test_a_job_that_can_lose_a_node(self):
        option, line = "#SBATCH --no-kill", "srun --no-kill --input=none cxxrun --nnodes 3:4 train.py"
        self.assertIn(f"`{option}`, `{line}`", NEEDS)
        self.sbatch(f"#!/bin/sh\n{option}\n#SBATCH -N4 --ntasks-per-node=1\n{line}\n", state="COMPLETED")
        self.assertEqual(self.ranks(), self.of(4))

    def test_nodes_that_come_later(self):
        first, later = "srun cxxrun --nnodes 2:4 train.py", "srun cxxrun --join JOBID train.py"
        self.assertIn(f"`{first}`; later, from another job, `{later}`", NEEDS)
        self.make_gate("go")
        with open(self.path("train.py"), "a") as script:
            script.write("open(os.environ['DIR'] + '/go').close()\n")
        job = self.sbatch(f"#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=1\n{first}\n")
        self.await_events(2, "of", 1)
        joins = self.start("salloc", "-Q", "-N1", "--ntasks-per-node=1", "sh", "-c", later.replace("JOBID", job))
        self.assertEqual(sorted(event[1] for event in self.await_events(3, "of", 2)), [0, 1, 2])
        self.open_gate("go")
        self.assertEqual((joins.wait(), self.wait_job(job)), (0, "COMPLETED"), joins.err + self.output(job))
        self.row("examples/slurm", f"{first}; then {later}", "a job of two nodes goes on with three")

    def test_looking_first(self):
        line = typed(FIRST_MINUTES, "srun --ntasks-per-node=1 cxxrun --doctor")
        done = self.login("salloc", "-Q", "-N2", "sh", "-c", line)
        self.assertIn("all 2 reported", done.out, done)
        self.assertIn("MUNGE          works between the nodes", done.out)
        done = self.login("salloc", "-Q", "-N2", "--ntasks-per-node=1", "sh", "-c", "srun cxxrun --dry-run train.py",
                          code=0)
        self.assertEqual(done.out.count("\nexecutes     /usr/bin/python3\n"), 2, done)
        self.assertEqual(self.ranks(), [])

    def test_what_a_job_needs_beyond_that(self):
        for line, happened in (("srun cxxrun --log-dir logs --tee 3 train.py", "a log of each rank"),
                               ("srun cxxrun --hang-timeout 300 train.py", "the job")):
            self.assertIn(f"`{line}`", NEEDS)
            done = self.login("salloc", "-Q", "-N2", "--ntasks-per-node=1", f"--gpus-per-node={GPUS}", "sh", "-c", line,
                              code=0)
            self.row("examples/slurm", line, happened)
        self.assertEqual(len(self.events("of")), 2 * 2 * GPUS)
        self.assertEqual(len(list(pathlib.Path(self.path("logs")).rglob("stdout.log"))), 2 * GPUS)
        line, option = "srun cxxrun --requeue --checkpoint-signal USR1@120 train.py", "#SBATCH --requeue --open-mode=append"
        self.assertIn(f"`{option}`, `{line}`", NEEDS)
        line = line.replace("train.py", "--time-limit 10:00 train.py")  # this Slurm is older than 23
        self.sbatch(f"#!/bin/sh\n{option}\n#SBATCH -N2 --ntasks-per-node=1\n{line}\n", state="COMPLETED")
        looks = "srun cxxrun --doctor || exit"
        self.assertIn("`" + looks.replace("|", "\\|") + "`", NEEDS)
        done = self.login("salloc", "-Q", "-N2", "--ntasks-per-node=1", "sh", "-c", looks)
        self.assertIn("all 2 reported", done.out, done)


if __name__ == "__main__":
    slurm_case.main()
