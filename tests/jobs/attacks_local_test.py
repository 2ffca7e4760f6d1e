"""Another user on the same node, beside a job's ports: its sockets and processes, the directories in which it is started
and has its temporary files, and cxxrun-rendezvous.
Usage: attacks_local_test.py CXXRUN"""
import json
import os
import secrets
import subprocess

import attack_jobs
import jobs
from attack_jobs import NO_LINE, UNPROVEN, VICTIM, Attack, as_user
from attacker import join
from jobs import processes_with, read, wait_until


def setUpModule():
    attack_jobs.share_programs()


class Sockets(attack_jobs.SocketAttack):
    def test_calls_where_workers_meet_their_agent(self):
        job, names = self.job_with_sockets()
        self.assertEqual(self.as_other(self.CALL, 0, *names), ["PermissionError"])
        self.row("calls the sockets at which workers meet their agent", "does not get there", NO_LINE)
        self.end(job)
        self.assertEqual([name for name in names if os.path.exists(os.path.dirname(name))], [])


class Processes(Attack):
    AREA = "processes"

    LOOK = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, do):
    try: do(); print(name)
    except OSError as error: assert type(error) in (PermissionError,), error
def call(*words):
    if libc.syscall(*words) < 0: raise OSError(ctypes.get_errno(), "")
for pid in map(int, sys.argv[1:]):
    for name in ("environ", "maps", "mem", "io", "stack", "syscall"):
        attempt(name, lambda: open(f"/proc/{pid}/{name}", "rb").read(1))
    for name in ("fd", "map_files"): attempt(name, lambda: os.listdir(f"/proc/{pid}/{name}"))
    for fd in range(64): attempt("memfd", lambda: os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY))
    for name in ("cwd", "exe", "root"): attempt(name, lambda: os.readlink(f"/proc/{pid}/{name}"))
    try: pidfd = os.pidfd_open(pid)
    except OSError: pidfd = None  # an old kernel
    for fd in range(64) if pidfd else (): attempt("pidfd_getfd", lambda: call(438, pidfd, fd, 0))
    attempt("ptrace", lambda: call(101, 16, pid, 0, 0))
    attempt("kill", lambda: os.kill(pid, 9))
    print("argv", open(f"/proc/{pid}/cmdline").read().replace("\\0", "_").replace(" ", "_"))
"""

    def test_looks_into_them(self):
        secret = secrets.token_hex(32)
        job = self.start("--nnodes", "1", "--rdzv-endpoint", f"127.0.0.1:{self.port}", self.program,
                         env={"CXXRUN_SECRET": secret})
        self.await_events(1, "start", 1)
        pids = processes_with(self.marker)
        self.assertGreaterEqual(len(pids), 3)  # two of the agent, and its worker
        said = self.as_other(self.LOOK, *pids)
        self.assertEqual(said[::2], ["argv"] * len(pids), said)
        self.assertNotIn(secret, "".join(said))
        self.row("reads environ, memory, descriptors and memfds of agents and workers, traces and kills them",
                 "the kernel refuses all of it; argv is public, and holds no secret", NO_LINE)
        self.release(job)


class Directories(Attack):
    """In which the victim works and others may write. The kernel lets them rename what is in one that is not sticky."""
    AREA = "files"

    # Most of them Python has not imported when it runs its first line. Each tells that it has been imported, and fails.
    MODULES = ("ctypes", "enum", "importlib", "re", "selectors", "signal", "socket", "struct", "torch")
    PLANT = """
for name in sys.argv[3:]:
    with open(sys.argv[1] + "/" + name + ".py", "w") as file:
        file.write(sys.argv[2])
"""

    def plant(self):
        """The working directory, and the file that is there once a module of it has run."""
        work, ran = self.shared("work"), self.path("ran")
        text = f"import posix\nposix.close(posix.open({ran!r}, posix.O_CREAT | posix.O_WRONLY))\nraise ImportError"
        self.as_other(self.PLANT, work, text, *self.MODULES)
        subprocess.run(["/usr/bin/python3", "-c", "import torch"], cwd=work, stderr=subprocess.DEVNULL, **as_user(VICTIM))
        self.assertTrue(os.path.exists(ran), "the planted modules are not what Python imports here")
        os.unlink(ran)
        return work, ran

    def test_modules_in_the_working_directory_of_doctor(self):
        work, ran = self.plant()
        job = self.start("--doctor", cwd=work, env={"PYTHON_EXEC": "/usr/bin/python3"})
        self.assertIn(job.wait(), (0, 1))
        self.assertFalse(os.path.exists(ran), job.stdout)
        self.assertRegex(job.stdout, r"\bPython +(/usr/bin/python3\S*, )?3\.")
        self.row("has modules of Python's own names in the directory where --doctor is started", "none is imported",
                 NO_LINE)

    def test_modules_in_the_working_directory_of_a_job(self):
        work, ran = self.plant()
        [_, worker] = self.python_worker("note('warm', warm)")
        text = "import sys\nwarm = 'fractions' in sys.modules\n" + read(worker)
        self.make_file(worker, text)
        for warm in ("fractions", ""):
            job = self.start("--standalone", *([f"--warm={warm}"] if warm else []), worker, cwd=work,
                             env={"PYTHON_EXEC": "/usr/bin/python3"})
            self.assert_codes([0], job)
            self.assertFalse(os.path.exists(ran), job.stderr)
        self.assertEqual([event[3] for event in self.events("warm")], ["True", "False"])
        self.row("has modules of Python's own names in the directory where a job is started, with and without --warm",
                 "none is imported", NO_LINE)

    def prey(self, place):
        """A directory of the victim's there that is not empty."""
        os.mkdir(place + "/prey")
        with open(place + "/prey/precious", "w") as file:
            file.write("as it was")
        for each in ("/prey", "/prey/precious"):
            os.chown(place + each, VICTIM, VICTIM)

    # Learns the name of the directory that --doctor makes and removes; then the prey has that name.
    SWAP = """
import ctypes
libc = ctypes.CDLL(None)
place, watch = sys.argv[1], libc.inotify_init()
assert libc.inotify_add_watch(watch, place.encode(), 0x300) > 0  # made, removed
print("ready", flush=True)
name, removed = "", False
while not removed:
    data = os.read(watch, 65536)
    while data:
        mask, _, length = struct.unpack("=III", data[4:16])
        word, data = data[16:16 + length].rstrip(bytes(1)).decode(), data[16 + length:]
        if word.startswith(".cxxrun-doctor-"): name, removed = word, mask & 0x200
os.rename(place + "/prey", place + "/" + name)
print(name, flush=True)
"""

    def test_swaps_the_directory_of_doctor(self):
        """It looks at Python until the gate is open, and then removes what it has made and not removed."""
        work = self.shared("work", 0o777)
        self.prey(work)
        python = self.worker('gate go; exec /usr/bin/python3 "$@"', "python3")
        other = self.start_ready(self.SWAP, work)
        job = self.start("--doctor", cwd=work, env={"PYTHON_EXEC": python})
        name = other.stdout.readline().strip()
        self.assertTrue(name.startswith(".cxxrun-doctor-"), name)
        self.open_gate("go")
        self.assertIn(job.wait(), (0, 1))
        self.assertEqual(os.listdir(work), [name])
        self.assertEqual(read(f"{work}/{name}/precious"), "as it was")
        self.row("has another directory of the user's in the place of the one that --doctor makes, where it may rename",
                 "that stays as it was", NO_LINE)

    MOVE = """
place = sys.argv[1]
for name in os.listdir(place):
    if name.startswith("cxxrun-") and os.path.exists(place + "/prey"):
        os.rename(place + "/" + name, place + "/moved")
        os.rename(place + "/prey", place + "/" + name)
print(*os.listdir(place))
"""

    def test_swaps_what_a_job_has_in_its_tmpdir(self):
        place = self.shared("tmp", 0o777)
        self.prey(place)
        os.chmod(self.dir, 0o755)
        job = self.start("--standalone", self.worker("note at $CXXRUN_AGENT $TORCHELASTIC_ERROR_FILE; gate go"),
                         env={"TMPDIR": place})
        [at] = self.await_events(1, "at", 1)
        self.assertEqual([os.path.dirname(os.path.dirname(at[3])), at[4].partition("/cxxrun-")[0]], ["/tmp", "/tmp"])
        self.assertEqual(self.as_other(self.MOVE, place), ["prey"])
        self.release(job)
        self.assertEqual(read(place + "/prey/precious"), "as it was")
        self.assertFalse(os.path.exists(os.path.dirname(at[3])))
        self.row("has other directories in the place of those that a job makes in TMPDIR, where it may rename",
                 "they are made in /tmp", NO_LINE)


class Rendezvous(Attack):
    AREA = "rendezvous"

    OPEN = """
for i in range(1000):
    words = [{**hello(asks="open"), "run_id": f"run{i}"}, json.loads(sys.argv[2])]
    print("told" if told(int(sys.argv[1]), *words) else "nothing")
with Sealed(int(sys.argv[1]), key=b"k" * 32) as call:
    call.send(*words)
    print("nothing" if call.hear_frame() is None else "told")
"""

    def test_opens_runs(self):
        out = self.path("out")
        with open(out, "w") as o, open(self.path("err"), "w") as e:
            server = subprocess.Popen([jobs.CXXRUN + "-rendezvous", "--port", "0"], env=self.environment(), stdout=o, stderr=e,
                                      stdin=subprocess.DEVNULL, **as_user(VICTIM))
        self.addCleanup(server.wait)
        try:
            wait_until(lambda: read(out).endswith("\n") or server.poll() is not None, "it listens")
            port = read(out).strip().rsplit(":", 1)[-1]
            heard = self.as_other(self.OPEN, port, json.dumps(join()))
            self.assertEqual(set(heard), {"nothing"})
            agent = self.start("--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "real", self.worker("note done"))
            self.assert_codes([0], agent)
            said = read(self.path("err"))
            line = next(line for line in said.splitlines() if UNPROVEN in line)
            self.assertLess(len(said.splitlines()), 60)
            self.row("opens a thousand runs at cxxrun-rendezvous", "none is opened; the job's own is", line)
        finally:
            server.terminate()


if __name__ == "__main__":
    jobs.main()
