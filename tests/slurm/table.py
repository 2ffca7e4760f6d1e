#!/usr/bin/env python3
"""Runs the tests on a real Slurm and writes what they saw to docs/evidence/slurm_tested.md: what you type, what happened.

Usage: table.py BUILD_DIR [--all]
  --all   write nothing; print all rows, not only the first of each area"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import evidence

HEAD = """# What was tried on a real Slurm

Written by `tests/slurm/table.py build/release`, from tests that all passed; do not edit. With `--all` it prints every
row. {version} on one machine: each node is a set of Linux namespaces with its own network, host name, /tmp and
PIDs. GPUs are device files with no device behind them.
"""
SHOWN = 1  # rows of each area


def line(row):
    return f"| {evidence.code(row['typed'])} | {evidence.cell(row['happened'])} |"


def head():
    text = subprocess.run(["/usr/sbin/slurmd", "-V"], capture_output=True, text=True).stdout.split()
    return HEAD.format(version="Slurm " + text[-1] if text else "Slurm")


if __name__ == "__main__":
    evidence.main(__doc__, "slurm_tested.md", ["-L", "^slurm$"], head, ["what you type", "what happened"], line, SHOWN)
