#!/usr/bin/env python3
"""Fail when a page names what is not there, or is too wide to be read in a terminal.

  links: every relative link of a *.md leads to a file, and its #anchor to a heading of that page
  paths: docs/…, tests/…, src/…, launcher/…, rendezvous/…, include/… and scripts/… named in a *.md exist (a name without
         suffix may have any), and so does each docs/… named in another file. In a table whose first column is of files, a
         bare name stands in the folder of the name before it, or of the column's head.
  tests: `FILE: NAME` of a test's file: NAME is in it
  code:  a page of docs/use and docs/design begins, after its title, with `Code:` and the functions that decide what it is
         about, each before its file, which has it
  width: no line of docs/, README.md and CONTRIBUTING.md is wider than 120 columns, but in tables and code
Usage: scripts/check_docs.py [--links] [ROOT]
  --links: of these the links alone, for pages that were installed without the tree
"""
import pathlib
import re
import sys
import tempfile

FOLDERS = "docs tests src launcher rendezvous include scripts examples cmake".split()
CODE = {".hpp", ".h", ".cpp", ".cu", ".py", ".cmake", ".txt", ".sh", ".1", ""}
WIDTH = 120
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
PATH = re.compile(r"(?<![\w./~-])(?:docs|tests|src|launcher|rendezvous|include|scripts)/[\w./*{},-]*")
TEST = re.compile(r"`(tests/[\w./-]+\.(?:cpp|py)): ([^`]+)`")
PAGE = re.compile(r"(?<![\w-])docs/[\w./-]*\w")
OF_CODE = re.compile(r"docs/(?:use|design)/[\w.]+\.md")


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-")


def spread(path):
    """a/{b,c}: a/b and a/c."""
    braces = re.match(r"(.*)\{([^}]*)\}(.*)", path)
    return [braces[1] + name + braces[3] for name in braces[2].split(",")] if braces else [path]


def exists(root, path):
    path = path.rstrip(".,/-")
    suffixes = [""] if re.search(r"\.\w+$", path) else ["", ".*"]
    return all(any(any(root.glob(one + suffix)) for suffix in suffixes) for one in spread(path))


def names_in_row(head, row):
    """The paths that the first cell of a table's row abbreviates: `src/a/good`, `bad`, or `bad` under "file in `src/a`"."""
    folder = "".join(re.findall(r"`(.*)`", head))
    for name in re.findall(r"`([\w./*]+)`", row.split("|")[1]):
        if "/" in name:
            folder = name[:name.rindex("/")]
        elif folder:
            yield f"{folder}/{name}"


def code_violations(root, rel, text):
    """Of the first paragraph of a page: Code: `f()` and `g()` in `src/a/b.cpp`, `h()` in `src/c.hpp`."""
    paragraph = text.partition("\n")[2].strip().partition("\n\n")[0]
    where = f"{rel}:{text[:text.find(paragraph)].count(chr(10)) + 1}"
    found = re.findall(r"((?:`\w+\(\)`[^`]*)+)`([\w.]+/[\w./]+)`", paragraph)
    if not paragraph.startswith("Code: ") or not found:
        yield f"{where}: the page does not begin with `Code:`, a function and its file"
    for functions, file in found if paragraph.startswith("Code: ") else []:
        code = (root / file).read_text() if (root / file).is_file() else ""
        for name in re.findall(r"`(\w+)\(\)`", functions):
            if not re.search(rf"\b{name}\(", code):
                yield f"{where}: {file} has no {name}()"


def page_violations(root, path):
    rel = path.relative_to(root).as_posix()
    text = path.read_text()
    if OF_CODE.fullmatch(rel):
        yield from code_violations(root, rel, text)
    narrow = rel.startswith("docs/") or rel in ("README.md", "CONTRIBUTING.md")
    code = False
    first_column = ""
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{rel}:{number}"
        table = line.lstrip().startswith("|")
        first_column = (first_column or line.split("|")[1].strip()) if table else ""
        if line.startswith("```"):
            code = not code
        named = PATH.findall(line)
        if table and first_column.startswith("file"):
            named += names_in_row(first_column, line)
        for name in named:
            if not exists(root, name):
                yield f"{where}: {name} does not exist"
        for name, test in TEST.findall(line):
            if exists(root, name) and test not in (root / name).read_text():
                yield f"{where}: {name} has no test '{test}'"
        if code or line.startswith("    "):
            continue
        if narrow and not table and len(line) > WIDTH and " " in line[:WIDTH].strip():
            yield f"{where}: {len(line)} columns wide"
        for target, anchor in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            there = path.parent / target if target else path
            if not there.exists():
                yield f"{where}: link to {target}, which does not exist"
            elif anchor and anchor not in map(slug, re.findall(r"(?m)^#+ (.*)", there.read_text())):
                yield f"{where}: link to {target}#{anchor}: no such heading"


def violations(root):
    files = [p for p in root.glob("[!.]*") if p.is_file()]
    files += [p for folder in FOLDERS for p in (root / folder).rglob("*") if p.is_file()]
    for path in sorted(files):
        if path.suffix == ".md":
            yield from page_violations(root, path)
        elif path.suffix in CODE and path.name != "check_docs.py":
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                for name in PAGE.findall(line):
                    if not exists(root, name):
                        yield f"{path.relative_to(root).as_posix()}:{number}: {name} does not exist"


def self_test():
    """The check must be able to fail: what is planted is found, and nothing else."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for folder in ("docs/use", "docs/design", "src/a", "tests"):
            (root / folder).mkdir(parents=True)
        (root / "src/a/good.cpp").write_text("// docs/page.md\n// docs/gone.md\nint here() {}\n")
        (root / "tests/a_test.py").write_text("def test_that():\n")
        (root / "docs/page.md").write_text(
            "# A `good` page\n[ok](page.md#a-good-page) [ok](../src/) `src/a/good`, `src/{a}/g*`, https://x/src/none\n"
            "[gone](gone.md)\n[no heading](#nowhere)\n`src/a/none`, `src/{a,b}/good.cpp`\n" + "wide " * 30 + "\n"
            "\n| file in `src/a` |\n|---|\n| `good`, `bad` " + "wide " * 30 + "|\n\n    " + "code " * 30 + "\n"
            "`tests/a_test.py: test_that`, `tests/a_test.py: test_this`\n")
        for name, said in (("design/good", "Code: `here()` in `src/a/good.cpp`."), ("design/none", "No such line."),
                           ("use/gone", "Code: `here()` and `gone()`, both in `src/a/good.cpp`."),
                           ("use/of_none", "Code: `src/a/good.cpp`.")):
            (root / f"docs/{name}.md").write_text(f"# A page\n\n{said}\n\nCode: `gone()` in `src/a/good.cpp`.\n")
        found = [v.split()[0] for v in violations(root)]
        return found == ["docs/design/none.md:3:", "docs/page.md:3:", "docs/page.md:4:", "docs/page.md:5:", "docs/page.md:5:", "docs/page.md:6:",
                         "docs/page.md:10:", "docs/page.md:13:", "docs/use/gone.md:3:", "docs/use/of_none.md:3:",
                         "src/a/good.cpp:2:"]


if __name__ == "__main__":
    if not self_test():
        sys.exit("check_docs: the self-test did not find what it planted: the check is broken")
    links = sys.argv[1:2] == ["--links"]
    root = pathlib.Path([*sys.argv[1 + links:], "."][0])
    found = [violation for violation in violations(root) if not links or ": link to " in violation]
    for violation in found:
        print(violation)
    print(f"docs: {len(found)} violations" if found else "docs: clean")
    sys.exit(bool(found))
