#!/usr/bin/env python3
"""Runs modules of tests/slurm on the releases of Slurm that tests/support/todays_slurm has fetched and on the machine's
own, and writes what came out to the table of docs/evidence/slurm_releases.md. What is not run keeps its cell.

Usage: releases_table.py BUILD_DIR [REGEX of ctest's names]     all take hours: slurm_testing_ are those of the newest"""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TREE = pathlib.Path(__file__).resolve().parents[2]
PAGE = TREE / "docs/evidence/slurm_releases.md"
NAME = re.compile(r"slurm_(?:(trixie|testing)_)?(guest_)?(\w+)")
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped", re.MULTILINE)
WHY = re.compile(r"^(?:not tested|skipped): (.*)$|^(?:FAIL|ERROR): (\w+)", re.MULTILINE)


def release(suite):
    command = [TREE / "tests/support/todays_slurm", suite, "version"] if suite else ["/usr/sbin/slurmd", "-V"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


def outcome(said):
    """(cell, why not all of it passed) of one module, by what its script printed; nothing where it was skipped whole."""
    counts = COUNTS.findall(said)
    if not counts or counts[-1] == ("0", "0", "1"):
        return None
    passed, failed, skipped = map(int, counts[-1])
    why = [skip or f"`{name}` failed" for skip, name in WHY.findall(said)] if failed + skipped else []
    notes = "; ".join(dict.fromkeys(why)).replace("|", "\\|")
    return f"{passed}/{passed + failed + skipped}", notes


def updated(page, results):
    """Pure. `results`: {(column, module): (cell, notes)}; a row is "| module | …", a note "| COLUMN, MODULE | … |"."""
    lines = page.splitlines()
    head = next(index for index, line in enumerate(lines) if line.startswith("| module "))
    columns = [word.strip() for word in lines[head].strip("|").split("|")]
    notes = next(index for index, line in enumerate(lines) if line.startswith("## Not passed")) + 4
    for (column, module), (cell, note) in results.items():
        row = next((index for index in range(head + 2, notes) if lines[index].startswith(f"| {module} |")), None)
        if row is None or column not in columns:
            sys.exit(f"{PAGE.name} has no row {module} or no column {column}: add it by hand")
        words = [word.strip() for word in lines[row].strip("|").split("|")]
        words[columns.index(column)] = cell
        lines[row] = f"| {' | '.join(words)} |"
        end = lines.index("", notes)
        kept = [line for line in lines[notes:end] if not line.startswith(f"| {column}, {module} |")]
        lines[notes:end] = sorted(kept + ([f"| {column}, {module} | {note} |"] if note else []))
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    regex = sys.argv[2] if len(sys.argv) == 3 else "^slurm_"
    with tempfile.NamedTemporaryFile(suffix=".xml") as told:
        subprocess.run(["ctest", "--test-dir", sys.argv[1], "-R", regex, "-E", "_bench$|_doctor_slow$|_real_", "-L", "slurm",
                        "--output-junit", told.name, "--test-output-size-passed", "99999", "--test-output-size-failed", "99999"])
        cases = xml.etree.ElementTree.parse(told.name).getroot().iter("testcase")
        results = {}
        for case in cases:
            suite, guest, module = NAME.fullmatch(case.get("name")).groups()
            found = outcome(case.findtext("system-out") or "")
            if found and module != "today":
                results[f"{release(suite)} {'guest' if guest else 'here'}", module] = found
    PAGE.write_text(updated(PAGE.read_text(), results))
    print(f"{PAGE.relative_to(TREE)}: {len(results)} cells")


if __name__ == "__main__":
    main()
