#!/usr/bin/python3
"""Where a source file is tested: by the test of its name, else by its row in tests/sources.md. scripts/try runs them.

Fails when a source of rendezvous/ or launcher/ has neither, when a row names what does not exist, and when a test is named
by no CMake file, so that nothing runs it.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = "tests/sources.md"
ROW = re.compile(r"\| `((?:rendezvous|launcher)/\w+)` \|(.+)\|(.+)\|")  # room, names of sources, paths of tests


def table(page):
    """Source → its tests, as the page has them."""
    rows = {}
    for room, names, tests in ROW.findall(page):
        for name in re.findall("`(.+?)`", names):
            rows.setdefault(f"{room}/{name}.cpp", []).extend(re.findall("`(.+?)`", tests))
    return rows


def namesakes(source, files):
    stem = pathlib.PurePosixPath(source).stem
    return sorted(file for file in files if re.fullmatch(rf"tests/(.*/)?{stem}_test\.(cpp|py|sh)", file))


def problems(files, rows, cmake):
    """`cmake`: folder → text of its CMakeLists.txt."""
    for source in sorted(files):
        ours = re.fullmatch(r"(rendezvous|launcher)/.*\.cpp", source)
        if ours and not namesakes(source, files) + rows.get(source, []):
            yield f"{source}: no test has its name, and {PAGE} has no row for it"
        folder, _, name = source.rpartition("/")
        if re.fullmatch(r"tests/.*_test\.(cpp|py|sh)", source) and not re.search(
                rf"(?<!\w){re.escape(name)}(?!\w)", cmake.get(folder, "")):
            yield f"{source}: not in {folder}/CMakeLists.txt, so it never runs"
    for source, tests in rows.items():
        for path in [source, *tests]:
            if path not in files:
                yield f"{PAGE}: {path} does not exist"


def self_test():
    """Each kind of problem, planted once, is found, and nothing else."""
    files = {"launcher/a/named.cpp", "tests/launcher/a/named_test.cpp", "launcher/a/in_row.cpp", "launcher/a/alone.cpp",
             "tests/jobs/unbuilt_test.py"}
    rows = table("| `launcher/a` | `in_row`, `gone` | `tests/launcher/a/named_test.cpp`, `tests/none_test.cpp` |")
    found = list(problems(files, rows, {"tests/launcher/a": "cxxrun_test(unit_a unit named_test.cpp)"}))
    return [problem.split(":")[0] for problem in found] == ["launcher/a/alone.cpp", "tests/jobs/unbuilt_test.py"] + [
        PAGE] * 3


if __name__ == "__main__":
    if not self_test():
        sys.exit("find_test: the self-test found something else: the check is broken")
    files = {path.relative_to(ROOT).as_posix() for top in ("rendezvous", "launcher", "tests")
             for path in (ROOT / top).rglob("*") if path.is_file()}
    rows = table((ROOT / PAGE).read_text())
    cmake = {file.rpartition("/")[0]: (ROOT / file).read_text() for file in files if file.endswith("/CMakeLists.txt")}
    found = list(problems(files, rows, cmake))
    print(*found or ["every source of rendezvous/ and launcher/ has a test"], sep="\n")
    sys.exit(bool(found))
