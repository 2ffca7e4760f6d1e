"""Plays one row: starts the job, waits until it runs everywhere, lets the fault happen, and looks at what follows."""
import contextlib
import dataclasses
import pathlib
import signal
import sys
import time

import faults
import rules
import stamps
from machines import Cluster, boot_now, die_with_parent

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import wires  # noqa: E402

START_GUARD = 60  # seconds; against hanging only
FINISH_GUARD = 30
POLL = 0.01
SETTLED = 2.0  # seconds beyond T for which nothing may change


@dataclasses.dataclass
class Result:
    row: rules.Row
    wrong: str = ""  # why it is not as the rule says
    happened: str = ""
    seconds: list = dataclasses.field(default_factory=list)  # from each change of the fault until the outcome
    notes: list = dataclasses.field(default_factory=list)


class Wrong(Exception):
    pass


class Play:
    def __init__(self, row, build, directory):
        self.row, self.build = row, build
        self.directory = pathlib.Path(directory)
        self.result = Result(row)

    def run(self):
        (self.directory / "stamps").mkdir()
        with contextlib.ExitStack() as stack:
            net = stack.enter_context(wires.Wires(self.row.hosts, "200mbit", ipv6=self.row.ipv6))
            self.cluster = Cluster(net, self.directory)
            stack.enter_context(self.cluster)
            stack.callback(self.row.fault.clear)  # first: a host cannot end while a process of it is frozen
            stack.callback(self.keep_texts)
            if self.row.fault.load:
                burning = faults.burner(self.program("tests/fault_worker"))
                stack.callback(burning.wait)
                stack.callback(burning.kill)
            try:
                self.start()
                self.inject()
                self.finish()
            except Wrong as wrong:
                self.result.wrong = str(wrong)
                self.happened()
            self.look_for_overlaps()
        return self.result

    def program(self, name):
        return str(pathlib.Path(self.build, name).resolve())

    def start(self):
        options = ["--nnodes", f"{self.row.least}:{self.row.hosts}", "--heartbeat-timeout", f"{rules.T:g}",
                   "--restart-timeout", "1", "--kill-timeout", "3", "--log-dir", "/dev/null", "--log-level", "debug",
                   *(one.replace("DIR", str(self.directory)) for one in self.row.options)]
        env = {"FAULTS_DIR": str(self.directory)}
        if self.row.fault.load:
            env["FAULTS_PEERS"] = ",".join(host.address for host in self.cluster.wires.hosts)
        if self.row.fault.clock:
            self.row.fault.set(self.directory, 0)
            env.update(FAULTS_CLOCK=str(self.directory / "clock"), LD_PRELOAD=self.program("tests/fault_clock.so"))
        everybody = frozenset(range(self.row.hosts))
        self.row.fault.prepare(self.cluster)
        self.cluster.start(self.program("bin/cxxrun"), options, [self.program("tests/fault_worker")], env,
                           self.row.fault.derived)
        if not self.wait(lambda: self.matches(rules.Outcome(everybody, newer=False), 0), START_GUARD):
            raise Wrong("the job did not begin")
        self.before = stamps.newest(self.stamps())

    # ---- what can be seen

    def stamps(self):
        return stamps.workers(self.directory / "stamps")

    def matches(self, outcome, before, besides=()):
        """The generation that runs (0 if none has to), or None while it is not so."""
        exits = self.cluster.exits()
        if any(exits.get(host) not in codes for host, codes in outcome.codes.items()):
            return None
        if any(host in exits for host in outcome.hosts):
            return None
        generation = stamps.runs_on(self.stamps(), outcome.hosts, besides)
        if not outcome.hosts:
            return 0 if not [w for w in self.stamps() if w.alive and w.host not in besides] else None
        return generation if generation and generation >= max(before + outcome.newer, outcome.least) else None

    def unchanged(self):
        return not self.cluster.exits() and stamps.newest(self.stamps()) == self.before and \
            all(worker.alive for worker in self.stamps())

    def state(self):
        immortal = self.row.hit if self.row.fault.immortal else None
        alive = sorted((w.generation, w.host) for w in self.stamps() if w.alive and w.host != immortal)
        running = " and ".join(f"generation {g} on {rules.names({host for h, host in alive if h == g})}"
                               for g in sorted({g for g, _ in alive})) or "no worker"
        exits = "".join(f", {host} ended {code}" for host, code in sorted(self.cluster.exits().items()))
        return running + exits

    def wait(self, condition, seconds):
        deadline = time.monotonic() + seconds
        while True:
            result = condition()
            if result not in (None, False):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL)

    # ---- the fault

    def inject(self):
        row = self.row
        since = boot_now()
        row.fault.begin(self.cluster, row.hit)
        if row.fault.seconds:
            self.hold(since, since + row.fault.seconds)
            since = self.ended = boot_now()
            row.fault.end(self.cluster, row.hit)
        if not row.after or not all(one.newer for one in row.after):
            # That nothing happens, or all has happened, shows only when whoever could have been lost would have been.
            shown = since + rules.T + SETTLED
            self.wait(lambda: boot_now() > shown or not (row.after or self.unchanged()), START_GUARD)
        if row.after:
            self.await_one_of(row.after, since, row.within, {row.hit} if row.fault.immortal else ())
        elif not self.unchanged():
            raise Wrong("something changed")
        self.happened()

    def hold(self, since, until):
        """While the fault lasts: what must become of it, and, when nothing may change, that nothing does."""
        row = self.row
        besides = {row.hit} if isinstance(row.fault, faults.Stop) else ()
        if row.during:
            self.await_one_of(row.during, since, until - boot_now(), besides)
            self.happened()
        keeps = not row.after and row.fault.seconds
        self.wait(lambda: boot_now() >= until or (keeps and not self.unchanged()), START_GUARD)
        if keeps and not self.unchanged():
            raise Wrong("something changed")

    def await_one_of(self, outcomes, since, seconds, besides=()):
        def found():
            return next((one for one in outcomes if self.matches(one, self.before, besides) is not None), None)
        def hopeless():
            exits = self.cluster.exits()
            return all(any(host in one.hosts or code not in one.codes.get(host, {code}) for host, code in exits.items())
                       for one in outcomes)
        self.wait(lambda: found() or hopeless() or None, seconds)
        if found() is None:
            raise Wrong(f"not within {seconds:.0f} s")
        outcome = found()
        if outcome.hosts:
            began = max(w.first for w in self.stamps() if w.alive and w.host in outcome.hosts)
            if began > since:
                self.result.seconds.append(began - since)
        else:
            self.result.seconds.append(boot_now() - since)

    def happened(self):
        state = self.state()
        if not self.result.happened.endswith(state):
            self.result.happened += ("; then " if self.result.happened else "") + state

    # ---- the end

    def finish(self):
        alive = {w.host for w in self.stamps() if w.alive}
        (self.directory / "finish").touch()
        running = alive - set(self.cluster.exits())  # those that have ended are in the outcome
        if not self.wait(lambda: all(host in self.cluster.exits() for host in running), FINISH_GUARD):
            raise Wrong(f"did not end within {FINISH_GUARD} s")
        codes = {host: self.cluster.exits()[host] for host in running}
        if any(code for host, code in codes.items() if not (self.row.fault.immortal and host == self.row.hit)):
            raise Wrong(f"ended with {codes} instead of 0")

    def look_for_overlaps(self):
        """Never workers of two generations at once; but a host whose agent and parent were both frozen cannot know."""
        for older, newer, seconds in stamps.overlaps(self.stamps()):
            text = (f"generation {older.generation} on {older.host} ran {seconds * 1000:.0f} ms beside generation "
                    f"{newer.generation} on {newer.host}")
            if self.row.frozen and older.host == self.row.hit:
                self.result.notes.append(f"its frozen workers ran {(older.last - self.ended) * 1000:.0f} ms after SIGCONT "
                                         f"beside generation {newer.generation}")
            else:
                self.result.wrong = "; ".join(filter(None, [self.result.wrong, text]))

    def keep_texts(self):
        self.texts = {machine.index: machine.said for machine in self.cluster.machines}


def play(row, build, directory):
    """The result, and what each host's cxxrun said."""
    one = Play(row, build, directory)
    result = one.run()
    return result, one.texts


def end_with_parent():
    """SIGTERM, and the end of whoever forked this, unwind, so that what lies outside the namespaces is undone."""

    def end(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    signal.signal(signal.SIGTERM, end)
    die_with_parent(signal.SIGTERM)
