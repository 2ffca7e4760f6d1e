"""Another user on the same node, beside a job's ports: its sockets, files and processes, and cxxrun-rendezvous.
Usage: attacks_local_test.py CXXRUN TRAIN"""
import glob
import json
import os
import secrets
import signal
import subprocess
import sys

import attack_jobs
import jobs
from attack_jobs import ATTACKER, NO_LINE, UNPROVEN, VICTIM, Attack, as_user
from attacker import hello, join
from jobs import processes_with, read, wait_until
from train_jobs import FINAL

TRAIN = ""


def setUpModule():
    global TRAIN
    [TRAIN] = attack_jobs.share_programs(TRAIN)


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


class Files(Attack):
    AREA = "files"

    def train(self, directory, steps, uid=VICTIM):
        """The figures at the end, and what was said besides."""
        job = self.start("--standalone", "--nproc-per-node", "2", TRAIN, "--steps", str(steps), "--batch", "2",
                         "--save-every", "5", "--checkpoint-dir", directory, **as_user(uid))
        self.assert_codes([0], job)
        return FINAL.findall(job.stdout), job

    def test_checkpoint_planted(self):
        own = self.path("own")
        figures, _ = self.train(own, 12)
        planted, shared = self.shared("planted"), self.shared("shared")
        others, _ = self.train(planted, 30, ATTACKER)
        self.train(shared, 6)
        self.assertNotEqual(figures, others)
        for path in glob.glob(planted + "/step_*"):
                self.as_other("import shutil; shutil.copyfile(sys.argv[1], sys.argv[2])", path,
                              os.path.join(shared, os.path.basename(path)))
        found, job = self.train(shared, 12)
        self.assertEqual(found, figures)
        self.row("puts checkpoints of later steps into a directory that everybody may write to",
                 "they are passed over; the figures are those of an undisturbed run",
                 next(line for line in job.stdout.splitlines() if f"belongs to uid {ATTACKER}" in line))

    def test_link_in_a_checkpoint_directory(self):
        shared = self.shared("shared", 0o2770)  # the kernel follows no stranger's link where everybody may write
        precious = self.precious()
        self.as_other("os.symlink(sys.argv[1], sys.argv[2])", precious, shared + "/lock", extra_groups=[VICTIM])
        job = self.start("--standalone", "--max-restarts", "0", TRAIN, "--steps", "2", "--batch", "2", "--checkpoint-dir",
                         shared)
        self.assertEqual(job.wait(), 1, job.stderr)
        self.assertEqual(read(precious), "as it was")
        self.row("puts a link in the place of the lock of a checkpoint directory that its group may write to",
                 "the job ends by name, and the file that the link leads to is as it was",
                 self.line([job], "shared/lock is a link"), code=1,
                 who=f"uid {ATTACKER}, of the group")

    def precious(self):
        """A file of the victim's that nobody else can write to."""
        path = self.shared("home", 0o755) + "/precious"
        with open(path, "w") as f:
            f.write("as it was")
        os.chown(path, VICTIM, VICTIM)
        return path

    def test_directory_of_the_fence_taken(self):
        """Two nodes, and the one that coordinates is lost: the other has half of the votes, and the fence decides."""
        fence = self.shared("fence")
        self.as_other("for name in ('job', 'job-', 'job-0000000000000000'): os.mkdir(sys.argv[1] + '/' + name, 0o777)", fence)
        options = ("--nnodes", "1:2", "--rdzv-id", "job", "--fence", fence, "--heartbeat-timeout", "1", "--rdzv-conf",
                   "last_call_timeout=1")
        agents = [self.start_node(*options, self.program) for _ in range(2)]
        self.await_events(2, "start", 1)
        host = next(agent for agent in agents if "generation 1 runs" in agent.stderr)
        os.kill(host.agent_pid(), signal.SIGKILL)
        host.process.kill()
        left = next(agent for agent in agents if agent is not host)
        self.await_events(1, "start", 2)
        self.open_gate("go")
        self.assert_codes([0], left)
        self.row("takes the directories in --fence that a run could use, where everybody may write",
                 "the run uses another one; the node that is left goes on when the first is lost", NO_LINE)

    def test_link_in_a_log_directory(self):
        logs, precious = self.shared("logs", 0o2770), self.precious()
        program = self.worker('note start; gate "go$CXXRUN_GENERATION"; echo forged; [ $CXXRUN_GENERATION = 2 ]')
        self.make_gate("go1")
        self.make_gate("go2")
        job = self.start("--standalone", "--log-dir", logs, "--redirects", "3", program, umask=0o002)
        self.await_events(1, "start", 1)
        [attempt] = glob.glob(logs + "/*/attempt_1")
        self.as_other("os.umask(0)\nplace = sys.argv[1]\nos.makedirs(place + '/0')\n"
                      "os.symlink(sys.argv[2], place + '/0/stdout.log')\nos.symlink(sys.argv[2], place + '/0/stderr.log')",
                      attempt[:-1] + "2", precious, extra_groups=[VICTIM])
        self.open_gate("go1")
        self.await_events(1, "start", 2)
        self.open_gate("go2")
        self.assert_codes([0], job)
        self.assertEqual(read(precious), "as it was")
        self.row("puts links into a log directory that its group may write to", "no output goes through them",
                 self.line([job], "attempt_2"), who=f"uid {ATTACKER}, of the group")


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
    TRAIN = os.path.abspath(sys.argv.pop(2))
    jobs.main()
