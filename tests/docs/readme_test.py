"""README.md: its commands do what it shows, and the C++ program of docs/use/elastic_cpp.md compiles.
Usage: readme_test.py CXXRUN COMPILER"""
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


def shown():
    """Command → the lines below it."""
    commands, last = {}, None
    for line in (ROOT / "README.md").read_text().splitlines():
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


class Readme(unittest.TestCase):
    def test_its_commands_do_what_it_shows(self):
        # scripts/release types those of the first job, which need what it makes, in roots of other releases.
        commands = {command: lines for command, lines in shown().items() if lines}
        self.assertEqual(len(commands), 2)
        env = {"PATH": os.path.dirname(CXXRUN) + ":/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
        for command, lines in commands.items():
            with self.subTest(command):
                done = subprocess.run(["/bin/sh", "-c", command], env=env, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=120, check=False)
                self.assertGreater(len(lines), 1)
                for line in lines:
                    self.assertRegex(done.stdout, "(?m)" + pattern(line) + "$")

    def test_the_program_of_elastic_cpp_compiles(self):
        page = (ROOT / "docs/use/elastic_cpp.md").read_text()
        program = re.search(r"```cpp\n(.*?)```", page, re.S)[1]
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
            source.write(program)
            source.flush()
            subprocess.run([COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", ROOT / "include",
                            source.name], check=True, timeout=120)

    def test_the_job_script_is_the_one_of_the_pages(self):
        script = re.search(r"((?:    #.*\n)+    srun cxxrun train.py)", (ROOT / "README.md").read_text())[1]
        self.assertIn("--ntasks-per-node=1", script)
        self.assertTrue(script.strip().startswith("#!/bin/bash"))


if __name__ == "__main__":
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
