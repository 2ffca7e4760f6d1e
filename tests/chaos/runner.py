"""Plays chaos: starts the job, strikes, replaces what is lost, and lets the training finish."""
import dataclasses
import json
import pathlib
import random
import re
import time

import hosts
import mix
import strikes
from story import Fate, Fault, Watch, newest_verdict

MEMBERS, SPARES, LEAST = 8, 4, 4
POLL = 0.01
START_GUARD = 60  # seconds; against hanging only
GO_ON_GUARD = 60  # until the next generation trains
JOIN_GUARD = 60
FINISH_GUARD = 60
HANG_TIMEOUT = 3


@dataclasses.dataclass
class Plan:
    seed: int
    mode: str = "mix"  # or "coordinators", "burst"
    seconds: float = 0  # how long it strikes; 0: until it has struck `times`
    times: int = 0
    every: float = 5.0
    burst: int = 1
    kinds: tuple = ()  # instead of the mode's
    plain: bool = False


class Stuck(Exception):
    pass


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Run:
    def __init__(self, plan, programs, directory, say):
        """`programs`: cxxrun, chaos_worker and fault_clock.so."""
        self.plan, self.say = plan, say
        self.rng = random.Random(plan.seed)  # for delays; each strike has its own, whenever it comes
        self.directory = pathlib.Path(directory)
        cxxrun, worker, clock = programs
        self.cluster = hosts.Cluster(directory, cxxrun, [worker, *(["plain"] if plan.plain else [])], clock)
        self.watch = Watch(directory)
        self.evidence = self.watch.evidence
        self.later = []  # (when, what is to be done then)
        self.struck = {}  # hosts that do not come back, by name: the fault
        self.away = set()  # names of hosts that are cut or frozen and come back
        self.fates = {}
        self.sampled = 0.0
        self.settling = False  # nobody else comes

    # ---- the course

    def play(self):
        with self.cluster:
            try:
                self.begin()
                self.strike_often()
                self.settle()
                self.finish()
            except Stuck as stuck:
                self.evidence.stuck = str(stuck)
                self.say(f"stuck: {stuck}")
            self.collect()
        return self.evidence

    def options(self):
        return ["--hang-timeout", str(HANG_TIMEOUT), "--heartbeat-timeout", str(strikes.T), "--log-level", "debug"]

    def begin(self):
        self.started = now()
        self.cluster.start(MEMBERS + SPARES, ["--nnodes", f"{LEAST}:{MEMBERS}", "--max-restarts", "1000000",
                                              "--restart-delay", "0", *self.options()])
        self.evidence.began = self.cluster.hosts[0].booted_at
        self.await_(lambda: len(self.watch.members()) == MEMBERS, START_GUARD, "the job trains")
        self.say(f"{self.clock()} generation 1 trains")

    def strike_often(self):
        began = now()
        strike = {"mix": self.strike_any, "coordinators": self.strike_coordinator, "burst": self.strike_several}
        count = 0
        due = began + min(1.0, self.plan.every)
        while not (count == self.plan.times if self.plan.times else now() > began + self.plan.seconds):
            self.await_(lambda: now() >= due or self.over(), GO_ON_GUARD + self.plan.every, "the next strike is due")
            self.await_ready()
            struck = now()
            count += strike[self.plan.mode]()
            due = struck + self.plan.every * (self.rng.uniform(0.4, 1.6) if self.plan.mode == "mix" else 1)

    def await_ready(self):
        """The job has got over what was done before, as far as it loses hosts; somebody coordinates."""
        self.await_(lambda: self.recovered() and self.leader() is not None, GO_ON_GUARD,
                    "a generation trains after the last fault")

    def recovered(self):
        """Every fault of which a generation must come has been followed by one."""
        last = max((fault.generation for fault in self.evidence.faults if fault.expects), default=0)
        members = self.watch.members()
        healthy = [host for host in members.values() if host not in self.struck and host not in self.away]
        return self.watch.generation > last and len(healthy) > MEMBERS // 2

    def settle(self):
        """Everything that was to come has come, and the job is whole."""
        self.settling = True
        self.await_(lambda: all(what == "dispose" for _, _, what in self.later), GO_ON_GUARD, "all faults have ended")
        self.await_(lambda: self.recovered() and len(self.watch.members()) == MEMBERS and self.trains(), GO_ON_GUARD,
                    f"{MEMBERS} hosts train")
        self.wait(self.all_are_in, JOIN_GUARD)  # who does not get in is no reason to stop: the judge tells of it
        self.sample(force=True)

    def all_are_in(self):
        """Whoever runs is a member of the newest generation, or is told of it and looks for nobody: who has joined, was
        away, or needed seconds to notice that a coordinator is silent. Others are not told that the job ends."""
        members = self.watch.members().values()
        return all(host.name in members or self.is_told(host) or self.is_back(host) for host in self.usable())

    def is_told(self, host):
        told = f"learned that generation {self.watch.generation} is decided"
        return told in host.said and \
            "coordinator lost" not in re.split(f"{told}| joined | coordinates now", host.said)[-1]

    def is_back(self, host):
        """It has come again since something was done to it; it does not say so."""
        struck = max((fault.at for fault in self.evidence.faults if fault.host == host.name), default=now())
        return any(event.kind == "node_joined" and event.get("host") == host.name and event.at > struck
                   for event in self.evidence.events)

    def trains(self):
        """Now, and since the last fault."""
        last = self.watch.newest
        return last > now() - 0.3 and all(last > max(fault.at, fault.until) for fault in self.evidence.faults)

    def finish(self):
        self.evidence.finished = now()
        (self.directory / "finish").touch()
        self.await_(lambda: not [host for host in self.cluster.alive() if host.name not in self.struck], FINISH_GUARD,
                    "every cxxrun ends", over=lambda: False)
        self.evidence.ended = now()

    # ---- what is watched meanwhile

    def wait(self, condition, guard, over=None):
        """Whether it came true, before the job was over."""
        deadline = now() + guard
        while True:
            self.turn()
            if condition():
                return True
            if (over or self.over)() or now() > deadline:
                return False
            time.sleep(POLL)

    def await_(self, condition, guard, what, over=None):
        if not self.wait(condition, guard, over):
            raise Stuck((f"the job is over, while this was waited for" if (over or self.over)() else
                         f"not within {guard:g} s") + f": {what}")

    def turn(self):
        self.watch.look()
        for one in [one for one in self.later if one[0] <= now()]:
            self.later.remove(one)
            one[1]()
        self.replace()
        self.sample()

    def over(self):
        """So many members have ended that no generation can come any more."""
        members = {self.cluster.of(name) for name in self.watch.members().values()}
        ended = [host for host in members if host.name not in self.struck and host.exit_code() is not None]
        return len(ended) > len(members) // 2

    def clock(self):
        return f"{now() - self.started:7.1f} s"

    def leader(self):
        name = self.watch.coordinator()
        if name is None or name in self.struck or name in self.away:
            return None
        host = self.cluster.of(name)
        return host if host.runs() else None

    @staticmethod
    def has_joined(host):
        return host.pid is None or host.exit_code() is not None or "joined" in host.said

    def usable(self):
        return [host for host in self.cluster.alive()
                if host.name not in self.struck and host.name not in self.away and host.name not in self.watch.excluded]

    def replace(self):
        """A fresh host for each that is lost, a while later: nobody has one at hand at once."""
        coming = sum(what == "join" for _, _, what in self.later)
        outside = sum(not self.has_joined(host) for host in self.cluster.hosts if host.joins)
        if self.settling or self.over() or outside >= MEMBERS:
            return
        for _ in range(MEMBERS + SPARES - len(self.usable()) - coming):
            self.later.append((now() + self.rng.uniform(0.1, min(2.0, self.plan.every)), self.join, "join"))

    def join(self):
        if not self.over():
            host = self.cluster.join(self.options())
            self.say(f"{self.clock()}      {host.name} comes with --join")

    def sample(self, force=False):
        if now() < self.sampled + 1 and not force:
            return
        self.sampled = now()
        for host in self.usable():
            for pid in host.agent():
                resident = hosts.read(f"/proc/{pid}/status").partition("VmRSS:")[2].split()
                try:
                    descriptors = len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
                except OSError:
                    continue
                if resident:
                    fate = self.fate(host)
                    fate.samples = (*fate.samples[:1], (self.sampled, int(resident[0]), descriptors))

    def fate(self, host):
        return self.fates.setdefault(host.name, Fate(host.name, host.joins, host.booted_at))

    # ---- strikes

    def candidates(self, kind):
        members = set(self.watch.members().values())
        fits = {"any": lambda host: True, "follower": lambda host: host is not self.leader(),
                "worker": lambda host: host.name in members and host.workers()}[kind.whom]
        return [host for host in self.usable() if fits(host)]

    def dice(self):
        """Of the next strike: the same for a seed, however long those before it took."""
        return random.Random(f"{self.plan.seed}.{len(self.evidence.faults)}")

    def strike_any(self):
        dice = self.dice()
        while True:
            cause, name = mix.draw(dice) if not self.plan.kinds else ("chosen", dice.choice(self.plan.kinds))
            found = self.candidates(strikes.KINDS[name])
            if found:
                break
        leader = self.leader()
        host = leader if leader in found and dice.random() < 0.3 else dice.choice(found)
        self.strike(name, host, cause)
        return True

    def strike_coordinator(self):
        self.strike(self.dice().choice(self.plan.kinds or strikes.COORDINATOR), self.leader(), "coordinator")
        return True

    def strike_several(self):
        """One coordinator, and each who takes over before a generation trains under him. Whether there were enough."""
        before = self.watch.generation
        name = self.dice().choice(self.plan.kinds or ("agent-killed", "parent-killed", "host-at-once"))
        self.strike(name, self.leader(), "coordinator")
        for _ in range(self.plan.burst - 1):
            self.await_(lambda: self.leader() is not None or self.watch.generation > before, GO_ON_GUARD,
                        "somebody takes over")
            if self.watch.generation > before:
                self.say(f"{self.clock()}      too late: a generation trains already; does not count")
                return False
            self.strike(name, self.leader(), "coordinator")
        return True

    def strike(self, name, host, cause):
        kind = strikes.KINDS[name]
        trained, coordinates = host.name in self.watch.members().values(), host is self.leader()
        fault = Fault(len(self.evidence.faults) + 1, name, cause, host.name, now(), self.watch.generation, coordinates,
                      kind.changes and (trained or coordinates))
        self.evidence.faults.append(fault)
        dice = random.Random(f"{self.plan.seed}.{fault.number}.{name}")
        fault.said = kind.begin(self.cluster, host, dice)
        role = "coordinates" if fault.coordinated else "trains" if trained else "spare"
        why = ", ".join(filter(None, (cause, fault.said)))
        self.say(f"{self.clock()} #{fault.number} {name} ({why}): {host.name}, {role}; generation {fault.generation}")
        if kind.loses:
            self.struck[host.name] = fault
            self.watch.leading.pop(host.name, None)
            self.later.append((now() + kind.ends_within, lambda: self.dispose(host), "dispose"))
        elif kind.seconds:
            if kind.changes:
                self.away.add(host.name)
            self.later.append((now() + dice.uniform(*kind.seconds), lambda: self.end(fault, host), "end"))

    def end(self, fault, host):
        if host.is_plugged():  # it may be gone by something else
            strikes.KINDS[fault.kind].end(self.cluster, host)
        fault.until = now()
        self.away.discard(host.name)
        self.say(f"{self.clock()}      #{fault.number} {fault.kind} of {host.name} is over")

    def dispose(self, host):
        """What is left of a host that was lost."""
        fate = self.fate(host)
        fate.code, fate.said = host.exit_code(), host.said
        fate.left = self.left(host)
        host.remove()
        self.watch.look()
        self.watch.forget(host.name)

    @staticmethod
    def left(host):
        return tuple(hosts.read(f"/proc/{pid}/comm").strip() for pid in host.processes())

    # ---- the end

    def collect(self):
        self.watch.look(everywhere=True)
        for host in self.cluster.hosts:
            if host.pid is not None:
                fate = self.fate(host)
                fate.code, fate.said = host.exit_code(), host.said
                if fate.code is not None:
                    fate.left = self.left(host)
            else:
                self.fate(host).said = host.said
        self.evidence.fates = list(self.fates.values())
        self.evidence.verdict = newest_verdict(self.directory)
        with open(self.directory / "faults.jsonl", "w") as file:
            for fault in self.evidence.faults:
                file.write(json.dumps(dataclasses.asdict(fault)) + "\n")
