#!/usr/bin/env python3
"""Runs the tests in which another user attacks a job and writes what they saw to docs/evidence/attacks.md.

Usage: attacks_table.py BUILD_DIR [--all]
  --all   write nothing; print all rows, not only the first of each area"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import evidence

HEAD = """# Attacks that were tried

Written by `tests/jobs/attacks_table.py build/release`, from tests that all passed; do not edit. With `--all` it prints
every row. Each row is a job of a user without root, and another user without root on the same machine, or as the row
says. In each the workers' results are those of an undisturbed job, unless the exit code says that there was none, and
no attack costs a restart. The line is one that the agents print, with names for what differs from run to run. What is
kept out, and what is not: [security.md](../use/security.md).
"""
SHOWN = 2  # rows of each area
COLUMNS = ["what is tried", "who tries it", "what follows", "exit code", "line"]


def line(row):
    printed = row["line"] if len(row["line"]) == 1 else evidence.code(row["line"])
    return f"| {' | '.join(map(evidence.cell, (row['attack'], row['who'], row['seen'], row['code'])))} | {printed} |"


if __name__ == "__main__":
    evidence.main(__doc__, "attacks.md", ["-R", "^process_attacks"], lambda: HEAD, COLUMNS, line, SHOWN)
