"""What can be done to a host of the job, by name."""
import os
import re
import signal
import struct

from machines import send


T = 5  # seconds: --heartbeat-timeout
WRONG_CLOCK = 90000  # seconds, more than a day


class Kind:
    """`seconds`: (least, most) after which it ends by itself; `loses`: the host does not come back; `changes`: another
    generation must come of it; `died`: processes die, so that others may know at once; `named`: pattern of what the
    record must say of the host, "": that it was lost, None: nothing."""
    whom = "any"  # or "worker": one whose worker trains, or "follower": one that does not coordinate
    seconds = None
    loses = died = whole_host = network = False
    changes = True
    named = None
    # Seconds until nothing of a host may be left that is lost: who outlives the other of its two processes holds the
    # store's port for T.
    ends_within = T + 2.0

    def begin(self, cluster, host, rng):
        """Returns what there is to say about it, or ""."""
        raise NotImplementedError

    def end(self, cluster, host):
        pass


class Worker(Kind):
    whom = "worker"
    died = True

    def __init__(self, numbers, named):
        self.numbers, self.named = numbers, named

    def begin(self, cluster, host, rng):
        number = rng.choice(self.numbers)
        send(host.workers(), number)
        return number.name


class Hang(Worker):
    died = False

    def __init__(self):
        super().__init__([signal.SIGSTOP], r"hang|hung|collective|waited|SIGKILL")


class Process(Kind):
    loses = died = True
    named = ""

    def __init__(self, whom):
        self.which = whom

    def begin(self, cluster, host, rng):
        send(getattr(host, self.which)(), signal.SIGKILL)
        return ""


class AtOnce(Kind):
    """Every process; the kernel of the host lives and closes their connections."""
    loses = died = whole_host = True
    named = ""

    def begin(self, cluster, host, rng):
        host.end()
        return ""


class Vanishes(Kind):
    loses = True
    named = ""

    def begin(self, cluster, host, rng):
        cluster.net.cut(host.index)
        host.end()
        return ""


class Cut(Kind):
    network = True

    def __init__(self, seconds, lost):
        self.seconds, self.changes, self.named = seconds, lost, "" if lost else None

    def begin(self, cluster, host, rng):
        cluster.net.link(host.index, False)
        return ""

    def end(self, cluster, host):
        cluster.net.link(host.index, True)


class CutOff(Kind):
    """For good; its cxxrun has to end by itself."""
    loses = network = True
    ends_within = 60.0  # T, three rounds of 2 T, and a while
    named = ""

    def begin(self, cluster, host, rng):
        cluster.net.cut(host.index)
        return ""


class Frozen(Kind):
    def __init__(self, seconds, lost):
        self.seconds, self.changes, self.named = seconds, lost, "" if lost else None

    def begin(self, cluster, host, rng):
        host.freeze()
        return ""

    def end(self, cluster, host):
        host.thaw()


class Filtered(Kind):
    """A rule of nftables in the host, for both directions."""
    network = True
    changes = False

    def begin(self, cluster, host, rng):
        for hook, device in (("input", "iifname"), ("output", "oifname")):
            cluster.net.nft(host.wire, "inet", hook, f"{device} eth0 {self.rule()}")
        return ""

    def end(self, cluster, host):
        host.run("nft", "flush", "ruleset")


class Lossy(Filtered):
    seconds = (2, 4)

    def rule(self):
        return "numgen random mod 100 < 20 drop"


class Reset(Filtered):
    """All connections that there are now are reset at their next packet, as by a firewall that has forgotten them."""
    seconds = (1, 1)
    changes = True

    def begin(self, cluster, host, rng):
        self.pairs = re.findall(r":(\d+)\s+\S+:(\d+)", host.run("ss", "-tnH", "state", "established"))
        return super().begin(cluster, host, rng) if self.pairs else ""

    def rule(self):
        both = {pair for a, b in self.pairs for pair in ((a, b), (b, a))}
        listed = ", ".join(f"{a} . {b}" for a, b in sorted(both))
        return f"tcp sport . tcp dport {{ {listed} }} tcp flags & rst == 0 reject with tcp reset"


class DiskFull(Kind):
    seconds = (3, 5)
    changes = False

    def begin(self, cluster, host, rng):
        try:
            with open(host.tmp() + "/full", "wb") as file:
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
        except OSError:
            return ""

    def end(self, cluster, host):
        if host.pid is not None:
            os.unlink(host.tmp() + "/full")


class ClockJumps(Kind):
    """The wall clock of the host, for good (tests/faults/fault_clock.c)."""
    changes = False

    def begin(self, cluster, host, rng):
        host.clock.write_bytes(struct.pack("q", WRONG_CLOCK))
        return f"{WRONG_CLOCK} s"


class Drained(Kind):
    """Told to go in good order. Where that is who coordinates, the whole job is told to end."""
    whom = "follower"
    loses = True
    ends_within = 35.0  # while its vote may be needed
    named = ""

    def begin(self, cluster, host, rng):
        send(host.parent(), signal.SIGTERM)
        return ""


KINDS = {
    "worker-killed": Worker([signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGKILL], r"^signal (6|7|9|11) "),
    "worker-exits": Worker([signal.SIGUSR1], "^exit code 3"),
    "worker-corrupts": Worker([signal.SIGUSR2], "^exit code 4"),
    "worker-hangs": Hang(),
    "agent-killed": Process("agent"),
    "parent-killed": Process("parent"),
    "host-at-once": AtOnce(),
    "host-vanishes": Vanishes(),
    "cut-off": CutOff(),
    "cut-short": Cut((2, 2), lost=False),
    "cut-long": Cut((T + 4, T + 6), lost=True),
    "lossy": Lossy(),
    "reset": Reset(),
    "frozen-short": Frozen((1, 2), lost=False),
    "frozen-long": Frozen((T + 4, T + 8), lost=True),
    "disk-full": DiskFull(),
    "clock-jumps": ClockJumps(),
    "drained": Drained(),
}
COORDINATOR = ("agent-killed", "parent-killed", "host-at-once", "host-vanishes", "frozen-long")
