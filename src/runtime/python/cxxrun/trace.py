"""python -m cxxrun.trace events.jsonl [-o trace.json]: shows what a job spent its time on, in https://ui.perfetto.dev.

events.jsonl is in the log directory of the agent that coordinated; docs/use/verdict.md has its format. The trace is a JSON
array of complete events. Process 0 is the job, with its time and its generations; process N + 1 is the node of group rank N,
with its workers by rank. Exit code 1: a file cannot be read or written."""
import argparse
import json
import os
import re
import sys
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from cxxrun import _files

_VERSION = 1  # of events.jsonl
_MOST_BARS = 200_000  # a browser shows no more
_SPENT, _GENERATIONS = range(2)  # rows of the job

Event = Dict[str, Any]


class NoEvents(ValueError):
    """The text is not an events.jsonl of this version."""


def trace(lines: Iterable[str]) -> List[Event]:
    """Returns the trace of an events.jsonl. Its last line may be cut off, because the writer was killed or is still writing."""
    events = list(_parsed(lines))
    if not events or not isinstance(events[0].get("version"), int):
        raise NoEvents("it is not an events.jsonl of cxxrun")
    if events[0]["version"] != _VERSION:
        raise NoEvents(f"it has version {events[0]['version']}, this package knows {_VERSION}: use that of the same cxxrun")
    result = _Trace()
    try:
        for event in events[1:]:
            result.add(event)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise NoEvents(f"an event is not as cxxrun writes it: {type(error).__name__}: {error}") from None
    return result.bars


def _parsed(lines: Iterable[str]) -> Iterable[Event]:
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            if not line.endswith("\n") and number > 1:
                return
            raise NoEvents(f"its line {number} is not JSON") from None
        if not isinstance(event, dict):
            raise NoEvents(f"its line {number} is not an event")
        yield event


class _Trace:
    def __init__(self) -> None:
        self.bars: List[Event] = []
        self._name("process_name", 0, 0, "job")
        self._name("thread_name", 0, _SPENT, "time")
        self._name("thread_name", 0, _GENERATIONS, "generations")
        self._named: Set[Tuple[int, str]] = set()
        self._formed: Event = {}
        self._started: Optional[float] = None
        self._failed: Dict[int, Tuple[float, str]] = {}  # by rank: when and how
        self._told = False  # time before another node took over has been shown

    def add(self, event: Event) -> None:
        kind = event["kind"]
        if kind == "formed":
            self._formed, self._failed, self._started = event, {}, None
        elif kind == "started":
            self._started = event["at_s"]
        elif kind == "worker_failed":
            self._failed.setdefault(event["rank"], (event["at_s"], event["how"]))
        elif kind == "ended":
            self._generation(event)
            self._workers(event)
            self._started = None
        elif kind == "took_over":
            for past in event["history"]:
                self._generation(past)
            known = event["account"]["wall_s"]
            if known > 0 and not self._told:
                self._bar("before another node coordinated", 0, _SPENT, 0, known)
        elif kind == "time":
            self._told = True
            self._bar(event["spent"], 0, _SPENT, event["from_s"], event["to_s"])

    def _bar(self, name: str, process: int, row: int, start_s: float, end_s: float, args: Optional[Event] = None) -> None:
        start, end = (round(seconds * 1_000_000) for seconds in (start_s, end_s))
        bar = {"name": name, "ph": "X", "pid": process, "tid": row, "ts": start, "dur": end - start}
        self.bars.append({**bar, "args": args} if args else bar)

    def _name(self, what: str, process: int, row: int, name: str) -> None:
        self.bars.append({"name": what, "ph": "M", "pid": process, "tid": row, "args": {"name": name}})

    def _generation(self, past: Event) -> None:
        self._bar(f"generation {past['generation']}", 0, _GENERATIONS, past["began_s"], past["began_s"] + past["ran_s"],
                  {key: past[key] for key in ("nodes", "ranks", "why")})

    def _workers(self, ended: Event) -> None:
        """Adds a bar for each worker, from the start to its own failure or to the end of the generation."""
        formed = self._formed
        if self._started is None or formed.get("generation") != ended["generation"]:
            return
        if len(self.bars) + formed["ranks"] > _MOST_BARS:
            return
        hosts, sizes = _hosts(formed["hosts"]), _counts(formed["local_sizes"])
        if len(hosts) != len(sizes):  # one of the lists was too long and was cut
            return
        first = 0
        for node, (host, size) in enumerate(zip(hosts, sizes)):
            if (node, host) not in self._named:
                self._named.add((node, host))
                self._name("process_name", node + 1, 0, f"node {node}: {host}")
            for rank in range(first, first + size):
                end, how = self._failed.get(rank, (ended["at_s"], ""))
                self._bar(f"generation {ended['generation']}", node + 1, rank, self._started, end,
                          {"failed": how} if how else None)
            first += size


def _hosts(text: str) -> List[str]:
    """Returns the hosts of a list as cxxrun writes it: "n[01-03,7],login". Brackets end a name."""
    hosts = []
    for stem, ranges in re.findall(r"([^,\[\]]+)(?:\[([\d,-]+)\])?", text):
        for each in ranges.split(","):
            low, _, high = each.partition("-")
            numbers = range(int(low), int(high or low) + 1) if low else []
            hosts += [f"{stem}{number:0{len(low)}}" for number in numbers] or [stem]
    return hosts


def _counts(text: str) -> List[int]:
    """Returns [4, 4, 2] for "4(x2),2"."""
    return [int(count) for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text) for _ in range(int(times or 1))]


def _text(bars: List[Event]) -> str:
    return "[\n" + ",\n".join(json.dumps(bar, separators=(",", ":")) for bar in bars) + "\n]\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cxxrun.trace", description="A trace of a job for https://ui.perfetto.dev.")
    parser.add_argument("events", help="events.jsonl, from the log directory of the agent that coordinated")
    parser.add_argument("-o", metavar="FILE", help="where the trace goes [standard output]")
    given = parser.parse_args()
    try:
        with open(given.events, encoding="utf-8", errors="replace") as file:
            text = _text(trace(file))
        if given.o is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        elif os.path.exists(given.o) and not os.path.isfile(given.o):
            raise OSError(0, "it is not a file", given.o)
        else:
            _files.replace(given.o, text.encode())
    except OSError as error:
        where = error.filename or given.o or "standard output"
        print(f"cxxrun.trace: {where}: {error.strerror}", file=sys.stderr)
        return 1
    except NoEvents as error:
        print(f"cxxrun.trace: {given.events}: {error}; give the events.jsonl of a log directory of cxxrun", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
