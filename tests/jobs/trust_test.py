"""How the key of a job gets to its nodes, and what is said where it does not. Usage: trust_test.py CXXRUN"""
import os
import secrets
import signal
import stat
import subprocess

import jobs
import munged
from jobs import JobCase, children, read


class Trust(JobCase):
    def setUp(self):
        super().setUp()
        self.program = self.worker("note start; gate go; note done")

    def secret_file(self, text=None, mode=0o600, name="secret"):
        self.make_file(name, text if text is not None else secrets.token_hex(32), mode)
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
        job = self.run_job("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{self.port}", *options, self.program, env=env,
                           code=code)
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
        other.says("cannot authenticate coordinator at ")
        other.says(": it has a different secret; set CXXRUN_SECRET_FILE to a file of mode 0600 with the same "
                   "content on all nodes; trying the next port")
        two = self.start_node(self.program, env={"CXXRUN_SECRET_FILE": self.path("secret")})
        self.end_well(one, two)
        self.assertEqual(other.wait(), 111, other.stderr)

    def test_one_that_asks_for_no_proof_is_not_talked_to(self):
        one = self.start_node(self.program)
        one.says("waiting for nodes")
        open_one = self.start_node("--auth", "none", self.program)
        one.says("unauthenticated connection from 127.0.0.1: it does not speak cxxrun's handshake")
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
    """Two nodes that have MUNGE and no home directory in common."""
    SILENT = "munged or the home directory does not answer"

    def setUp(self):
        super().setUp()
        if munged.missing():
            self.skipTest(munged.missing())
        self.key = secrets.token_bytes(64)
        self.nodes = [self.start_munged(0)]

    def start_munged(self, clock, key=None):
        started = munged.Munged(key or self.key, clock)
        self.addCleanup(started.close)
        return started

    def start_on(self, node, *options, env=None):
        return self.start_node(*options, self.program, behind=node.inside(), env={"HOME": None, **(env or {})})

    def start_both(self, second):
        agents = [self.start_on(self.nodes[0])]
        agents[0].says("waiting for nodes")
        return [*agents, self.start_on(second)]

    def test_needs_no_home_directory_and_no_option(self):
        agents = self.start_both(self.start_munged(0))
        self.await_events(2, "start", 1)
        self.end_well(*agents)

    def test_a_clock_that_is_ten_minutes_off_keeps_nobody_out(self):
        for clock, word in ((600, "Expired"), (-600, "Rewound")):
            with self.subTest(clock):
                other = self.start_munged(clock)
                made = subprocess.run(self.nodes[0].inside("munge", "-s", "x"), capture_output=True, text=True)
                seen = subprocess.run(other.inside("unmunge"), input=made.stdout, capture_output=True, text=True)
                self.assertIn(word, seen.stdout)  # or the clock is right, and this tests nothing
                agents = self.start_both(other)
                self.await_events(2, "start", 1)
                self.end_well(*agents)
                os.remove(self.path("events"))

    def test_another_key_of_munges_keeps_a_node_out(self):
        one, two = self.start_both(self.start_munged(0, secrets.token_bytes(64)))
        two.says("cannot authenticate coordinator at ")
        two.says(": munged: Invalid credential; set CXXRUN_SECRET_FILE to a file of mode 0600 with the same "
                 "content on all nodes; trying the next port")
        one.process.terminate()
        self.assertEqual(two.wait(), 111, two.stderr)
        self.assertEqual(self.events(), [])

    def test_one_that_is_stopped_costs_two_seconds_and_a_line(self):
        self.nodes[0].process.send_signal(signal.SIGSTOP)
        agent = self.start_on(self.nodes[0], "--auth", "munge")
        self.assertEqual(agent.wait(), 111, agent.stderr)
        self.assertIn(f"no key to share with the other nodes: {self.SILENT}; set CXXRUN_SECRET_FILE", agent.stderr)
        self.assertEqual(self.events(), [])

    def test_one_that_is_stopped_on_the_other_node_is_waited_for(self):
        other = self.start_munged(0)
        other.process.send_signal(signal.SIGSTOP)
        agents = self.start_both(other)
        agents[1].says("cannot authenticate coordinator at ")
        agents[1].says(f": {self.SILENT}; set CXXRUN_SECRET_FILE")
        other.process.send_signal(signal.SIGCONT)
        self.await_events(2, "start", 1)
        self.end_well(*agents)

    def test_one_that_is_stopped_disturbs_nobody_who_has_a_home_directory(self):
        self.nodes[0].process.send_signal(signal.SIGSTOP)
        home = {"HOME": self.dir}
        agents = [self.start_on(self.nodes[0], env=home)]
        agents[0].says("waiting for nodes")
        agents.append(self.start_on(self.nodes[0], env=home))
        self.await_events(2, "start", 1)
        self.end_well(*agents)


class BadInput(Trust):
    def test_a_secret_that_is_too_short(self):
        self.refuses(100, "CXXRUN_SECRET: it has 5 bytes and needs 32 random ones, as `openssl rand -hex 32` makes them",
                     env={"CXXRUN_SECRET": "short"})
        self.refuses(100, "CXXRUN_SECRET_FILE: .*/secret: it has 0 bytes", env=self.secret_file(""))

    def test_a_secret_that_anybody_guesses(self):
        text = "it is not random, so others can guess it; make it with `openssl rand -hex 32`"
        self.refuses(100, "CXXRUN_SECRET: " + text, env={"CXXRUN_SECRET": "password" * 4})
        self.refuses(100, "CXXRUN_SECRET_FILE: .*/secret: " + text, env=self.secret_file("0" * 64))

    def test_a_secret_file_that_others_may_read_or_that_is_none(self):
        self.refuses(100, "secret can be accessed by other users: put a new secret into a file of mode 0600", env=self.secret_file(mode=0o640))
        self.refuses(100, "CXXRUN_SECRET_FILE: cannot read /nowhere: No such file",
                     env={"CXXRUN_SECRET_FILE": "/nowhere"})
        if os.geteuid() == 0:
            os.chown(self.path("secret"), 65534, -1)
            os.chmod(self.path("secret"), 0o600)
            self.refuses(100, "secret can be accessed by other users", env={"CXXRUN_SECRET_FILE": self.path("secret")})
        os.mkdir(self.path("folder"))
        self.refuses(100, "folder is no regular file", env={"CXXRUN_SECRET_FILE": self.path("folder")})
        os.symlink(self.path("secret"), self.path("link"))
        self.refuses(100, "link is no regular file, or a link: put a new secret", env={"CXXRUN_SECRET_FILE": self.path("link")})

    def test_no_way_to_the_other_nodes(self):
        self.refuses(111, "no key to share with the other nodes: .*; set CXXRUN_SECRET_FILE to a file of mode 0600",
                     "--auth", "file", env={"HOME": "/proc/nowhere"})
        self.refuses(111, "no key to share with the other nodes: --auth file needs CXXRUN_SECRET_FILE or HOME",
                     "--auth", "file", env={"HOME": None})

    def test_home_directories_that_are_not_shared(self):
        homes = [self.path(name) for name in ("one", "two")]
        for home in homes:
            os.mkdir(home)
        one = self.start_node("--auth", "file", self.program, env={"HOME": homes[0]})
        one.says("waiting for nodes")
        two = self.start_node("--auth", "file", self.program, env={"HOME": homes[1]})
        two.says("cannot authenticate coordinator at ")
        two.says(": cannot read " + homes[1] + "/.cxxrun/key: No such file or directory; set "
                 "CXXRUN_SECRET_FILE to a file of mode 0600 with the same content on all nodes; trying the next port")
        self.assertEqual(two.wait(), 111, two.stderr)
        self.assertFalse(os.path.exists(homes[1] + "/.cxxrun"))  # one that came too early would be of no use
        one.process.terminate()
        one.wait()
        self.assertEqual(self.events(), [])

    def test_a_home_directory_that_is_read_only(self):
        home = self.path("home")
        os.mkdir(home, 0o500)
        if os.access(home, os.W_OK):  # root may write wherever the file system may
            if munged.missing():
                self.skipTest(munged.missing())
            subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", home], check=True)
            self.addCleanup(subprocess.run, ["umount", home], check=True)
        self.refuses(111, "no key to share with the other nodes: cannot make .*/home/.cxxrun/key: "
                     "(No such file or directory|Read-only file system|Permission denied); set CXXRUN_SECRET_FILE",
                     "--auth", "file", env={"HOME": home})

    def test_a_home_directory_key_that_others_may_read(self):
        os.mkdir(self.path(".cxxrun"), 0o700)
        self.secret_file(mode=0o644, name=".cxxrun/key")
        self.refuses(111, r"no key to share with the other nodes: .*/.cxxrun/key can be accessed by other users",
                     "--auth", "file")

    def test_another_run_of_the_same_user(self):
        secret = self.secret_file()
        one = self.start_node("--rdzv-id", "one", self.program, env=secret)
        one.says("waiting for nodes")
        other = self.start_node("--rdzv-id", "other", self.program, env=secret)
        self.assertEqual(other.wait(), 111, other.stderr)
        self.assertIn("this is run one, not run other; give all agents of one job the same --rdzv-id", other.stderr)
        self.assertIn("no coordinator at 127.0.0.1:%d yet (this is run one, not run other); trying for" % self.port, other.stderr)
        two = self.start_node("--rdzv-id", "one", self.program, env=secret)
        self.await_events(2, "start", 1)
        self.end_well(one, two)

    def test_another_word(self):
        self.refuses(100, "--auth", "--auth", "some")


if __name__ == "__main__":
    jobs.main()
