"""Hosts as processes see them: a network namespace (support/wires.py) and in it a PID namespace with its own /proc and
host name, whose init process keeps one cxxrun and ends with this one. Nothing stays behind."""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "jobs"))
import attacker

PORT = 29400
RUN = "faults"
SECRET = "the secret of a job that meets at derived ports"
# Runs cxxrun, keeps its exit code, stays: sockets of a dead agent close while the host lives.
INIT = """echo "$NAME" > /proc/sys/kernel/hostname
( "$@" > "$LOGS/out" 2> "$LOGS/err"; echo $? > "$LOGS/exit.new"; mv "$LOGS/exit.new" "$LOGS/exit" ) &
exec cat > /dev/null"""
_libc = ctypes.CDLL(None)
DROPPED = ("SLURM_", "PET_", "TORCH", "CXXRUN_", "OMP_", "MASTER_")


def die_with_parent(number=signal.SIGKILL):
    _libc.prctl(1, number, 0, 0, 0)


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid):
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def descendants(pid):
    found = [pid]
    for one in found:
        found.extend(children(one))
    return found[1:]


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Machine:
    """One host of a job. `net` is its wires.Host."""

    def __init__(self, index, net, directory):
        self.index, self.net = index, net
        self.logs = pathlib.Path(directory, f"host{index}")
        self.logs.mkdir()
        self.process = None

    def start(self, command, env):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
        env = {**kept, **env, "NAME": f"host{self.index}", "LOGS": str(self.logs), "FAULTS_HOST": str(self.index)}
        with open(self.logs / "init", "w") as log:  # its own complaints, of which unshare 2.38 has one at every end
            self.process = subprocess.Popen(
                ["nsenter", f"--net={self.net.net}", "unshare", "--pid", "--uts", "--fork", "--mount-proc",
                 "--kill-child", "sh", "-c", INIT, "host", *command], env=env, stdin=subprocess.PIPE, stderr=log,
                preexec_fn=die_with_parent)

    # ---- process ids, as seen from outside

    def init(self):
        return children(self.process.pid)[:1]

    def all(self):
        """Every process that cxxrun is or started; not init and the shell that keeps the exit code."""
        shells = [shell for init in self.init() for shell in children(init)]
        return [pid for shell in shells for pid in descendants(shell)]

    def parent(self):
        return self.all()[:1]

    def agent(self):
        return [pid for parent in self.parent() for pid in children(parent)[:1]]

    def workers(self):
        return [pid for agent in self.agent() for pid in descendants(agent)]

    # ---- what became of it

    def exit_code(self):
        text = read(self.logs / "exit")
        return int(text) if text else None

    @property
    def said(self):
        return read(self.logs / "err")

    def close(self):
        if self.process is not None:
            send(self.init(), signal.SIGKILL)
            self.process.stdin.close()
            self.process.wait()


class Cluster:
    """`wires.hosts` as machines of one job; `--node-rank` is the index, host 0 coordinates."""

    def __init__(self, wires, directory):
        self.wires = wires
        self.directory = pathlib.Path(directory)
        self.machines = [Machine(i, net, directory) for i, net in enumerate(wires.hosts)]

    @property
    def endpoint(self):
        address = self.wires.hosts[0].address
        return f"[{address}]:{PORT}" if ":" in address else f"{address}:{PORT}"

    def start(self, cxxrun, options, program, env, derived=False):
        """`derived`: they meet at ports that follow from the run's name, which is RUN, and from SECRET."""
        env = {**env, "CXXRUN_SECRET": SECRET} if derived else env
        meeting = ["--master-addr", self.wires.hosts[0].address, "--rdzv-id", RUN] if derived else \
            ["--rdzv-endpoint", self.endpoint]
        for machine in self.machines:
            own = ["--node-rank", str(machine.index), *meeting]
            machine.start([cxxrun, *own, *options, *program], env)

    def exits(self):
        return {machine.index: machine.exit_code() for machine in self.machines if machine.exit_code() is not None}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for machine in self.machines:
            machine.close()


def derived_ports(count):
    """The first ports at which agents of RUN look for their coordinator, as the user with the secret knows them."""
    number = 0xcbf29ce484222325
    for byte in f"{RUN}:0".encode():
        number = (number ^ byte) * 0x100000001b3 % 2**64
    start, stride = number % 11987, 1 + (number >> 32) % 11986
    everybodys = [20000 + (start + i * stride) % 11987 for i in range(16)]
    return attacker.hidden_ports(attacker.secret_key(SECRET), everybodys)[:count]


def boot_now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)
