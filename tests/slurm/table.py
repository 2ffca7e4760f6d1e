#!/usr/bin/env python3
"""Runs the tests on a real Slurm and writes what they saw to docs/evidence/slurm_tested.md: what you type, what happened.

Usage: table.py BUILD_DIR [--quick] [--check]
  --quick   without the tests labelled slow
  --check   write nothing; fail when the page would change (rows of tests that did not run are not missed)"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "evidence", "slurm_tested.md")
HEAD = """# What was tried on a real Slurm

Written by `tests/slurm/table.py`, from tests that all passed; do not edit. {version} on one machine: each node
is a set of Linux namespaces with its own network, host name, /tmp and PIDs. GPUs are device files with no device
behind them.
"""


def run_tests(build, quick):
    """The rows that the tests told, in the order of the tests, which is always the same."""
    with tempfile.NamedTemporaryFile("r", prefix="cxxrun-slurm-table-") as table:
        words = ["ctest", "--test-dir", build, "-L", "slurm", "--output-on-failure"] + ["-LE", "slow"] * quick
        code = subprocess.run(words, env={**os.environ, "CXXRUN_SLURM_TABLE": table.name}).returncode
        if code != 0:
            sys.exit("table.py: not all tests passed, so nothing was written")
        rows = [json.loads(line) for line in table]
    if not rows:
        sys.exit("table.py: no test told anything; can a Slurm cluster run here? (tests/slurm/cluster.py up)")
    return rows


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def line(row):
    return f"| `{cell(row['typed'])}` | {cell(row['happened'])} |"


def page(rows, version):
    """Pure."""
    areas = {}
    for row in rows:
        areas.setdefault(row["area"], []).append(line(row))
    parts = [HEAD.format(version=version)]
    for area, lines in sorted(areas.items(), key=lambda item: item[0].strip("-").lower()):
        parts.append(f"## {area[0].upper()}{area[1:]}\n\n| what you type | what happened |\n|---|---|\n"
                     + "\n".join(dict.fromkeys(lines)) + "\n")
    return "\n".join(parts)


def slurm_version():
    text = subprocess.run(["/usr/sbin/slurmd", "-V"], capture_output=True, text=True).stdout.split()
    return "Slurm " + text[-1] if text else "Slurm"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    rows = run_tests(given.build, given.quick)
    if given.check:
        with open(PAGE) as f:
            known = set(f.read().splitlines())
        new = [text for text in map(line, rows) if text not in known]
        if new:
            sys.exit("table.py: not in docs/evidence/slurm_tested.md:\n" + "\n".join(new))
        return
    if given.quick:
        sys.exit("table.py: --quick sees only a part of the page; use it with --check")
    with open(PAGE, "w") as f:
        f.write(page(rows, slurm_version()))
    print(f"{os.path.relpath(PAGE)}: {len(rows)} rows")


if __name__ == "__main__":
    main()
