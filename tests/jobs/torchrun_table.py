#!/usr/bin/env python3
"""Runs the tests that meet the newest torchrun, and writes what they saw to docs/evidence/torchrun_tested.md. `make` and
`source` of tests/support/todays_torch fetch it before.

Usage: torchrun_table.py BUILD_DIR [--all]
  --all   write nothing; print the page"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import evidence

PAGE = "torchrun_tested.md"
HEAD = """# The newest torchrun, option by option, and its own tests

Written by `tests/jobs/torchrun_table.py`, from tests that all passed; do not edit. The options are those of torchrun's
own parser. cxxrun was given each of them, in both spellings and by each abbreviation that torchrun takes, with
torchrun's default and with each word that its parser knows. What cxxrun makes of it is said as in
[torchrun.md](../use/torchrun.md). The tests are PyTorch's `test/distributed/launcher/test_run.py`, unchanged, with
`torch.distributed.run.main` replaced by a call of cxxrun: exit code 100 is its `ValueError`, any other code but 0 its
`ChildFailedError`. They are of the newest release whose source package a mirror serves, and run with the newest
PyTorch, and with `USE_LIBUV=0`, because Debian builds it without that library.
"""
COLUMNS = ["there", "values", "here"]


def line(row):
    return f"| {' | '.join(row[name] for name in ('there', 'values', 'here'))} |"


def record(rows):
    """For the tests: tells the rows. Returns those that the page does not have."""
    if evidence.collecting():
        for row in rows:
            evidence.tell(**row)
        return []
    known = pathlib.Path(evidence.PAGES, PAGE).read_text().splitlines()
    return [line(row) for row in rows if line(row) not in known]


if __name__ == "__main__":
    evidence.main(__doc__, PAGE, ["-R", "^process_torch(run_options|_launcher)_today$"], lambda: HEAD, COLUMNS, line)
