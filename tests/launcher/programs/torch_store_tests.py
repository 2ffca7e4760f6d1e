"""PyTorch's own store tests, Python's and C++'s, with the newest client against cxxrun-store: every one passes that is
not in REASONS, and every one of REASONS fails. docs/evidence/torch_store.md is written from what came out.

    torch_store_tests.py CXXRUN_STORE [--write | --all]
  --write   write the page: what does not pass, and how many do
  --all     print every test and method

Exit code 77: skipped, because tests/support/todays_torch has fetched no PyTorch or none of its tests."""
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[2]
PAGE = TREE / "docs" / "evidence" / "torch_store.md"
TODAY = TREE / "tests" / "support" / "todays_torch"
GUARD = 500  # seconds; against hanging only

SERVER_OBJECT = "about torch's server object: "
RPC = "needs TensorPipe, which Debian builds torch without"
REASONS = {
    "test_repr": SERVER_OBJECT + "its text names the server in the same process",
    "test_take_over_listen_socket": SERVER_OBJECT + "it is handed a listening socket",
    "test_store_timeout_on_missing_clients": SERVER_OBJECT + "its constructor waits for the clients",
    "test_init_pg_and_rpc_with_same_file": RPC,
    "test_init_pg_and_rpc_with_same_socket": RPC,
    "PythonStoreTest.test_set_get": "a store written in Python, without a method that the newest library wants",
}
REFUSED = "Debian's client refuses it without libuv; the server's part: tests/src/base/store"
OBJECT = "a property of the client's object"
METHODS = {"clone": "makes a second client, with nothing new to say", "host": OBJECT, "libuvBackend": OBJECT,
           "port": OBJECT, "timeout": OBJECT, "queue_len": REFUSED, "queue_pop": REFUSED, "queue_push": REFUSED}


def fetched(what):
    done = subprocess.run([TODAY, what], capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout.strip())
        sys.exit(done.returncode)
    return done.stdout.strip()


def run_in_root(*command):
    done = subprocess.run([TODAY, "run", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=GUARD)
    return done.stdout.splitlines()


def python_tests(program, source):
    """The release and the methods of the client; rows of name, outcome, why."""
    said = [json.loads(line) for line in run_in_root("/usr/bin/python3", HERE / "torch_store_seam.py", program, source)
            if line.startswith('["')]
    return said[0], said[1:]


def cpp_tests(program, sources, root):
    with tempfile.TemporaryDirectory() as directory:
        binary = os.path.join(directory, "tcp_store_test")
        libraries = [sorted(glob.glob(f"{root}/usr/lib/*/{name}.so.*"))[0] for name in ("libtorch_cpu", "libc10")]
        include = f"{sources}/usr/include"
        subprocess.run(["g++", "-std=c++20", "-w", f"-I{include}", f"-I{include}/torch/csrc/api/include", "-include",
                        HERE / "torch_store_seam.hpp", f"{sources}/pytorch/test/cpp/c10d/TCPStoreTest.cpp", *libraries,
                        "-Wl,--allow-shlib-undefined", *glob.glob(f"{sources}/usr/lib/*/libgtest*.a"), "-o", binary],
                       check=True)
        said = run_in_root("/usr/bin/env", f"CXXRUN_STORE={program}", binary)
    outcomes = {"OK": "passed", "FAILED": "failed"}
    found = [re.match(r"\[ +(OK|FAILED) +\] (\S+) \(\d+ ms\)", line) for line in said]
    return [(match[2], outcomes[match[1]], "") for match in found if match]


def reason(name):
    return REASONS.get(name) or REASONS.get(name.split(".")[-1])


def judged(rows):
    """Lines of the table, and what is wrong with them."""
    lines, wrong = [], []
    for name, outcome, why in rows:
        expected = reason(name)
        lines.append(f"| {name} | {'passed' if outcome == 'passed' else expected or why} |")
        if outcome != "passed" and not expected:
            wrong.append(f"{name} {outcome}: {why}")
        elif outcome == "passed" and expected:
            wrong.append(f"{name} passes, but REASONS has it")
    return lines, wrong


def methods(names, tests):
    lines, wrong = [], []
    for name in names:
        users = [path.name for path in tests if f".{name}(" in path.read_text()]
        lines.append(f"| {name} | {'called in a test, ' + ', '.join(users) if users else METHODS.get(name, '?')} |")
        if not users and name not in METHODS:
            wrong.append(f"the client has {name}, which no test calls")
    return lines, wrong + [f"METHODS has {name} for nothing" for name in METHODS.keys() - set(names)]


def page(client, release, parts, whole=False):
    """`parts`: title, head of the first column, lines, and how a line begins that is only counted unless `whole`."""
    text = [f"""# PyTorch's own store tests against cxxrun-store

The client is PyTorch {client}, the tests are those of {release}, the newest source package to be had. A server that a
test wants is `cxxrun-store`, started for it; nothing else of a test is changed. Written by
`tests/launcher/programs/torch_store_tests.py CXXRUN_STORE --write`; `--all` prints every test, and `scripts/test
--full` runs them."""]
    for title, column, lines, usual in parts:
        others = [line for line in lines if f" | {usual}" not in line]
        table = lines if whole else others
        text.append(f"## {title}\n\n{len(lines) - len(others)} of {len(lines)}: {usual}" + (
            f"\n\n| {column} | |\n|---|---|\n" + "\n".join(table) if table else ""))
    return "\n\n".join(text) + "\n"


def main():
    program = os.path.abspath(sys.argv[1])
    fetched("version")
    sources = fetched("sources")
    root = sources.removesuffix(".source")
    test_store = pathlib.Path(sources, "pytorch/test/distributed/test_store.py")
    (client, names), python_rows = python_tests(program, test_store)
    cpp_rows = cpp_tests(program, sources, root)
    release = pathlib.Path(sources, "RELEASE").read_text().strip()
    python_lines, wrong = judged(python_rows)
    cpp_lines, more = judged(cpp_rows)
    method_lines, unknown = methods(names, [test_store, HERE / "store_torch_test.py"])
    parts = [("test_store.py", "test", python_lines, "passed"), ("TCPStoreTest.cpp", "test", cpp_lines, "passed"),
             (f"Methods of the client of {client}", "method", method_lines, "called in a test")]
    text = page(client, release, parts)
    passed = sum(row[1] == "passed" for row in python_rows + cpp_rows)
    print(f"{passed} of {len(python_rows) + len(cpp_rows)} pass")
    wrong += more + unknown + ([] if len(cpp_rows) > 4 and len(python_rows) > 40 else ["too few tests have run"])
    if "--all" in sys.argv:
        print(page(client, release, parts, whole=True))
    if "--write" in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        wrong.append(f"{PAGE.relative_to(TREE)} is out of date: run it with --write")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
