"""The Python package in a bare virtual environment, from the tree and without the network, alone and under the launcher.
Usage: venv_test.py CXXRUN LIBCXXRUN_C. Exit code 77: no virtual environment with pip can be made here."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
CXXRUN, LIBRARY = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))
FOLDER = tempfile.TemporaryDirectory()
PYTHON = os.path.join(FOLDER.name, "bin/python3")
# A proxy that nobody listens at: who reaches for the network is seen.
ALONE = {"PATH": "/usr/bin:/bin", "HOME": FOLDER.name, "TMPDIR": FOLDER.name, "https_proxy": "http://127.0.0.1:9",
         "http_proxy": "http://127.0.0.1:9"}


def run(*words, **more):
    return subprocess.run(words, env={**ALONE, **more}, cwd=FOLDER.name, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, check=False)


class Venv(unittest.TestCase):
    def assert_selftest(self, text, launcher):
        self.assertIn(os.path.join(FOLDER.name, "lib"), text)
        self.assertRegex(text, rf"ok +package: .*\n.*ok +stacks: .*\n.*skipped +torch: .*\n.*{launcher}")

    def test_it_works_without_a_launcher(self):
        done = run(PYTHON, "-m", "cxxrun.selftest")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assert_selftest(done.stdout, "skipped +library: .*\n.*skipped +launcher: ")

    def test_it_works_under_the_launcher_warm_and_executed(self):
        for warm in ([], ["--warm=json"]):
            done = run(CXXRUN, "--standalone", *warm, "-m", "cxxrun.selftest", PYTHON_EXEC=PYTHON)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assert_selftest(done.stdout, "skipped +library: .*\n.*ok +launcher: ")

    def test_it_finds_the_library(self):
        done = run(PYTHON, "-c", "from cxxrun import _lib", CXXRUN_LIBRARY=LIBRARY)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        done = run(PYTHON, "-c", "from cxxrun import _lib", CXXRUN_LIBRARY="/nowhere")
        self.assertIn("MissingError: cxxrun: libcxxrun_c.so.0 cannot be loaded", done.stdout)

    def test_the_selftest_tries_the_library(self):
        done = run(PYTHON, "-m", "cxxrun.selftest", CXXRUN_LIBRARY=LIBRARY)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"ok       library: {LIBRARY}, for cxxrun.torch.Elastic", done.stdout)
        done = run(PYTHON, "-m", "cxxrun.selftest", CXXRUN_LIBRARY="/nowhere")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED   library: MissingError: cxxrun: libcxxrun_c.so.0 cannot be loaded", done.stdout)

    def test_a_library_of_another_version_is_said_in_a_line(self):
        done = run(PYTHON, "-c", "import ctypes\nload = ctypes.CDLL\nclass Other:\n"
                   "    def __init__(self, path): self.real = load(path)\n"
                   "    def __getattr__(self, name):\n        its = getattr(self.real, name)\n"
                   "        return (lambda: b'0.7.3') if name == 'cxxrun_version' else its\n"
                   "ctypes.CDLL = Other\nfrom cxxrun import _lib", CXXRUN_LIBRARY=LIBRARY)
        self.assertRegex(done.stdout, r"MissingError: cxxrun: \S+ is of version 0\.7\.3, this Python package of 0\.1: install both "
                                      r"from one version of cxxrun\n$")


if __name__ == "__main__":
    made = run("/usr/bin/python3", "-m", "venv", FOLDER.name)
    if made.returncode != 0:
        print("skipped: " + made.stdout)
        sys.exit(77)
    installed = run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT))
    print(installed.stdout, end="")
    sys.exit(installed.returncode or not unittest.main(exit=False).result.wasSuccessful())
