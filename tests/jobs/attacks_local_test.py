"""Another user on the same node, beside a job's ports: its sockets and processes, and cxxrun-rendezvous.
Usage: attacks_local_test.py CXXRUN"""
import json
import os
import secrets
import subprocess
import sys

import attack_jobs
import jobs
from attack_jobs import ATTACKER, NO_LINE, UNPROVEN, VICTIM, Attack, as_user
from attacker import hello, join
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
        self.open_gate("go")
        self.assert_codes([0], job)


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
