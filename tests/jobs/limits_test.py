"""Limits of the system, reached at every moment of a start: a job succeeds, or one refusal names the limit. Nothing
crashes, hangs or ends without a word. Usage: limits_test.py CXXRUN"""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import jobs

SYSTEM = 111
GUARD = 60  # seconds
FEATURES = ("--standalone", "--nproc-per-node", "2", "--log-dir", "logs", "--tee", "3")
FIRST_USER = 54340  # of nobody else: the kernel counts the processes of a user wherever they run


class Limits(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)
        self.dir.chmod(0o755)
        for name in ("cxxrun", "cxxrun-store", "cxxrun-rendezvous"):
            shutil.copy(jobs.CXXRUN, self.dir / name)
            (self.dir / name).chmod(0o755)

    def start(self, name, limits, *command, user=None):
        """With `limits`, hard and soft, in a directory of its own."""
        place = self.dir / f"in-{name}"
        place.mkdir()
        place.chmod(0o777)

        def prepare():
            for which, most in limits.items():
                resource.setrlimit(which, (most, most))
            if user:
                os.setgid(user)
                os.setuid(user)
        job = subprocess.Popen([self.dir / command[0], *command[1:]], cwd=place, preexec_fn=prepare, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={"PATH": os.environ["PATH"], "HOME": str(place), "TMPDIR": str(place),
                                    "ASAN_OPTIONS": "detect_leaks=0"})  # LeakSanitizer wants a process of its own
        self.addCleanup(job.kill)
        return job

    def check_all(self, started, names):
        """Each succeeds, or is refused with one of `names`; some of both, else the values were not worth trying."""
        codes = set()
        for value, job in started.items():
            out, err = job.communicate(timeout=GUARD)
            with self.subTest(value):
                codes.add(job.returncode)
                self.assertIn(job.returncode, (0, SYSTEM), err)
                self.assertLess(len(err.splitlines()), 25, err)
                if job.returncode == 0:
                    self.assertEqual(out.count("hello"), 2, err)
                else:
                    self.assertTrue(any(name in err for name in names), err)
        self.assertEqual(codes, {0, SYSTEM})

    def sweep(self, limit, values, names, users=False):
        command = ("cxxrun", *FEATURES, "sh", "-c", "echo hello")
        self.check_all({value: self.start(str(value), {limit: value}, *command,
                                          user=FIRST_USER + index if users else None)
                        for index, value in enumerate(values)}, names)

    def test_processes_and_threads(self):
        if os.getuid() != 0:
            self.skipTest("only root can start users that have no other processes")
        self.sweep(resource.RLIMIT_NPROC, (*range(10), 20), ["ulimit -u"], users=True)

    def test_descriptors(self):
        self.sweep(resource.RLIMIT_NOFILE, (5, 9, 20, 28, 40, 66, 75, 90), ["ulimit -n"])

    def test_address_space(self):
        if jobs.is_sanitized():
            self.skipTest("a sanitizer maps terabytes")
        self.sweep(resource.RLIMIT_AS, [mib << 20 for mib in (12, 30, 32, 64)], ["ulimit -v"])

    def test_the_stack(self):
        self.sweep(resource.RLIMIT_STACK, [kib << 10 for kib in (64, 512, 8192)], ["ulimit -s"])

    def test_files_that_may_not_grow(self):
        job = self.start("logs", {resource.RLIMIT_FSIZE: 0}, "cxxrun", *FEATURES, "sh", "-c", "echo hello")
        out, err = job.communicate(timeout=GUARD)
        self.assertEqual((job.returncode, out.count("hello")), (0, 2), err)
        for name in ("verdict.json", "stdout.log"):
            self.assertTrue(any(name in line and "ulimit -f" in line for line in err.splitlines()), (name, err))
        job = self.start("own", {resource.RLIMIT_FSIZE: 0}, "cxxrun", "--standalone", "sh", "-c", "echo hello > file")
        _, err = job.communicate(timeout=GUARD)
        self.assertEqual(job.returncode, 128 + 25, err)  # a worker's own SIGXFSZ is as everywhere
        self.assertIn("raise `ulimit -f`", err)

    def test_the_other_programs(self):
        few = {resource.RLIMIT_NOFILE: 5}
        for name in ("cxxrun-store", "cxxrun-rendezvous"):
            options = ("--port", "0") if name == "cxxrun-store" else ("--auth", "none")
            started = [self.start(name, few, name, *options)]
            if os.getuid() == 0:
                started.append(self.start(name + "s", {resource.RLIMIT_NPROC: 1}, name, *options, user=FIRST_USER))
            for job in started:
                _, err = job.communicate(timeout=GUARD)
                self.assertEqual(job.returncode, SYSTEM, err)
                self.assertRegex(err, rf"^{name}: .*\(ulimit -[nu]\)")
                self.assertEqual(len(err.splitlines()), 1, err)

    def test_a_worker_that_reaches_its_limit(self):
        program = "import os\nwhile True: os.dup(1)"
        job = self.start("worker", {resource.RLIMIT_NOFILE: 100}, "cxxrun", "--standalone", "--max-restarts", "0",
                         "/usr/bin/python3", "-c", program)
        _, err = job.communicate(timeout=GUARD)
        self.assertEqual(job.returncode, 1, err)
        self.assertIn("out of file descriptors: the limit is 100 open files (ulimit -n)", err)

    def test_a_worker_that_uses_up_its_processor_time(self):
        if jobs.is_sanitized():
            self.skipTest("with a sanitizer the agent may use that up itself")
        job = self.start("time", {resource.RLIMIT_CPU: 1}, "cxxrun", "--standalone", "--max-restarts", "0", "sh", "-c",
                         "while :; do :; done")
        _, err = job.communicate(timeout=GUARD)
        self.assertEqual(job.returncode, 128 + 9, err)
        self.assertIn("how:           signal 9 (SIGKILL): limit on CPU time reached\n", err)


if __name__ == "__main__":
    sys.exit(jobs.main())
