"""What can be done to a host: each fault begins, and some end again. `hit` is the index of the host it happens to."""
import os
import pathlib
import signal
import struct
import subprocess
import time

import machines
from machines import send

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")


class Fault:
    """`seconds`: it ends by itself after that long; 0: it is for good."""
    seconds = 0
    load = False  # data flow between the workers, and a CPU is busy
    immortal = False  # a worker of the host outlives its agent
    clock = False  # the hosts' wall clocks are fault_clock's
    derived = False  # the agents meet at derived ports

    def prepare(self, cluster):
        """Before the job begins."""

    def begin(self, cluster, hit):
        raise NotImplementedError

    def end(self, cluster, hit):
        pass

    def clear(self):
        """Whatever this process has to undo outside the namespaces."""


class Kill(Fault):
    """SIGKILL to what `whom` names: "agent", "agent+workers", "parent", "host"."""

    def __init__(self, whom, silent=False):
        self.whom, self.silent = whom, silent

    def begin(self, cluster, hit):
        machine = cluster.machines[hit]
        pids = {"agent": machine.agent, "parent": machine.parent, "host": machine.init,
                "agent+workers": lambda: machine.agent() + machine.workers()}[self.whom]()
        if self.silent:
            cluster.wires.link(hit, False)
        send(pids, signal.SIGKILL)


class OneByOne(Fault):
    """Kill for one host after the other: the next one dies while the loss of the last one is being dealt with."""

    def __init__(self, hosts, gap, silent=False):
        self.hosts, self.gap, self.kill = hosts, gap, Kill("host", silent)

    def begin(self, cluster, hit):
        for host in self.hosts:
            if host != self.hosts[0]:
                time.sleep(self.gap)
            self.kill.begin(cluster, host)


class Cut(Fault):
    load = True

    def __init__(self, seconds):
        self.seconds = seconds

    def begin(self, cluster, hit):
        cluster.wires.link(hit, False)

    def end(self, cluster, hit):
        cluster.wires.link(hit, True)


class Drop(Fault):
    """Everything from and to the host is lost at the switch; unlike with a cut its carrier stays."""
    load = True

    def __init__(self, seconds):
        self.seconds = seconds

    def begin(self, cluster, hit):
        for way in ("iifname", "oifname"):
            cluster.wires.drop(f"{way} port{hit}")

    def end(self, cluster, hit):
        cluster.wires.mend()


class Filter(Fault):
    """Packets that nft's words match are lost at the switch; PORT stands for the port of the host that is hit."""

    def __init__(self, seconds, words):
        self.seconds, self.words = seconds, words

    def begin(self, cluster, hit):
        cluster.wires.drop(self.words.replace("PORT", f"port{hit}"))

    def end(self, cluster, hit):
        cluster.wires.mend()


class Split(Fault):
    """The hosts in `part` and the others are on two switches from now on."""

    def __init__(self, part):
        self.part = part

    def begin(self, cluster, hit):
        part = {f"port{i}" for i in self.part}
        other = {f"port{one.index}" for one in cluster.machines} - part
        for a, b in ((part, other), (other, part)):
            cluster.wires.drop(f"iifname {{ {', '.join(a)} }} oifname {{ {', '.join(b)} }}")


class Reject(Fault):
    """A firewall comes up in front of the coordinator's port."""

    def __init__(self, seconds, how):
        self.seconds, self.how = seconds, how

    def begin(self, cluster, hit):
        cluster.wires.reject(hit, machines.PORT, self.how)

    def end(self, cluster, hit):
        cluster.wires.mend()


class Stop(Fault):
    """SIGSTOP, later SIGCONT; `whom`: "agent", "node" (parent, agent, workers), "all" (of every host)."""

    def __init__(self, seconds, whom):
        self.seconds, self.whom = seconds, whom
        self.stopped = []

    def begin(self, cluster, hit):
        machine = cluster.machines[hit]
        self.stopped = {"agent": machine.agent, "node": machine.all,
                        "all": lambda: [pid for one in cluster.machines for pid in one.all()]}[self.whom]()
        send(self.stopped, signal.SIGSTOP)

    def end(self, cluster, hit):
        send(self.stopped, signal.SIGCONT)


class ClockJump(Fault):
    """The wall clocks of all hosts jump; an hour more than a whole day, so that it shows in what cxxrun says."""
    clock = True

    def __init__(self, days):
        self.seconds_wrong = days * 86400 + 3600

    @staticmethod
    def set(directory, seconds):
        with open(directory / "clock", "r+b" if (directory / "clock").exists() else "wb") as f:
            f.write(struct.pack("q", seconds))

    def begin(self, cluster, hit):
        self.set(cluster.directory, self.seconds_wrong)


class Relay(Fault):
    """Another user has the first port at which agents look for their coordinator, passes their connections on to it, and
    ends each in order after 5 s."""
    seconds = 6  # from the job's begin on
    derived = True
    def __init__(self):
        self.process = None

    def prepare(self, cluster):
        squatted, used = machines.derived_ports(2)
        code = (pathlib.Path(__file__).parent / "relay.py").read_text()  # the user may not reach the file
        self.said = cluster.directory / "relay"
        with open(self.said, "w") as out:
            self.process = subprocess.Popen(
                ["nsenter", f"--net={cluster.machines[0].net.net}", "setpriv", "--reuid", "65534", "--clear-groups",
                 "/usr/bin/python3", "-c", code, str(squatted), str(used), "5"],
                stdout=out, cwd="/", preexec_fn=machines.die_with_parent)
        self.hear("listens")

    def begin(self, cluster, hit):
        self.hear(f"called by {cluster.wires.hosts[1].address}")

    def hear(self, words):
        deadline = time.monotonic() + 30
        while words not in self.said.read_text():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"the relay does not say: {words}")
            time.sleep(0.01)

    def clear(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None  # the row goes back to the process that plays all of them


class Unkillable(Fault):
    """One worker of the host sits in a frozen cgroup, so that SIGKILL waits; then a worker elsewhere is killed."""
    immortal = True

    def __init__(self):
        self.group = None

    def begin(self, cluster, hit):
        self.group = FREEZER / f"cxxrun-faults-{os.getpid()}-{cluster.directory.name}"
        self.group.mkdir()
        (self.group / "cgroup.procs").write_text(str(cluster.machines[hit].workers()[0]))
        (self.group / "freezer.state").write_text("FROZEN")
        while "FROZEN" not in (self.group / "freezer.state").read_text():
            pass
        other = next(machine for machine in cluster.machines if machine.index != hit)
        send(other.workers(), signal.SIGKILL)

    def clear(self):
        if self.group is not None:
            self.remove(self.group)

    @staticmethod
    def remove(group):
        (group / "freezer.state").write_text("THAWED")
        while True:
            send(map(int, (group / "cgroup.procs").read_text().split()), signal.SIGKILL)
            try:
                group.rmdir()
                return
            except OSError:  # until the last one has gone
                time.sleep(0.01)

    @classmethod
    def remove_stale(cls):
        """Of runs that could not clear up: a frozen process keeps its whole host."""
        for group in FREEZER.glob("cxxrun-faults-*"):
            if not pathlib.Path("/proc", group.name.split("-")[2].split(".")[0]).exists():
                cls.remove(group)

    @staticmethod
    def missing():
        group = FREEZER / f"cxxrun-faults-{os.getpid()}.probe"
        try:
            group.mkdir()
            group.rmdir()
        except OSError as error:
            return f"needs a cgroup v1 freezer: {error}"
        return None


def burner(program):
    """Keeps one CPU busy until it is killed."""
    return subprocess.Popen([program, "burn"], preexec_fn=machines.die_with_parent)
