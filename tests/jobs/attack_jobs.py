"""What the tests share in which another user of the same machine attacks a job: two users without root, what the attacker
says and hears, and the row that each attack becomes in docs/evidence/attacks.md (see attacks_table.py).

Needs root, to become both of them; else nothing is tested."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import jobs
import evidence
from jobs import children, processes_with, read
from stranger_jobs import Strangers, listening, sockets_of

HERE = pathlib.Path(__file__).resolve().parent
VICTIM, ATTACKER = 1500, 65534
PROGRAM = read(HERE / "attacker.py")
UNPROVEN = "unauthenticated connection from 127.0.0.1: it does not speak cxxrun's handshake"
NO_LINE = "–"  # the kernel refuses, and nobody has to say so
KEYLESS = "unauthenticated connection from 127.0.0.1: it does not know this job's key"


def as_user(uid, groups=()):
    return {"user": uid, "group": uid, "extra_groups": list(groups)}


def share_programs(*others):
    """For setUpModule: copies that both users may run; returns where those of `others` are."""
    if os.geteuid() != 0:
        return others
    place = tempfile.mkdtemp(prefix="cxxrun-attack-bin-")
    unittest.addModuleCleanup(shutil.rmtree, place)
    os.chmod(place, 0o755)

    def copied(path):
        return shutil.copy(path, place)
    copied(jobs.CXXRUN + "-rendezvous")
    jobs.CXXRUN = copied(jobs.CXXRUN)
    return [copied(each) for each in others]


def common(line):
    """What a line says on every machine: without its time, host, ports and process ids."""
    line = re.sub(r"^\S+ cxxrun\S*: (info|warning|error|debug): ", "", line)
    line = re.sub(r"^\[\S+:\d+\] ", "", line).removesuffix(" (more like it are only counted for now)")
    line = re.sub(r"\bon \S+: ", "on HOST: ", line)
    line = re.sub(r"/[^\s\"]*/cxxrun-job-test-[^/\s\"]+", "DIR", line)
    line = re.sub(r"(?<=/logs/)[^/]+", "RUN", line)
    line = re.sub(r"(?<=[\d\]]):\d{4,5}\b", ":PORT", line)
    return re.sub(r"\bport \d{4,5}\b(, \d{4,5}\b)*", "port PORT", line)


def tests_of(case, rows, method):
    """A test for each row: its name is the row's first word, and `method` is given all of them."""
    for row in rows:
        setattr(case, "test_" + re.sub(r"\W+", "_", row[0]), lambda self, row=row: method(self, *row))


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
class Attack(Strangers):
    AUTH = ()  # as it comes
    AREA = "agents"

    def setUp(self):
        super().setUp()
        os.chown(self.dir, VICTIM, VICTIM)

    # ---- the job

    def start(self, *arguments, **more):
        return super().start(*arguments, **{**as_user(VICTIM), **more})

    def ports(self, agents):
        """Every port at which they listen."""
        return sorted({port for agent in agents for pid in (agent.pid, *children(agent.pid)) for port in listening(pid)})

    def line(self, agents, text):
        """The line that holds `text`, once it is printed."""
        self.await_line(agents, re.escape(text))
        return next(line for line in self.said(agents).splitlines() if text in line)

    def shared(self, name, mode=0o1777):
        """A directory of the victim's in which others may write."""
        os.chmod(self.dir, 0o755)
        os.mkdir(self.path(name))
        os.chown(self.path(name), VICTIM, VICTIM)
        os.chmod(self.path(name), mode)
        return self.path(name)

    # ---- the attacker

    def start_other(self, body, *arguments, inside=(), **more):
        """Runs attacker.py and `body` as the other user; `inside`: a command that runs them. Its first process."""
        words = [*inside, "/usr/bin/python3", "-c", PROGRAM + "import sys, time\n" + body, *map(str, arguments)]
        process = subprocess.Popen(words, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={"PATH": os.environ["PATH"]}, **{**as_user(ATTACKER), **more})
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        return process

    def start_ready(self, body, *arguments, **more):
        """The same, and waits until it has printed a line."""
        process = self.start_other(body, *arguments, **more)
        self.assertTrue(process.stdout.readline(), "the attacker has ended")
        return process

    def as_other(self, body, *arguments, **more):
        """The words that it has printed when it ends."""
        process = self.start_other(body, *arguments, **more)
        said = process.communicate(timeout=jobs.GUARD)[0]
        self.assertEqual(process.returncode, 0, said)
        return said.split()

    # ---- what becomes documentation

    def row(self, attack, seen, line, code=0, who=f"uid {ATTACKER} on the same node"):
        evidence.tell(area=self.AREA, attack=attack, who=who, seen=seen, code=code, line=common(line))


class SocketAttack(Attack):
    """At the sockets of a node."""
    AREA = "local sockets"

    # Calls the paths given until `seconds` are over, each at least once.
    CALL = """
paths, end = sys.argv[2:], time.monotonic() + float(sys.argv[1])
heard = set()
while True:
    for name in paths:
        for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind) as call:
                try: call.connect(name); heard.add("connected")
                except OSError as error: heard.add(type(error).__name__)
    if time.monotonic() > end: break
print(*heard)
"""

    def job_with_sockets(self):
        os.chmod(self.dir, 0o755)  # the test's own directory keeps nobody out
        job = self.start("--standalone", self.worker("note at $CXXRUN_AGENT $CXXRUN_SEGMENT; gate go; note done"))
        [names] = [event[3:] for event in self.await_events(1, "at", 1)]
        self.assertTrue(all(name.startswith(self.dir) for name in names), names)
        inodes = set().union(*map(sockets_of, processes_with(self.marker)))
        abstract = [line for line in read("/proc/net/unix").splitlines() if " @" in line and line.split()[6] in inodes]
        self.assertEqual(abstract, [])  # which anybody could call
        return job, names

    def end(self, job):
        self.release(job)
        self.assertEqual(self.events("done"), [(1, 0, "done")])
