"""Hosts of a made-up cluster, which come and go: each has a network (support/wires.py), PIDs, a host name, mounts, IPC,
/tmp and /dev/shm of its own, and a PID 1 that runs one cxxrun and reaps whatever is left to it. All share one HOME.
Traffic is between these hosts alone, and everything ends with this process."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
for room in ("support", "slurm", "faults", "jobs"):
    sys.path.insert(0, str(TESTS / room))
import jobs  # noqa: E402
import namespaces as ns  # noqa: E402
import wires  # noqa: E402
from machines import DROPPED, children, descendants, die_with_parent, read, send  # noqa: E402

JOB = "4711"
MOST_HOSTS = 4000  # in /etc/hosts
TMP_BYTES = 16 << 20  # of a host's /tmp, so that it is soon full


def missing():
    """Why there can be no hosts here, or None."""
    why = wires.missing("nft", "ss")
    if why:
        return why
    lacking = ns.missing(freezer=False)
    return f"this machine does not let us make {lacking}" if lacking else None


def is_sanitized(cxxrun):
    jobs.CXXRUN = cxxrun
    return jobs.is_sanitized()


def name_of(index):
    return f"n{index + 1:04}"


def address_of(index):
    return f"10.77.{index // 250}.{index % 250 + 1}"


class Host:
    """One host from its boot to its end. `place` has what its cxxrun said and its exit code."""

    def __init__(self, index, network, directory):
        self.index, self.network, self.name = index, network, name_of(index)
        self.place = pathlib.Path(directory, "hosts", self.name)
        self.place.mkdir(parents=True)
        self.clock = self.place / "clock"  # by how many seconds its wall clock is wrong, in 8 bytes
        self.clock.write_bytes(bytes(8))
        self.joins = False
        self.stopped = []
        self.pid = None  # of its PID 1; None before its boot and after its end
        self.booted_at = self.struck_at = None

    @property
    def wire(self):
        return self.network.hosts[self.index]

    # ---- life

    def boot(self, cluster, command, env):
        own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        ns.unshare(ns.NEWPID)  # of the next child
        pid = os.fork()
        if pid == 0:
            _become(self, cluster, command, env)  # does not return
        ns.setns(own_pids, ns.NEWPID)
        os.close(own_pids)
        self.pid, self.booted_at = pid, time.clock_gettime(time.CLOCK_BOOTTIME)

    def end(self):
        """As without power; everything in its PID namespace is gone when this returns."""
        if self.pid is not None:
            send([self.pid], signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None

    def is_plugged(self):
        return self.wire.holder.poll() is None

    def remove(self):
        self.end()
        if self.is_plugged():
            self.wire.close()

    # ---- process ids, as seen from outside

    def processes(self):
        return descendants(self.pid) if self.pid is not None else []

    def parent(self):
        return children(self.pid)[:1] if self.pid is not None else []

    def agent(self):
        return [pid for parent in self.parent() for pid in children(parent)[:1]]

    def workers(self):
        return [pid for agent in self.agent() for pid in children(agent) if _runs(pid, "chaos_worker")]

    # ---- what became of it

    def exit_code(self):
        text = read(self.place / "exit")
        return int(text) if text else None

    @property
    def said(self):
        return read(self.place / "err")

    def runs(self):
        """Whether its cxxrun is there and nothing has been done to it that it does not survive."""
        return self.pid is not None and self.exit_code() is None

    # ---- what can be done to it

    def freeze(self):
        """All but its PID 1, until none is left that runs."""
        while True:
            running = [pid for pid in self.processes() if _state(pid) not in "TtZX"]
            if not running:
                return
            send(running, signal.SIGSTOP)
            self.stopped.extend(running)

    def thaw(self):
        send(self.stopped, signal.SIGCONT)
        self.stopped = []

    def run(self, *command):
        return subprocess.run(["nsenter", f"--net={self.wire.net}", *command], check=True, capture_output=True,
                              text=True).stdout

    def tmp(self):
        return f"/proc/{self.pid}/root/tmp"


def _state(pid):
    stat = read(f"/proc/{pid}/stat")
    return stat.rpartition(")")[2].split()[0] if stat else "X"


def _runs(pid, program):
    return read(f"/proc/{pid}/comm").startswith(program)


def _become(host, cluster, command, env):
    """The host's PID 1."""
    try:
        die_with_parent()
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        net = os.open(host.wire.net, os.O_RDONLY)
        ns.setns(net, ns.NEWNET)
        log = os.open(host.place / "init", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        null = os.open("/dev/null", os.O_RDONLY)
        for fd, place in ((null, 0), (log, 1), (log, 2)):
            os.dup2(fd, place)
        os.closerange(3, 4096)
        ns.unshare(ns.NEWNS | ns.NEWUTS | ns.NEWIPC)
        socket.sethostname(host.name)
        ns.mount("none", "/", flags=ns.RECURSIVE | ns.PRIVATE)
        ns.mount("proc", "/proc", "proc")
        ns.bind(str(cluster.directory / "etc_hosts"), "/etc/hosts")
        ns.hide([("/run", "755"), ("/dev/shm", "1777"), ("/tmp", f"1777,size={TMP_BYTES}")], [str(cluster.directory)])
        os.chdir("/")
        with open(host.place / "out", "w") as out, open(host.place / "err", "w") as err:
            first = subprocess.Popen(command, env=env, stdout=out, stderr=err, stdin=subprocess.DEVNULL).pid
        _reap_for_ever(host.place, first)
    except BaseException as error:  # nobody else would hear of it
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def _reap_for_ever(place, first):
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            signal.pause()
        if pid == first:
            (place / "exit.new").write_text(str(os.waitstatus_to_exitcode(status)))
            (place / "exit.new").rename(place / "exit")


class Cluster:
    """The hosts of one job. The first ones are a step of Slurm's; whoever comes later enters it with --join."""

    def __init__(self, directory, cxxrun, worker, clock_library):
        self.directory = pathlib.Path(directory)
        for name in ("hosts", "home", "steps", "logs", "bin"):
            (self.directory / name).mkdir(mode=0o700 if name == "home" else 0o755)
        # Copies: hosts see them wherever they lie, and a build meanwhile changes nothing.
        self.cxxrun = shutil.copy(cxxrun, self.directory / "bin")
        self.worker = [shutil.copy(worker[0], self.directory / "bin"), *worker[1:]]
        # A sanitizer's library has to be the first one: there the clocks do not jump.
        clock = shutil.copy(clock_library, self.directory / "bin")
        self.preload = {} if is_sanitized(cxxrun) else {"LD_PRELOAD": str(clock)}
        self.net = wires.Wires(0)
        self.hosts = []
        lines = ["127.0.0.1 localhost", *(f"{address_of(i)} {name_of(i)}" for i in range(MOST_HOSTS))]
        (self.directory / "etc_hosts").write_text("\n".join(lines) + "\n")

    def new_host(self):
        host = Host(self.net.add(), self.net, self.directory)
        self.hosts.append(host)
        return host

    def start(self, count, options):
        nodes = f"n[{name_of(0)[1:]}-{name_of(count - 1)[1:]}]"
        step = {"SLURM_JOB_ID": JOB, "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": nodes, "SLURM_LOCALID": "0",
                "SLURM_STEP_NUM_NODES": str(count), "SLURM_STEP_NUM_TASKS": str(count), "SLURM_NO_KILL": "set",
                "SLURM_STEP_TASKS_PER_NODE": f"1(x{count})"}
        for _ in range(count):
            self.new_host()
        for host in self.hosts:
            own = {**step, "SLURM_NODEID": str(host.index), "SLURM_PROCID": str(host.index)}
            self._boot(host, options, own)

    def join(self, options):
        host = self.new_host()
        host.joins = True
        self._boot(host, ["--join", JOB, *options], {})
        return host

    def _boot(self, host, options, env):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
        env = {**kept, **env, "SLURM_CLUSTER_NAME": "chaos", "HOME": str(self.directory / "home"), "TMPDIR": "/tmp",
               "CHAOS_DIR": str(self.directory), **self.preload,
               "FAULTS_CLOCK": str(host.clock)}
        command = [self.cxxrun, *options, "--nproc-per-node", "1", "--log-dir", str(self.directory / "logs"),
                   *self.worker]
        host.boot(self, command, env)

    def of(self, name):
        return next(host for host in self.hosts if host.name == name)

    def alive(self):
        return [host for host in self.hosts if host.runs()]

    def close(self):
        for host in self.hosts:
            host.thaw()
            host.remove()
        self.net.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

