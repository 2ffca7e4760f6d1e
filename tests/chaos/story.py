"""What a run leaves behind, as values: steps of workers, records of coordinators, faults, what became of each host. All
times are seconds of CLOCK_BOOTTIME."""
import calendar
import dataclasses
import json
import os
import pathlib
import re
import time

from machines import read
from strikes import WRONG_CLOCK


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    host: str
    generation: int
    rank: int
    world: int
    step: int
    at: float
    state: int


@dataclasses.dataclass(frozen=True)
class Event:
    """A line of an events.jsonl; `by` wrote it."""
    by: str
    at: float
    kind: str
    fields: dict

    def get(self, name, default=""):
        return self.fields.get(name, default)


@dataclasses.dataclass
class Fault:
    number: int
    kind: str
    cause: str
    host: str
    at: float
    generation: int  # that trained
    coordinated: bool = False
    expects: bool = True  # another generation must come of it
    said: str = ""
    until: float = 0.0  # when it ended; 0: it is for good


@dataclasses.dataclass
class Fate:
    """Of a host's cxxrun."""
    host: str
    joins: bool
    booted: float
    code: int | None = None  # None: it ran at the end, or went with its host
    said: str = ""
    left: tuple = ()  # processes that should be gone
    samples: tuple = ()  # (at, KiB resident, descriptors) of its agent


@dataclasses.dataclass
class Evidence:
    steps: list = dataclasses.field(default_factory=list)
    events: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)
    fates: list = dataclasses.field(default_factory=list)
    verdict: dict | None = None
    began: float = 0.0  # the first cxxrun was started
    finished: float = 0.0  # the workers were told to finish; 0: the job was over before
    ended: float = 0.0  # every cxxrun had ended
    stuck: str = ""  # what was waited for in vain

    def generations(self):
        """Generation -> its steps, in order of generations."""
        found = {}
        for step in self.steps:
            found.setdefault(step.generation, []).append(step)
        return dict(sorted(found.items()))

    def first_steps(self):
        """Generation -> when its first step was done."""
        return {number: min(step.at for step in steps) for number, steps in self.generations().items()}

    def last_steps(self):
        return {number: max(step.at for step in steps) for number, steps in self.generations().items()}


def wall_offset():
    """What is added to a wall clock's time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.time()


def parse_steps(host, lines):
    for line in lines:
        generation, rank, world, step, at, state = line.split()
        yield Step(host, int(generation), int(rank), int(world), int(step), int(at) / 1e9, int(state, 16))


def parse_event(by, line, offset):
    fields = json.loads(line)
    whole, millis = fields.pop("time").rstrip("Z").split(".")
    at = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + int(millis) / 1000 + offset
    return Event(by, at, fields.pop("kind", "begins"), fields)


def right_clock(event):
    """The same at its right time, if it was written a moment ago by a host whose wall clock is WRONG_CLOCK ahead."""
    ahead = event.at - time.clock_gettime(time.CLOCK_BOOTTIME) > WRONG_CLOCK / 2
    return dataclasses.replace(event, at=event.at - WRONG_CLOCK) if ahead else event


class Tail:
    """The whole lines that have been added to a file."""

    def __init__(self, path):
        self.path, self.offset = path, 0

    def lines(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[:data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole.decode(errors="replace").splitlines()


class Watch:
    """What the job does, while it does it. `evidence` grows."""

    LIST_EVERY = 0.1  # seconds between two looks for new files: there are many in the end

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.evidence = Evidence()
        self.offset = wall_offset()
        self.listed = 0.0
        self.files = {}  # host -> [Tail] of the steps of each of its workers, the newest last
        self.records = {}  # name of a directory of logs -> Tail
        self.generation = 0
        self.newest = 0.0  # when the newest step was done
        self.seats = {}  # generation -> {rank: host}
        self.leading = {}  # host -> when it began to coordinate
        self.excluded = set()
        self.gone = set()

    def look(self, everywhere=False):
        now = time.monotonic()
        if everywhere or now > self.listed + self.LIST_EVERY:
            self.listed = now
            self.list_files()
        for host, tails in self.files.items():
            for tail in tails if everywhere else [] if host in self.gone else tails[-2:]:
                for step in parse_steps(host, tail.lines()):
                    self.add(step)
        for host, tail in self.records.values():
            for line in tail.lines():
                self.hear(right_clock(parse_event(host, line, self.offset)))

    def list_files(self):
        for name in sorted(os.listdir(self.directory / "steps"), key=lambda name: int(name.split(".")[1])):
            host, path = name.split(".")[0], str(self.directory / "steps" / name)
            tails = self.files.setdefault(host, [])
            if path not in [tail.path for tail in tails]:
                tails.append(Tail(path))
        for name in os.listdir(self.directory / "logs"):
            if name not in self.records:
                host = re.sub(r".*_(n\d+).*", r"\1", name)
                self.records[name] = host, Tail(str(self.directory / "logs" / name / "events.jsonl"))

    def add(self, step):
        self.evidence.steps.append(step)
        self.seats.setdefault(step.generation, {})[step.rank] = step.host
        self.generation = max(self.generation, step.generation)
        self.newest = max(self.newest, step.at)

    def hear(self, event):
        self.evidence.events.append(event)
        if event.kind in ("begins", "took_over"):
            self.leading[event.by] = event.at
        elif event.kind in ("stepped_down", "verdict"):
            self.leading.pop(event.by, None)
        elif event.kind == "node_excluded":
            self.excluded.add(event.get("host"))

    def forget(self, host):
        """It is no more, and nothing more comes from it."""
        self.leading.pop(host, None)
        self.gone.add(host)

    def members(self):
        return self.seats.get(self.generation, {})

    def coordinator(self):
        """The host that has begun last to coordinate and has not stepped down, or None."""
        return max(self.leading, key=self.leading.get, default=None)


def newest_verdict(directory):
    paths = sorted(pathlib.Path(directory, "logs").glob("*/verdict.json"), key=os.path.getmtime)
    return json.loads(read(paths[-1])) if paths else None
