"""The pages of docs/evidence that are tables of what tests saw: a test tells a row, and a script of its folder (table.py
in tests/slurm, attacks_table.py in tests/jobs) runs the tests and writes the page."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROWS = "CXXRUN_EVIDENCE"  # the file to which tests add their rows
PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "evidence")


def collecting():
    return bool(os.environ.get(ROWS))


def tell(**row):
    """For tests: a row, when somebody collects them. `area`: under which heading; the others are the script's."""
    if collecting():
        with open(os.environ[ROWS], "a") as f:
            f.write(json.dumps(row) + "\n")


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def code(text):
    """As it was typed or printed."""
    return f"`{cell(text)}`"


def page(head, columns, rows, line):
    """Pure. `line`: the row of the table that a told row becomes. Areas are sorted, rows stand in the order of the tests."""
    areas = {}
    for row in rows:
        areas.setdefault(row["area"], []).append(line(row))
    parts = [head]
    for area, lines in sorted(areas.items(), key=lambda item: item[0].strip("-").lower()):
        parts.append(f"## {area[0].upper()}{area[1:]}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
                     + "\n".join(dict.fromkeys(lines)) + "\n")
    return "\n".join(parts)


def summary(head, columns, rows, line, most):
    """Pure. The same page in one table, with the first `most` rows of each area."""
    areas = {}
    for row in rows:
        areas.setdefault(row["area"], {})[line(row)] = None
    lines = [f"| area, rows shown of all | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 1)]
    for area, found in sorted(areas.items(), key=lambda item: item[0].strip("-").lower()):
        shown = list(found)[:most]
        names = [f"{area[0].upper()}{area[1:]}: {len(shown)} of {len(found)}"] + [""] * (len(shown) - 1)
        lines += [f"| {name} {row}" for name, row in zip(names, shown)]
    return f"{head}\n" + "\n".join(lines) + "\n"


def collect(build, words):
    """The rows that the tests told, in the order of the tests, which is always the same."""
    with tempfile.NamedTemporaryFile("r", prefix="cxxrun-evidence-") as table:
        command = ["ctest", "--test-dir", build, "--output-on-failure", "--repeat", "until-pass:2", *words]
        if subprocess.run(command, env={**os.environ, ROWS: table.name}).returncode != 0:
            sys.exit("not all tests passed, so nothing was written")
        rows = [json.loads(line) for line in table]
    if not rows:
        sys.exit("no test told anything: see in their output why they were skipped")
    return rows


def main(usage, name, words, head, columns, line, most=None):
    """What such a script does. `words`: which tests, for ctest; `head`: a function that gives what the page begins with;
    `most`: the page has no more rows of an area, and `--all` prints the others."""
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("build")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    rows = collect(given.build, words)
    if given.all:
        print(page(head(), columns, rows, line))
        return
    path = os.path.normpath(os.path.join(PAGES, name))
    with open(path, "w") as f:
        f.write(summary(head(), columns, rows, line, most) if most else page(head(), columns, rows, line))
    print(f"{os.path.relpath(path)}: {len(rows)} rows")
