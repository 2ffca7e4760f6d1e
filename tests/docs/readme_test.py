"""README.md and examples/01_local/README.md: their commands do what they show; and the C++ program of
docs/use/elastic_cpp.md compiles. Usage: readme_test.py CXXRUN COMPILER"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CXXRUN = os.path.abspath(sys.argv.pop(1))
COMPILER = sys.argv.pop(1)


def shown(page):
    """Command → the lines below it."""
    commands, last = {}, None
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("    $ "):
            last = commands.setdefault(line[6:], [])
        elif line.startswith("    ") and last is not None:
            last.append(line[4:])
        else:
            last = None
    return commands


def pattern(line):
    """… stands for anything; the node is this one."""
    return ".*".join(map(re.escape, line.replace("node1", socket.gethostname().split(".")[0]).split("…")))


def started(command, directory="/"):
    programs = os.path.dirname(CXXRUN)
    env = {"PATH": f"{programs}:{programs}/examples:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
    return subprocess.Popen(["/bin/sh", "-c", command], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            cwd=directory)


def any_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Readme(unittest.TestCase):
    def check(self, said, lines):
        for line in lines:
            self.assertRegex(said, "(?m)" + pattern(line) + "$")

    def test_its_commands_do_what_it_shows(self):
        # scripts/release types those of the first job, which need what it makes, in roots of other releases.
        commands = {command: lines for command, lines in shown("README.md").items() if lines}
        self.assertEqual(len(commands), 2)
        for command, lines in commands.items():
            with self.subTest(command):
                self.assertGreater(len(lines), 1)
                self.check(started(command).communicate(timeout=120)[0], lines)

    def test_its_first_lines_start_a_script_on_one_machine_and_on_several(self):
        # The line with srun is typed on a real Slurm, in tests/slurm/readme_test.py.
        _, alone, several = re.findall(r"^    (\S.*?) +# ", (ROOT / "README.md").read_text(), re.M)[:3]
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "train.py").write_text(
                "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n")
            said = started(alone, directory).communicate(timeout=120)[0]
            self.assertEqual(sorted(re.findall(r"rank \d of 4", said)), [f"rank {i} of 4" for i in range(4)], said)
            several = several.replace("node7", f"127.0.0.1:{any_port()}").replace("cxxrun", "cxxrun --join-window=1", 1)
            said = "".join(job.communicate(timeout=120)[0] for job in [started(several, directory) for _ in range(2)])
            self.assertEqual(sorted(re.findall(r"rank \d of 2", said)), ["rank 0 of 2", "rank 1 of 2"], said)

    def test_the_commands_of_the_first_example_do_what_they_show(self):
        (one, lines), _, (two, others) = shown("examples/01_local/README.md").items()
        one = one.replace("build/release/bin/", os.path.dirname(CXXRUN) + "/")
        self.check(started(one).communicate(timeout=120)[0], [line for line in lines if line.startswith("[")])
        two = two.replace("127.0.0.1:29400", f"127.0.0.1:{any_port()}").replace("(in both)", "")
        said = "".join(job.communicate(timeout=120)[0] for job in [started(two) for _ in range(2)])
        self.assertEqual(said.count("step 3: sum over 4 ranks = 10"), 1, said)

    def test_the_program_of_elastic_cpp_compiles(self):
        page = (ROOT / "docs/use/elastic_cpp.md").read_text()
        program = re.search(r"```cpp\n(.*?)```", page, re.S)[1]
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
            source.write(program)
            source.flush()
            subprocess.run([COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", ROOT / "include",
                            source.name], check=True, timeout=120)

    def test_the_job_script_is_the_one_of_the_pages(self):
        script = re.search(r"(?:    #.*\n)+    export .*\n    srun cxxrun train", (ROOT / "README.md").read_text())[0]
        self.assertIn("--ntasks-per-node=1", script)
        self.assertTrue(script.strip().startswith("#!/bin/bash"))


if __name__ == "__main__":
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
