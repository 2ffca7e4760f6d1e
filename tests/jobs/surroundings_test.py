"""Containers and machines that lack what most have: it works, or there is one clear line. Needs root, else exit code 77.
Usage: surroundings_test.py CXXRUN"""
import errno
import json
import os
import pathlib
import platform
import unittest

import jobs
import forbidden
from jobs import JobCase

WORKER = 'note ran; exit $FAIL'
DEV = """mkdir "$DIR/dev" && mount -t tmpfs none "$DIR/dev"
for each in null zero full random urandom tty; do : > "$DIR/dev/$each"; mount --bind "/dev/$each" "$DIR/dev/$each"; done
mount --rbind "$DIR/dev" /dev"""
READ_ONLY = 'mkdir "$DIR/%s" && mount -t tmpfs -o ro none "$DIR/%s"'
# What the test needs of /tmp is below /mnt then.
NO_TMP = """mount -t tmpfs none /mnt; mkdir /mnt/dir /mnt/bin; mount --bind "$FROM" /mnt/dir; mount --bind "$BIN" /mnt/bin
cd /; mount -t tmpfs -o ro none /tmp; shift; set -- /mnt/bin/cxxrun "$@\""""


class Surroundings(JobCase):
    def within(self, setup, *words, **more):
        """cxxrun behind that shell script, in a mount namespace of its own; its end is waited for."""
        behind = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", setup + '\nexec "$@"', "sh")
        return self.run_job(*words, behind=behind, **more)

    def works(self, setup="", preexec_fn=None, env=None, said=()):
        """A job of two workers, and one whose workers fail, which is told."""
        program = self.worker(WORKER)
        options = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "0", program]
        before = len(self.events("ran"))
        job = self.within(setup, *options, env={"FAIL": "0", **(env or {})}, preexec_fn=preexec_fn, code=0)
        self.assertEqual(sorted(event[1] for event in self.events("ran")[before:]), [0, 1])
        warnings = [line for line in job.stderr.splitlines() if "warning" in line or "error" in line]
        self.assertEqual(len(warnings), len(said), job.stderr)
        for words in said:
            self.assertIn(words, job.stderr)
        failed = self.within(setup.replace("mkdir", "mkdir -p"), *options, env={"FAIL": "3", **(env or {})},
                             preexec_fn=preexec_fn, code=3)
        self.assertIn("exit code 3", failed.stderr)

    def doctor(self, setup="", **more):
        env = {"PYTHON_EXEC": "/usr/bin/python3", **more.pop("env", {})}
        done = self.within(setup.replace("mkdir", "mkdir -p"), "--doctor", "--json", env=env, cwd=self.dir, **more)
        self.assertIn(done.code, (0, 1), done.stderr)
        return {each["about"]: each for each in json.loads(done.stdout)["nodes"][0]["findings"]}

    def line(self, job, code, words):
        self.assertEqual(job.code, code, job.stderr)
        lines = [line for line in job.stderr.splitlines() if "info: " not in line]
        self.assertEqual(len(lines), 1, job.stderr)
        self.assertIn(words, lines[0])

    def test_no_proc(self):
        if jobs.is_sanitized():
            self.skipTest("a sanitizer reads /proc, its options too")
        setup = "mount -t tmpfs none /proc"
        told = "/proc is not mounted: processes that a worker starts cannot be found, and may outlive it"
        self.works(setup, said=[told])
        self.assertIn("note         " + told, self.within(setup, "--dry-run", "--standalone", "true").stdout)
        self.assertEqual(self.doctor(setup)["kernel"]["grade"], "warning")

    @unittest.skipUnless(platform.machine() == "x86_64", "setarch is told of this machine")
    def test_an_old_kernel(self):
        setup = 'set -- setarch x86_64 --uname-2.6 "$@"'
        self.works(setup, said=["warning: this node has Linux 2.6."])
        self.assertIn("cxxrun is made for 4.18 and newer", self.within(setup, "--dry-run", "--standalone", "true").stdout)
        self.assertEqual(self.doctor(setup)["kernel"]["grade"], "warning")

    def test_a_read_only_home(self):
        setup = READ_ONLY % ("home", "home")
        home = {"HOME": self.path("home")}
        self.works(setup, env=home)
        self.assertEqual(self.doctor(setup, env=home)["home"]["grade"], "note")
        job = self.within(READ_ONLY.replace("mkdir", "mkdir -p") % ("home", "home"), "--nnodes", "2", "--node-rank", "0",
                          "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--auth", "file", "true", env=home)
        self.line(job, 111, "no key to share with the other nodes")

    def test_no_place_for_temporary_files(self):
        setup = READ_ONLY % ("none", "none")
        where = {"TMPDIR": self.path("none")}
        self.works(setup, env=where)  # in /tmp
        job = self.within(setup.replace("mkdir", "mkdir -p"), "--dry-run", "--standalone", "true", env=where, code=0)
        logs = self.doctor(setup, env=where)["logs"]
        self.assertEqual((logs["grade"], logs["found"][-15:]), ("warning", "; jobs use /tmp"), logs)
        neither = {"TMPDIR": None, "DIR": "/mnt/dir", "FROM": self.dir, "BIN": os.path.dirname(jobs.CXXRUN), "FAIL": "0"}
        self.worker(WORKER)
        job = self.within(NO_TMP, "--standalone", "/mnt/dir/worker", env=neither)
        self.line(job, 111, "choose a --log-dir that you may write to")
        self.assertEqual(self.doctor(NO_TMP, env=neither)["logs"]["grade"], "failure")
        job = self.within(NO_TMP, "--dry-run", "--standalone", "/mnt/dir/worker", env=neither)
        self.line(job, 111, "choose a --log-dir that you may write to")
        job = self.within(NO_TMP, "--standalone", "--log-dir", "/mnt/dir/logs", "/mnt/dir/worker", env=neither, code=0)
        self.assertIn("no directory for sockets in TMPDIR or /tmp", job.stderr)

    def test_a_quota_of_cpu_time_bounds_the_threads_of_workers(self):
        group = pathlib.Path(self.path("cg"))
        (group / "job").mkdir(parents=True)
        (group / "job/cpu.max").write_text("100000 100000\n")
        self.make_file("cgroup", "0::/job\n")
        self.make_file("mountinfo", f"30 24 0:26 / {group} rw - cgroup2 cgroup2 rw\n")
        setup = "\n".join(f'mount --bind "$DIR/{name}" /proc/$$/{name}' for name in ("cgroup", "mountinfo"))
        shown = self.within(setup, "--dry-run", "--standalone", "true").stdout
        self.assertIn(" OMP_NUM_THREADS=1\n", shown)

    def test_no_dev_shm(self):
        self.works(DEV)
        found = self.doctor(DEV.replace(": >", ":>"))["/dev/shm"]
        self.assertEqual((found["grade"], found["found"]), ("warning", "No such file or directory"))
        setup = "mount -t tmpfs -o ro none /dev/shm"
        self.works(setup)
        self.assertEqual(self.doctor(setup)["/dev/shm"]["grade"], "warning")

    def test_calls_that_a_filter_forbids_and_nobody_needs(self):
        for call in ((forbidden.SOCKET, forbidden.AF_NETLINK), (forbidden.SOCKET, forbidden.AF_INET6, errno.EAFNOSUPPORT),
                     (forbidden.SOCKET, forbidden.AF_INET6), (forbidden.IO_URING_SETUP,), (forbidden.PIDFD_OPEN,),
                     (forbidden.PIDFD_SEND_SIGNAL,)):
            with self.subTest(call):
                filtered = lambda call=call: forbidden.forbid(*call)
                self.works(preexec_fn=filtered)
                self.assertEqual(self.doctor(preexec_fn=filtered)["ports"]["grade"] in ("fine", "note"), True)

    def test_a_filter_that_forbids_epoll_is_one_line(self):
        job = self.within("", "--standalone", "true", preexec_fn=lambda: forbidden.forbid(forbidden.EPOLL_CREATE1))
        self.line(job, 111, "epoll")


if __name__ == "__main__":
    able = os.getuid() == 0 and platform.machine() == "x86_64"
    jobs.main(None if able else "needs root, and the numbers of x86-64")
