"""How the key of a job gets to its nodes, and what is said where it does not. Usage: trust_test.py CXXRUN"""
import glob
import os
import secrets
import shutil
import signal
import stat

import jobs
from jobs import JobCase, children, processes_with, read


class Trust(JobCase):
    def setUp(self):
        super().setUp()
        self.make_gate("go")
        self.program = self.worker("note start; gate go; note done")

    def secret_file(self, text=None, mode=0o600, name="secret"):
        with open(self.path(name), "w") as f:
            f.write(text if text is not None else secrets.token_hex(32))
        os.chmod(self.path(name), mode)
        return {"CXXRUN_SECRET_FILE": self.path(name)}

    def run_two(self, first=None, second=None, *options):
        """A job of two nodes, each with an environment of its own."""
        one = self.start_node(*options, self.program, env=first)
        one.says("waiting for nodes")
        two = self.start_node(*options, self.program, env=second)
        self.await_events(2, "start", 1)
        return one, two

    def end_well(self, *agents):
        if not self.gates:
            self.open_gate("go")
        self.assert_codes([0] * len(agents), *agents)

    def refuses(self, code, pattern, *options, env=None):
        job = self.run_job("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{self.port}", *options, self.program, env=env)
        self.assertEqual(job.code, code, job.stderr)
        self.assertRegex(job.stderr, pattern)
        self.assertEqual(self.events(), [])


class Ways(Trust):
    def test_a_file_in_the_home_directory_is_made_once_and_for_this_user_alone(self):
        self.open_gate("go")
        made = []
        for _ in range(2):
            self.end_well(*self.run_two(None, None, "--auth", "file"))
            made.append(os.stat(self.path(".cxxrun/key")))
            os.remove(self.path("events"))
        self.assertEqual(made[0].st_ino, made[1].st_ino)
        self.assertEqual(stat.S_IMODE(made[0].st_mode), 0o600)
        self.assertRegex(read(self.path(".cxxrun/key")), r"^[0-9a-f]{64}\n$")
        self.assertEqual(os.listdir(self.path(".cxxrun")), ["key"])

    def test_a_secret_file_or_variable_will_do_without_a_home_directory(self):
        text = secrets.token_hex(32)
        agents = self.run_two({"HOME": None, **self.secret_file(text)}, {"HOME": None, "CXXRUN_SECRET": text})
        self.end_well(*agents)

    def test_another_secret_keeps_an_agent_out_and_the_job_goes_on(self):
        one = self.start_node(self.program, env=self.secret_file())
        one.says("waiting for nodes")
        other = self.start_node(self.program, env=self.secret_file(name="another"))
        other.says("is not trusted: it has another secret; set CXXRUN_SECRET_FILE to a file of mode 0600 with the same "
                   "content on all nodes; trying on")
        two = self.start_node(self.program, env={"CXXRUN_SECRET_FILE": self.path("secret")})
        self.end_well(one, two)
        self.assertEqual(other.wait(), 111, other.stderr)

    def test_one_that_asks_for_no_proof_is_not_talked_to(self):
        one = self.start_node(self.program)
        one.says("waiting for nodes")
        open_one = self.start_node("--auth", "none", self.program)
        one.says("a stranger from 127.0.0.1: it does not prove itself as cxxrun does")
        two = self.start_node(self.program)
        self.end_well(one, two)
        self.assertNotEqual(open_one.wait(), 0)

    def test_the_first_node_may_die(self):
        agents = [self.start_node("--nnodes", "2:3", "--rdzv-id", "x", self.program) for _ in range(3)]
        self.await_events(3, "start", 1)
        host = next(a for a in agents if "generation 1 runs" in a.stderr)
        os.kill(children(host.pid)[0], signal.SIGKILL)
        host.process.kill()
        self.await_events(2, "start", 2)
        self.open_gate("go")
        left = [a for a in agents if a is not host]
        self.assert_codes([0, 0], *left)


class Munge(Trust):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or not shutil.which("munged"):
            self.skipTest("needs root and munged")
        self.home = {"HOME": None}
        if not os.path.exists("/run/munge/munge.socket.2"):
            self.skipTest("munged does not run here; the Slurm tests have one")

    def test_needs_no_home_directory_and_no_option(self):
        self.end_well(*self.run_two(self.home, self.home))


class BadInput(Trust):
    def test_a_secret_that_is_too_short(self):
        self.refuses(100, "CXXRUN_SECRET: it has 5 bytes and needs 32 random ones, as `openssl rand -hex 32` makes them",
                     env={"CXXRUN_SECRET": "short"})
        self.refuses(100, "CXXRUN_SECRET_FILE: .*/secret: it has 0 bytes", env=self.secret_file(""))

    def test_a_secret_file_that_others_may_read_or_that_is_none(self):
        self.refuses(100, "secret is open to others than this user: put a new secret into a file of mode 0600", env=self.secret_file(mode=0o640))
        self.refuses(100, "CXXRUN_SECRET_FILE: cannot read /nowhere: No such file",
                     env={"CXXRUN_SECRET_FILE": "/nowhere"})
        if os.geteuid() == 0:
            os.chown(self.path("secret"), 65534, -1)
            os.chmod(self.path("secret"), 0o600)
            self.refuses(100, "secret is open to others", env={"CXXRUN_SECRET_FILE": self.path("secret")})
        os.mkdir(self.path("folder"))
        self.refuses(100, "folder is no regular file", env={"CXXRUN_SECRET_FILE": self.path("folder")})
        os.symlink(self.path("secret"), self.path("link"))
        self.refuses(100, "cannot read .*link", env={"CXXRUN_SECRET_FILE": self.path("link")})

    def test_no_way_to_the_other_nodes(self):
        self.refuses(111, "no key to share with the other nodes: .*; set CXXRUN_SECRET_FILE to a file of mode 0600",
                     "--auth", "file", env={"HOME": "/proc/nowhere"})
        self.refuses(111, "no key to share with the other nodes: --auth file needs CXXRUN_SECRET_FILE or HOME",
                     "--auth", "file", env={"HOME": None})

    def test_another_word(self):
        self.refuses(100, "--auth", "--auth", "some")


class Secrecy(Trust):
    def test_neither_key_nor_secret_is_in_the_workers_or_in_what_is_written(self):
        text = secrets.token_hex(32)
        logs = self.path("logs")
        one, two = self.run_two({"CXXRUN_SECRET": text}, {"CXXRUN_SECRET": text}, "--log-dir", logs, "--tee", "3",
                                "--log-level", "debug")
        agents = {pid for agent in (one, two) for pid in (agent.pid, *children(agent.pid))}
        for pid in processes_with(self.marker):
            self.assertNotIn(text, read(f"/proc/{pid}/cmdline"))
            if pid not in agents:
                self.assertNotIn("CXXRUN_SECRET", read(f"/proc/{pid}/environ"))
        self.end_well(one, two)
        for path in (*glob.glob(logs + "/**", recursive=True), *one.files, *two.files):
            if os.path.isfile(path):
                self.assertNotIn(text, read(path))


if __name__ == "__main__":
    jobs.main()
