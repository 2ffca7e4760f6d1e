"""docs/evidence/failures.md from what was seen. Pure."""
import datetime
import pathlib
import platform
import re
import socket

import judge

HEAD = """# What is said of a failure

Written by `tests/failures/run build/release --markdown docs/evidence/failures.md` (as root; `--only NAME` for some of
them); do not edit. `--all` prints what each launcher said. Each failure is provoked under cxxrun and under torchrun,
with the same program and options, as root. GPU failures are recorded texts of PyTorch 2.x, printed by a worker that
then dies the same way. Workers' lines are on the console behind a prefix, in both; only what a launcher says itself is
judged, by key words (`tests/failures/rows.py`) and not by hand:

- who: the first rank that the report calls failed is the one that failed, or the lost node is named
- cause: all key words of the cause are in the report
- log: the path of a log file of that rank is in the report, and the file is there
- lines: how many the launcher itself printed; s: from the failure until it ended; "silent": it ran on after that time
"""
TEXTS = """In the texts DIR, TREE and HOST stand for this machine's, and `… N lines …` for what was left out.
"""
TREE = str(pathlib.Path(__file__).resolve().parents[2])


def plain(text, scene, build):
    """Without this machine's names and escapes."""
    text = text.replace(str(scene.dir), "DIR").replace(str(build), "BUILD").replace(TREE, "TREE")
    text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "HOST", text)
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def seconds(seen):
    return f"{seen.seconds or 0:.1f} s" if seen.code is not None else "silent"


def cells(result, seen, own, found):
    time = f"{seen.seconds or 0:.1f}" if seen.code is not None else f"silent for {result.row.patience:g}"
    return f"| {found.who} | {found.cause} | {found.log} | {len(own)} | {time} "


def table(results, both):
    yield "| failure | what happens " + "".join(f"| {side.name}: who | cause | log | lines | s " for side in both) + "|"
    yield "|---|---|" + "---|" * (5 * len(both))
    for result in results:
        seen = [cells(result, *result.seen[side.name]) if side.name in result.seen else "| " * 5 for side in both]
        skipped = f"; skipped: {result.skipped}" if result.skipped else ""
        yield f"| {result.row.name} | {result.row.what}{skipped} " + "".join(seen) + "|"


def section(result):
    yield f"## {result.row.name}"
    yield ""
    yield result.row.what[0].upper() + result.row.what[1:] + "." + (
        f" Skipped: {result.skipped}." if result.skipped else "")
    for name, (seen, own, found) in result.seen.items():
        yield ""
        end = f"exit code {seen.code}" if seen.code is not None else f"still runs after {result.row.patience:g} s"
        yield f"{name}, {end}; the cause is " + ("named:" if found.cause == judge.YES else "not named:")
        yield ""
        for line in judge.shortened(judge.report(own)) or ["(nothing)"]:
            yield f"    {line}".rstrip()
    yield ""


def account(planned, verdict):
    """What a job says of itself that all these faults hit."""
    yield "## A job with many faults"
    yield ""
    yield (f"{len(planned)} faults at random, one after the other, hit the trainer of examples/train on three nodes with "
           "two workers each.")
    yield "Then it is told to end. What `verdict.json` says; `--all` prints what it says of each fault:"
    yield ""
    for name, value in verdict["account"].items():
        yield f"    {name:16} {value}"


def history(planned, verdict):
    """How that job names each fault."""
    yield "| fault | generation | its end, as `verdict.json` names it | lost, s |"
    yield "|---|---|---|---|"
    past = list(verdict["history"])
    for fault in planned:
        while past and not fault.named_by(past[0]["why"]):
            past.pop(0)
        found = past.pop(0) if past else {"generation": "–", "why": "not named", "lost_s": "–"}
        yield f"| {fault} | {found['generation']} | {found['why']} | {found['lost_s']} |"


def page(results, both, played):
    """The table. `played`: the faults that hit one job, and its verdict; or None."""
    launchers = ", ".join(f"{side.name} {side.version}" for side in both)
    where = f"{datetime.date.today()}, Linux {platform.release()}: {launchers}."
    lines = [HEAD, where, "", *table(results, both), "", *(account(*played) if played else [])]
    return "\n".join(lines).rstrip() + "\n"


def texts(results, played):
    """What each launcher said, failure by failure; and how the job with many faults names each."""
    lines = [TEXTS, *(line for result in results for line in section(result))]
    return "\n".join(lines + (list(history(*played)) if played else []))
