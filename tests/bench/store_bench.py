#!/usr/bin/python3
"""PyTorch's libuv store server and cxxrun-store side by side: same machine, same client, runs interleaved.

    store_bench.py BUILD_DIR [--connections 1,64] [--repeat 5] [--seconds 0.4] [--require RATIO] [--operations …]

Compiles that server from the source that tests/support/todays_torch has fetched: Debian builds torch without it. Prints
a table of medians. `ratio` is ours by theirs for rates, theirs by ours for times: above 1, ours is better. CPU is what
the server used per operation, in microseconds, and `CPU ratio` ours by theirs; they depend less on what else the
machine does. --require fails (exit code 1) when a rate at 64 connections has a smaller ratio."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OPERATIONS = ["get", "waitget", "set", "set64", "set1024", "append", "add", "compare_set", "check", "wait", "wait16",
              "num_keys", "set_delete", "multi_get", "multi_set"]
WARM_UP = 0.1  # seconds of store_load that are served but not counted
STORM_ROUNDS = 4  # connections of all of them are open at once, and a store takes half of the descriptors
# What the server's sources include of the rest of PyTorch.
CUSTOM_CLASS = """#pragma once
#include <mutex>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>
#include <c10/util/irange.h>
namespace torch { struct CustomClassHolder : c10::intrusive_ptr_target {}; }
"""


def libuv_server(build):
    """The program, compiled once; exit code 77 where there is no source."""
    found = subprocess.run([HERE.parent / "support" / "todays_torch", "sources"], capture_output=True, text=True)
    if found.returncode != 0:
        print(found.stdout.strip())
        sys.exit(found.returncode)
    source = pathlib.Path(found.stdout.strip())
    program = pathlib.Path(build, "tests", "libuv_server")
    if program.exists() and program.stat().st_mtime > (source / "made").stat().st_mtime:
        return program
    own = program.with_suffix(".include")
    for name, text in (("c10/macros/cmake_macros.h", ""), ("torch/custom_class.h", CUSTOM_CLASS)):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    for name in ("uv.h", "uv"):  # alone: beside them are the headers of another release
        (own / name).unlink(missing_ok=True)
        (own / name).symlink_to(source / "usr/include" / name)
    torch = source / "pytorch"
    parts = [torch / f"torch/csrc/distributed/c10d/{part}.cpp" for part in ("TCPStoreLibUvBackend", "logging", "debug")]
    parts += [torch / f"c10/util/{part}.cpp" for part in (
        "Backtrace", "Exception", "Logging", "StringUtil", "Type_demangle", "env", "error", "flags_use_no_gflags",
        "thread_name")]
    subprocess.run(["g++", "-std=c++17", "-O2", "-DNDEBUG", "-DTORCH_USE_LIBUV", "-DFMT_HEADER_ONLY", f"-I{own}",
                    f"-I{torch}", HERE / "libuv_server.cpp", *parts, f"-L{source}/usr/lib/x86_64-linux-gnu",
                    "-l:libuv_a.a", "-lpthread", "-ldl", "-o", program], check=True)
    return program


class Server:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def cpu_seconds(self):
        tasks = f"/proc/{self.process.pid}/task"
        return sum(int(open(f"{tasks}/{t}/schedstat").read().split()[0]) for t in os.listdir(tasks)) / 1e9

    def peak_mb(self):
        status = open(f"/proc/{self.process.pid}/status").read()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def measure(load, server, operation, connections, amount):
    before = server.cpu_seconds()
    command = [load, str(server.port), operation, str(connections), str(amount)]
    if operation == "storm":
        command.append(str(server.process.pid))
    out = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if out.returncode != 0:
        sys.exit(f"{server.name} {operation}: {out.stderr.strip()}")
    result = json.loads(out.stdout)
    if "per_second" in result:
        served = result["per_second"] * (amount + WARM_UP)
        result["cpu_us"] = 1e6 * (server.cpu_seconds() - before) / served
    return result


def interleaved(load, servers, repeat, *what):
    """A list of results per server; who goes first changes with every round."""
    results = {server.name: [] for server in servers}
    for i in range(repeat):
        for server in servers if i % 2 == 0 else servers[::-1]:
            results[server.name].append(measure(load, server, *what))
    return [results[server.name] for server in servers]


def median(results, field):
    return statistics.median(result[field] for result in results)


def compare_rates(load, servers, options):
    too_slow = []
    print(f"{'operation':<12}{'conns':>6}{'libuv/s':>9}{'cxxrun/s':>9}{'ratio':>7}"
          f"{'p50 us':>15}{'p99 us':>15}{'CPU us':>15}{'CPU ratio':>11}")
    cases = [(operation, int(connections)) for operation in options.operations.split(",")
             for connections in options.connections.split(",")]
    for operation, connections in cases + [("set8m", 1)]:
        theirs, ours = interleaved(load, servers, options.repeat, operation, connections, options.seconds)
        rates = [median(r, "per_second") for r in (theirs, ours)]
        ratio = rates[1] / rates[0]
        pairs = [f"{median(theirs, field):.{digits}f} / {median(ours, field):.{digits}f}"
                 for field, digits in (("p50_us", 0), ("p99_us", 0), ("cpu_us", 1))]
        print(f"{operation:<12}{connections:>6}{rates[0]:>9.0f}{rates[1]:>9.0f}{ratio:>7.2f}"
              + "".join(f"{pair:>15}" for pair in pairs)
              + f"{median(ours, 'cpu_us') / median(theirs, 'cpu_us'):>11.2f}", flush=True)
        if connections == 64 and options.require and ratio < options.require:
            too_slow.append(f"{operation} {ratio:.2f}")
    return too_slow


def compare_times(load, servers, options):
    print(f"\n{'pattern':<12}{'conns':>6}{'libuv ms':>10}{'cxxrun ms':>10}{'ratio':>7}")
    for pattern in ("barrier", "storm"):
        for connections in map(int, filter(None, options.crowds.split(","))):
            rounds = STORM_ROUNDS if pattern == "storm" else 15
            theirs, ours = interleaved(load, servers, options.repeat, pattern, connections, rounds)
            times = [median(r, "median_ms") for r in (theirs, ours)]
            print(f"{pattern:<12}{connections:>6}{times[0]:>10.2f}{times[1]:>10.2f}{times[0] / times[1]:>7.2f}",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--connections", default="1,64")
    parser.add_argument("--crowds", default="64,2048", help="connections of barrier and storm")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--require", type=float)
    options = parser.parse_args()
    load = os.path.join(options.build, "tests", "store_load")
    servers = [Server("libuv", [libuv_server(options.build)]),
               Server("cxxrun", [os.path.join(options.build, "bin", "cxxrun-store"), "--port", "0"])]
    try:
        too_slow = compare_rates(load, servers, options)
        compare_times(load, servers, options)
        print("\npeak memory MB: " + ", ".join(f"{s.name} {s.peak_mb():.0f}" for s in servers))
    finally:
        for server in servers:
            server.stop()
    if too_slow:
        sys.exit(f"below {options.require} at 64 connections: " + ", ".join(too_slow))


if __name__ == "__main__":
    main()
