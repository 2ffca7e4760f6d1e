"""Why workers die, provoked for real: out of memory in a control group, SIGKILL by hand, a full disk.
Usage: causes_test.py CXXRUN"""
import ctypes
import os
import re
import signal
import subprocess
import unittest

import jobs
from jobs import JobCase, wait_until

MIB = 1024 * 1024
HUNGRY = "import os\nblock = b''\nwhile True:\n    block += b'x' * (8 << 20)\n"


def own_group():
    """The directory of this process's control group for memory, where that is version 1 and may be written."""
    for line in jobs.read("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return "/sys/fs/cgroup/memory" + path
    return ""


class MemoryGroup:
    """A control group below our own, with a limit."""

    def __init__(self, limit, name="group"):
        top = own_group()
        if os.getuid() != 0 or not os.access(top + "/cgroup.procs", os.W_OK):
            raise unittest.SkipTest("no control group for memory can be made here (root, version 1)")
        if jobs.is_sanitized():
            raise unittest.SkipTest("an agent with a sanitizer needs the group's memory itself")
        self.top = f"{top}/cxxrun-test-{os.getpid()}"
        self.path = f"{self.top}/{name}"
        try:
            os.makedirs(self.path)
            self.write("memory.limit_in_bytes", limit)
        except OSError as error:
            self.remove()
            raise unittest.SkipTest(f"no control group for memory can be made here: {error}") from None

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w") as file:
            file.write(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def remove(self):
        if os.path.isdir(self.path):
            wait_until(lambda: not jobs.read(self.path + "/cgroup.procs"), "the control group is empty")
        for path, _, _ in os.walk(self.top, topdown=False):
            os.rmdir(path)


class Causes(JobCase):
    def first(self, *arguments, **more):
        job = self.run_job("--standalone", "--max-restarts", "0", "--log-dir", self.path("logs"), *arguments, **more)
        job.failure = self.verdict()["failures"][0]
        return job

    def test_a_worker_that_the_kernel_kills_for_memory_is_told_from_one_that_somebody_kills(self):
        group = MemoryGroup(96 * MIB)
        self.addCleanup(group.remove)
        job = self.first("--nproc-per-node", "2", *self.python_worker("if RANK == '1':\n    " + HUNGRY.replace("\n", "\n    ")
                                                              + "\nsignal.pause()"), preexec_fn=group.enter,
                         code=128 + signal.SIGKILL)
        name = group.path.replace("/sys/fs/cgroup/memory", "")
        self.assertRegex(job.failure["cause"], r"^killed by the kernel: memory limit 96 MiB of control group " + name
                         + r" \(worker peak \d+ MiB, \d+ [KM]iB in use after it\)$")
        self.assertEqual(job.failure["advice"],
                         "raise that limit, or use less memory, such as fewer DataLoader workers")
        self.assertEqual(job.failure["rank"], 1)
        self.assertIn("how:           signal 9 (SIGKILL): " + job.failure["cause"], job.stderr)
        self.assertIn("  advice:        raise that limit", job.stderr)

    def test_a_step_that_slurm_will_call_out_of_memory_is_named_when_the_job_goes_on(self):
        group = MemoryGroup(96 * MIB, "job_7/step_0")
        self.addCleanup(group.remove)
        job = self.run_job("--standalone", "--max-restarts", "3", *self.python_worker(
            "if GENERATION in '12':\n    " + HUNGRY.replace("\n", "\n    ")), preexec_fn=group.enter, code=0)
        self.assertEqual(len(re.findall("error: .*killed by the kernel: memory limit 96 MiB of step 7.0", job.stderr)), 2)
        warning = ("warning: the kernel has killed a process for the memory limit of step 7.0: for Slurm the step is "
                   "OUT_OF_MEMORY and srun will exit with 1, also when the job succeeds now\n")
        self.assertEqual(job.stderr.count(warning), 1, job.stderr)

    def test_a_child_of_a_worker_that_the_kernel_kills_for_memory_is_named(self):
        group = MemoryGroup(96 * MIB)
        self.addCleanup(group.remove)
        hungry = self.make_file("hungry.py", HUNGRY)
        job = self.first(self.worker(f"/usr/bin/python3 {hungry}\nexit 1"), preexec_fn=group.enter, code=1)
        self.assertRegex(job.failure["cause"],
                         "^a process of this node's workers was killed by the kernel: memory limit 96 MiB of ")

    def test_a_worker_that_somebody_kills_was_killed_from_outside(self):
        job = self.start("--standalone", "--max-restarts", "0", "--log-dir", self.path("logs"),
                         self.worker("note pid $$\ngate never"))
        pid = int(self.await_events(1, "pid")[0][3])
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(job.wait(), 128 + signal.SIGKILL)
        failure = self.verdict()["failures"][0]
        self.assertRegex(failure["cause"], r"^from outside \(not cxxrun, not the out-of-memory killer\)$")
        self.assertIn("signal 9 (SIGKILL): from outside (not cxxrun", job.stderr)

    def test_a_worker_that_cxxrun_kills_has_no_cause_of_its_own(self):
        job = self.start("--standalone", "--max-restarts", "0", "--log-dir", self.path("logs"), "--nproc-per-node", "2",
                         "--restart-timeout", "0",
                         self.worker("[ $RANK = 0 ] && exit 3\ntrap '' TERM\ngate never"))
        self.assertEqual(job.wait(), 3)
        self.assertNotIn("from outside", job.stderr)

    def test_a_mapped_file_that_was_truncated_is_one_of_what_sigbus_means(self):
        job = self.first(*self.python_worker(
            "import mmap\nfile = open(DIR + '/data', 'w+b')\nfile.truncate(4096)\npage = mmap.mmap(file.fileno(), 4096)\n"
            "file.truncate(0)\npage[0]"), code=128 + signal.SIGBUS)
        self.assertEqual(job.failure["cause"], "a mapped file was truncated, /dev/shm was full, or a file server was gone "
                                               "for a while")

    def small_disk(self, options):
        """A directory that will be a small file system for a cxxrun started with `preexec_fn`."""
        where = self.path("disk")
        os.mkdir(where)
        if os.getuid() != 0:
            self.skipTest("only root can mount a small file system")
        libc = ctypes.CDLL(None, use_errno=True)

        def mount():
            libc.unshare(0x20000)  # CLONE_NEWNS
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", where], check=True)
        return where, mount

    def test_a_disk_without_space_is_named_where_the_program_does_not_say_which(self):
        where, mount = self.small_disk("size=1m")
        program = self.python_worker(f"with open({where!r} + '/step-900.pt', 'wb') as f:\n    f.write(b'x' * (2 << 20))")
        job = self.first(*program, env={"TMPDIR": where}, preexec_fn=mount, code=1)
        self.assertEqual(job.failure["cause"], f"disk full: {where}")
        self.assertEqual(job.failure["advice"], "free space there, or write elsewhere")
        self.assertIn(f"how:           exit code 1: disk full: {where}\n", job.stderr)

    def test_a_disk_that_takes_no_more_files_is_named_with_the_file(self):
        where, mount = self.small_disk("nr_inodes=4")
        program = self.python_worker(f"for i in range(9):\n    open({where!r} + f'/{{i}}.pt', 'wb').close()")
        job = self.first(*program, preexec_fn=mount)
        self.assertRegex(job.failure["cause"], rf"^disk full: {where}/\d.pt$")


if __name__ == "__main__":
    jobs.main()
