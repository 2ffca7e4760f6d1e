"""Where a job's key and the secret that it is wrapped under can be found: nowhere but in the agents' own memory. Both are
searched for in argv, environment, files, system calls and core dumps. Usage: secrecy_test.py CXXRUN"""
import glob
import os
import resource
import secrets
import shutil
import signal
import subprocess
import unittest
import unittest.mock

import jobs
from attacker import Sealed, secret_key
from jobs import JobCase, processes_with, read


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


class Secrecy(JobCase):
    def setUp(self):
        super().setUp()
        self.make_gate("go")
        self.secret = secrets.token_hex(32)
        self.file = self.path("secret")
        self.make_file(self.file, self.secret, 0o600)
        self.ways = ({"CXXRUN_SECRET": self.secret}, {"CXXRUN_SECRET_FILE": self.file})
        self.words = {}  # what must not be found, by its name

    def run_two(self, *options, program=None, **more):
        """Two agents, one with the variable and one with the file, whose workers wait; and what is secret about it."""
        program = program or self.worker("note start $$; gate go; note done")
        agents = [self.start_node(*options, program, env=self.ways[0], **more)]
        agents[0].says("waiting for nodes")
        with Sealed(self.port, secret=self.secret) as call:
            key = call.key
        self.words = {"the secret": self.secret.encode(), "the secret's key": secret_key(self.secret), "the key": key,
                      "the key as text": key.hex().encode()}
        agents.append(self.start_node(*options, program, env=self.ways[1], **more))
        self.await_events(2, "start", 1)
        return agents

    def agent_pids(self, agents):
        return [pid for agent in agents for pid in (agent.pid, agent.agent_pid())]

    def worker_pids(self):
        return [int(event[3]) for event in self.events("start")]

    def assert_clean(self, path, what=None):
        data = read_bytes(path)
        self.assertTrue(data or what is None, f"{path} is empty")
        for name, word in self.words.items():
            self.assertFalse(word in data, f"{name} is in {what or path}")

    def end(self, agents):
        self.release(*agents)


class Processes(Secrecy):
    def test_neither_argv_nor_environment_has_them_nor_what_is_written(self):
        logs = self.path("logs")
        agents = self.run_two("--log-dir", logs, "--tee", "3", "--log-level", "debug")
        pids = processes_with(self.marker)
        self.assertGreaterEqual(len(pids), 6)
        for pid in pids:
            self.assert_clean(f"/proc/{pid}/cmdline", f"argv of {pid}")
            self.assert_clean(f"/proc/{pid}/environ", f"the environment of {pid}")
        for pid in self.worker_pids():
            self.assertNotIn("CXXRUN_SECRET", read(f"/proc/{pid}/environ"))
        self.end(agents)
        files = [path for path in glob.glob(self.dir + "/**", recursive=True, include_hidden=True) if os.path.isfile(path)]
        self.assertGreater(len(files), 8)
        for path in files:
            if path != self.file:
                self.assert_clean(path)

    def test_a_secret_in_an_argument_is_refused_and_not_repeated(self):
        job = self.run_job("--standalone", "--rdzv-conf", f"secret={self.secret}", self.worker("note ran"), code=100)
        self.assertIn("name a file of mode 0600 in CXXRUN_SECRET_FILE", job.stderr)
        self.assertNotIn(self.secret, job.stderr)
        self.assertEqual(self.events(), [])

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    @unittest.mock.patch.dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # traced, a process cannot look for its own
    def test_no_system_call_of_a_worker_has_them(self):
        self.end(self.run_two(behind=("strace", "-ff", "-v", "-s", "1000000", "-o", self.path("trace"))))
        for pid in self.worker_pids():
            self.assertIn("execve", read(self.path(f"trace.{pid}")))
            self.assert_clean(self.path(f"trace.{pid}"))
        self.assertIn(self.secret, "".join(map(read, glob.glob(self.path("trace.*")))))  # the agent reads the file


class Cores(Secrecy):
    def setUp(self):
        super().setUp()
        if jobs.is_sanitized():
            self.skipTest("a sanitizer maps terabytes, which a core would hold")

    @unittest.skipUnless(shutil.which("gcore"), "needs gcore, of gdb")
    def test_a_core_that_a_debugger_takes_has_none(self):
        agents = self.run_two()
        for pid in (*self.agent_pids(agents), *self.worker_pids()):
            taken = subprocess.run(["gcore", "-o", self.path("taken"), str(pid)], capture_output=True, text=True)
            if "ptrace" in taken.stderr:
                self.skipTest(f"needs the right to trace its own processes: {taken.stderr.strip()}")
            # gcore is a script: where a filter forbids faccessat2 its shell reads nothing, and takes the core for missing
            self.assertIn("Saved corefile", taken.stdout, taken.stderr)
            self.assert_clean(self.path(f"taken.{pid}"), f"the core of {pid}, {read(f'/proc/{pid}/comm').strip()}")
        self.end(agents)

    @unittest.skipUnless(read("/proc/sys/kernel/core_pattern").strip() == "core", "needs kernel.core_pattern=core")
    def test_a_core_of_one_that_crashes_has_none(self):
        os.mkdir(self.path("cores"), 0o700)
        limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
        if limit != resource.RLIM_INFINITY:
            self.skipTest("needs ulimit -Hc unlimited")
        for choose in (lambda agents: self.worker_pids()[0], lambda agents: agents[1].agent_pid()):
            agents = self.run_two("--max-restarts", "0", cwd=self.path("cores"),
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (limit, limit)))
            os.kill(choose(agents), signal.SIGABRT)
            self.assertNotIn(0, [agent.wait() for agent in agents])  # a core is whole before its process is reaped
            [core] = glob.glob(self.path("cores/core*"))
            self.assert_clean(core)
            os.remove(core)
            os.remove(self.path("events"))
            self.port = jobs.free_port()


if __name__ == "__main__":
    jobs.main()
