"""What the tests of whole jobs share: starting agents, waiting for what workers tell, finding what is left over.

A test gets a directory of its own. Workers tell what they do by appending lines "GENERATION RANK WORD…" to the file
`events` there and wait at gates (FIFOs), so that nothing depends on how fast the machine is. Every process of a
test carries a marker in its environment; whoever still carries it at the end is a leftover and fails the test."""
import collections
import glob
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))  # also for whoever imports this

CXXRUN = ""
GUARD = 45  # seconds; against hanging only
MARKER = "CXXRUN_TEST_MARKER"

GATE = re.compile(r"""\bgate(?: |\(["'])(\w+)(?![\w$.{])""")  # a use of one, in either language

PROLOGUE = """#!/bin/sh
note() { echo "$CXXRUN_GENERATION $RANK $*" >> "$DIR/events"; }
gate() { : < "$DIR/$1"; }
"""

PYTHON_PROLOGUE = """import os, signal, sys, time
DIR, RANK, GENERATION = os.environ["DIR"], os.environ["RANK"], os.environ["CXXRUN_GENERATION"]
def note(*words):
    with open(DIR + "/events", "a") as f:
        f.write(" ".join([GENERATION, RANK, *map(str, words)]) + "\\n")
def gate(name):
    open(DIR + "/" + name).close()
"""


long = unittest.skipUnless(os.environ.get("CXXRUN_PATIENCE"), "takes long: only with scripts/test --full or CXXRUN_PATIENCE=1")


class Hang(AssertionError):
    pass


def wait_until(condition, what, guard=GUARD, pause=0.005):
    """Polls until condition() is true and returns what it returned. `pause`: seconds, more for one that starts a process;
    it grows, as the CPU is for what is waited for."""
    began = time.monotonic()
    while True:
        result = condition()
        if result:
            return result
        waited = time.monotonic() - began
        if waited > guard:
            raise Hang(f"not within {guard} s: {what}")
        time.sleep(max(pause, min(waited / 20, 0.05)))


def is_sanitized():
    """Whether CXXRUN was built with a sanitizer."""
    with open(CXXRUN, "rb") as file:
        data = file.read()
    return b"__asan_init" in data or b"__tsan_init" in data


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def free_port():
    """A port that nobody listens on, outside the range from which the kernel hands out ports."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("0.0.0.0", port))
                return port
            except OSError:
                continue


def port_of(seed):
    """The first of the ports by that seed (src/base/core/ports.hpp)."""
    value = 0xcbf29ce484222325
    for byte in seed.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return 20000 + value % 11987


def children(pid):
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def alive(pid):
    """Whether the process runs; a zombie does not."""
    stat = read(f"/proc/{pid}/stat")
    return bool(stat) and stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def processes_with(marker):
    """Process ids that have the marker in their environment, whoever their parent is now."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as f:
                if wanted in f.read().split(b"\0") and alive(entry):
                    found.append(int(entry))
        except OSError:
            continue
    return found


def what_runs(marker):
    """A line for each process that has the marker: who hangs, and in what."""
    lines = []
    for pid in processes_with(marker):
        stat = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if stat:
            cpu = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
            lines.append(f"  pid {pid}: state {stat[0]}, {cpu:.1f} s of CPU, in {read(f'/proc/{pid}/wchan')}: "
                         + read(f"/proc/{pid}/cmdline").replace("\0", " "))
    return "\n".join(["what runs:", *lines])


class Agent:
    """One started cxxrun: its first process (the parent) and, through it, the agent proper."""

    def __init__(self, arguments, env, base, behind=(), **more):
        """`behind`: a command that becomes cxxrun."""
        self.files = (base + ".out", base + ".err")
        more.setdefault("stdin", subprocess.DEVNULL)
        with open(self.files[0], "w") as out, open(self.files[1], "w") as err:
            more.setdefault("stdout", out)
            more.setdefault("stderr", err)
            self.process = subprocess.Popen([*behind, CXXRUN, *arguments], env=env, **more)
        self.pid = self.process.pid
        self.marker = env.get(MARKER)

    @property
    def stdout(self):
        return read(self.files[0])

    @property
    def stderr(self):
        return read(self.files[1])

    def agent_pid(self):
        return wait_until(lambda: children(self.pid), "the agent process is forked")[0]

    def wait(self, guard=GUARD):
        try:
            return self.process.wait(guard)
        except subprocess.TimeoutExpired:
            raise Hang(f"cxxrun still runs after {guard} s; {what_runs(self.marker)}\n"
                       f"its stderr:\n{self.stderr}") from None

    def says(self, text):
        wait_until(lambda: text in self.stderr or self.process.poll() is not None, f"'{text}' on stderr")
        assert text in self.stderr, f"cxxrun ended without saying '{text}':\n{self.stderr}"


class JobCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cxxrun-job-test-")
        self.addCleanup(shutil.rmtree, self.dir)  # the last one: file systems that tests mount are gone by then
        self.marker = os.path.basename(self.dir)
        self.agents = []
        self.gates = []
        self.port = free_port()

    def tearDown(self):
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.process.send_signal(signal.SIGCONT)
                agent.process.kill()
                agent.process.wait()
        for fd in self.gates:
            os.close(fd)
        self.assert_nothing_left()

    def assert_nothing_left(self, guard=10, marker=None):
        """No process of this test, on any node; what there is is told of, and killed."""
        marker = marker or self.marker
        try:
            wait_until(lambda: not processes_with(marker), "nothing is left over", guard)
        except Hang as hang:
            left = what_runs(marker)
            for pid in processes_with(marker):
                os.kill(pid, signal.SIGKILL)
            raise Hang(f"{hang}; {left}") from None

    # ---- workers

    def path(self, name):
        return os.path.join(self.dir, name)

    def make_file(self, name, text="", mode=None):
        """A file of the test, with the directories on its way; returns its path."""
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)
        if mode is not None:
            os.chmod(self.path(name), mode)
        return self.path(name)

    def worker(self, body, name="worker"):
        """A shell script with `note WORD…` and `gate NAME`, whose gates are made here; returns its path."""
        self.make_gates_of(body)
        return self.make_file(name, PROLOGUE + body + "\n", 0o755)

    def python_worker(self, body, name="worker.py"):
        """The same in Python; returns what to put behind the options (not run through cxxrun's .py rule)."""
        self.make_gates_of(body)
        return ["/usr/bin/python3", self.make_file(name, PYTHON_PROLOGUE + body + "\n")]

    def make_gate(self, name):
        """For those that no worker() names."""
        if not pathlib.Path(self.path(name)).is_fifo():
            os.mkfifo(self.path(name))

    def make_gates_of(self, body):
        for name in GATE.findall(body):
            if not os.path.exists(self.path(name)):  # else it may be open
                self.make_gate(name)

    def open_gate(self, name):
        """Lets through everybody who waits at the gate, and everybody who comes later."""
        self.gates.append(os.open(self.path(name), os.O_RDWR))  # whoever waits in open(2) is let through
        os.rename(self.make_file(name + ".open"), self.path(name))

    def mount_small(self, options):
        """A file system of its own; returns its path. Skips the test without root."""
        os.mkdir(self.path("small"))
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.path("small")]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode != 0:
            self.skipTest("mounting a small file system needs root")
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("small")])
        return self.path("small")

    def events(self, word=None, generation=None):
        """(generation, rank, words…) of the whole lines so far."""
        lines = read(self.path("events"))
        lines = lines[: lines.rfind("\n") + 1].splitlines()
        events = [(int(g), int(r), *words) for g, r, *words in (line.split(" ") for line in lines)]
        return [e for e in events
                if (word is None or e[2] == word) and (generation is None or e[0] == generation)]

    def await_events(self, count, word, generation=None):
        def seen():
            found = self.events(word, generation)
            return found if len(found) >= count else None
        try:
            return wait_until(seen, f"{count} × '{word}' of generation {generation}")
        except Hang as hang:
            texts = "\n".join(agent.stderr for agent in self.agents)
            raise Hang(f"{hang}\nevents: {self.events()}\nstderr:\n{texts}") from None

    def verdict(self, logs="logs"):
        """What the one coordinator has written that had this --log-dir."""
        [path] = glob.glob(self.path(logs) + "/*/verdict.json")
        return json.loads(read(path))

    # ---- agents

    def environment(self, extra=None):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("SLURM_", "PET_", "TORCH", "CXXRUN_", "OMP_", "MASTER_"))}
        env.update({MARKER: self.marker, "DIR": self.dir, "TMPDIR": self.dir, "HOME": self.dir})
        env.update(extra or {})
        return {name: value for name, value in env.items() if value is not None}

    def start(self, *arguments, env=None, **more):
        agent = Agent(arguments, self.environment(env), self.path(f"agent{len(self.agents)}"), **more)
        self.agents.append(agent)
        return agent

    def start_node(self, *arguments, nnodes="2", **more):
        """One agent of a job of several on this machine."""
        return self.start("--nnodes", nnodes, "--rdzv-endpoint", f"127.0.0.1:{self.port}", *arguments, **more)

    def start_two(self, *arguments, nnodes="2", **more):
        """Two agents, the first of which hosts the coordinator."""
        first = self.start_node(*arguments, nnodes=nnodes, **more)
        first.says("waiting for nodes" if nnodes == "2" else "waiting for more")
        return first, self.start_node(*arguments, nnodes=nnodes, **more)

    def ended(self, agent, code=None):
        """The agent, once it has ended. `code`: what its exit code must be."""
        agent.code = agent.wait()
        if code is not None:
            self.assertEqual(agent.code, code, agent.stderr)
        return agent

    def run_job(self, *arguments, code=None, **more):
        return self.ended(self.start(*arguments, **more), code)

    def end_unseen(self, job, count):
        """Opens the gate `go`. The agent sees nothing until these workers, which have noted `ready PID`, have ended."""
        pids = [int(event[3]) for event in self.await_events(count, "ready")]
        os.kill(job.agent_pid(), signal.SIGSTOP)
        self.open_gate("go")
        wait_until(lambda: not any(map(alive, pids)), "the workers have ended")
        os.kill(job.agent_pid(), signal.SIGCONT)

    def assert_codes(self, codes, *agents):
        found = [agent.wait() for agent in agents]
        self.assertEqual(found, list(codes), "\n".join(agent.stderr for agent in agents))

    def release(self, *agents):
        """Opens the gate `go`, for which they wait: now all of them end, and well."""
        self.open_gate("go")
        self.assert_codes([0] * len(agents), *agents)


def some_at_a_time(begin, plans, most=2):
    """(plan, begin(plan)) of each, when so many have begun or all have: the caller waits for it while others run."""
    begun = collections.deque()
    for plan in plans:
        begun.append((plan, begin(plan)))
        if len(begun) == most:
            yield begun.popleft()
    yield from begun


def count_reports(*agents):
    """How many full reports were printed (each stands between two rules)."""
    return sum(agent.stderr.splitlines().count("=" * 72) for agent in agents) / 2


class _Result(unittest.TextTestResult):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def stopTest(self, test):
        super().stopTest(test)
        if os.environ.get("CXXRUN_TEST_TIMES"):
            print(f"{time.monotonic() - self.began:6.2f} s  {test.id()}", flush=True)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def main(why_not=None):
    """SCRIPT CXXRUN [unittest arguments, for example -k NAME]; prints what was not tested and why, and 'N passed, N failed,
    N skipped'. Exit code 77: nothing could be tested here. `why_not`: that is known already, and why."""
    global CXXRUN
    if why_not:
        skip(why_not)
    CXXRUN = os.path.abspath(sys.argv.pop(1))
    runner = unittest.TextTestRunner(resultclass=_Result, stream=sys.stdout)
    result = unittest.main(testRunner=runner, exit=False).result
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    for test, why in result.skipped:
        print(f"not tested: {test.id().removeprefix('__main__.')}: {why}")
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed or not (result.passed or result.skipped) else 0 if result.passed else 77)
