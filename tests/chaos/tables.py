"""The figures of a run, as Markdown."""
import collections
import statistics

import judge


def _row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _seconds(found):
    return (f"{statistics.median(found):.2f}", f"{max(found):.2f}") if found else ("–", "–")


def faults(evidence):
    taken = {fault.number: seconds for fault, seconds in judge.recoveries(evidence)}
    unnamed = {fault.number for fault in judge.unnamed(evidence)}
    groups = collections.defaultdict(list)
    for fault in evidence.faults:
        groups[fault.kind, fault.coordinated].append(fault)
    lines = [_row("fault", "coordinated", "times", "trains again after, s: median", "worst", "not named"),
             _row(*["---"] * 6)]
    for (kind, coordinated), members in sorted(groups.items()):
        found = [taken[f.number] for f in members if taken.get(f.number) is not None]
        lines.append(_row(kind, "yes" if coordinated else "no", len(members), *_seconds(found),
                          sum(f.number in unnamed for f in members)))
    return "\n".join(lines)


def totals(evidence):
    seen, account = judge.stopwatch(evidence), judge.account(evidence)
    joined = collections.Counter(judge.joiners(evidence).values())
    first = [fate.samples[0] for fate in evidence.fates if fate.samples]
    last = [fate.samples[-1] for fate in evidence.fates if fate.samples]
    told = ", ".join(f"{number} {what}" for what, number in sorted(joined.items()))
    lines = [
        ("generations that trained", len(evidence.first_steps())),
        ("steps", max((step.step for step in evidence.steps), default=0)),
        ("joiners", f"{sum(joined.values())}" + (f": {told}" if told else "")),
        ("verdict", (evidence.verdict or {}).get("verdict", "none")),
        *((f"{what}: account, stopwatch", f"{account[what]:.1f} s, {seen[what]:.1f} s") for what in account),
        ("resident set of agents, at first: most", f"{max((s[1] for s in first), default=0)} KiB"),
        ("the same at last", f"{max((s[1] for s in last), default=0)} KiB"),
        ("descriptors of agents, at first: most", max((s[2] for s in first), default=0)),
        ("the same at last", max((s[2] for s in last), default=0)),
    ]
    return "\n".join([_row("", ""), _row("---", "---"), *(_row(*line) for line in lines)])


def report(evidence):
    return faults(evidence) + "\n\n" + totals(evidence) + "\n"
