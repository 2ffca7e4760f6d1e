#!/usr/bin/python3
"""torch's own store server and cxxrun-store side by side: same machine, same client, runs interleaved.

    store_bench.py BUILD_DIR [--connections 1,8,64,256] [--repeat 5] [--seconds 0.4] [--require RATIO]

Prints a table of medians. `ratio` is ours by torch's for rates, torch's by ours for times: above 1, ours is better.
CPU is what the server used per operation, in microseconds; it depends less on what else the machine does.
--require fails (exit code 1) when a rate at 64 connections has a smaller ratio."""
import argparse
import json
import os
import statistics
import subprocess
import sys

TORCH_SERVER = """
import resource, signal
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=60), wait_for_workers=False)
print(store.port, flush=True)
signal.pause()
"""
OPERATIONS = ["set", "get", "waitget", "add", "compare_set", "check", "wait", "wait16"]
WARM_UP = 0.1  # seconds of store_load that are served but not counted


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
    out = subprocess.run([load, str(server.port), operation, str(connections), str(amount)], capture_output=True,
                         text=True, timeout=120)
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
    print(f"{'operation':<12}{'conns':>6}{'torch/s':>9}{'cxxrun/s':>9}{'ratio':>7}"
          f"{'p50 us':>15}{'p99 us':>15}{'CPU us':>15}")
    for operation in OPERATIONS:
        for connections in map(int, options.connections.split(",")):
            theirs, ours = interleaved(load, servers, options.repeat, operation, connections, options.seconds)
            rates = [median(r, "per_second") for r in (theirs, ours)]
            ratio = rates[1] / rates[0]
            pairs = [f"{median(theirs, field):.{digits}f} / {median(ours, field):.{digits}f}"
                     for field, digits in (("p50_us", 0), ("p99_us", 0), ("cpu_us", 1))]
            print(f"{operation:<12}{connections:>6}{rates[0]:>9.0f}{rates[1]:>9.0f}{ratio:>7.2f}"
                  + "".join(f"{pair:>15}" for pair in pairs), flush=True)
            if connections == 64 and options.require and ratio < options.require:
                too_slow.append(f"{operation} {ratio:.2f}")
    return too_slow


def compare_times(load, servers, options):
    print(f"\n{'pattern':<12}{'conns':>6}{'torch ms':>10}{'cxxrun ms':>10}{'ratio':>7}")
    for pattern in ("barrier", "storm"):
        for connections in map(int, filter(None, options.crowds.split(","))):
            theirs, ours = interleaved(load, servers, options.repeat, pattern, connections, 15)
            times = [median(r, "median_ms") for r in (theirs, ours)]
            print(f"{pattern:<12}{connections:>6}{times[0]:>10.2f}{times[1]:>10.2f}{times[0] / times[1]:>7.2f}",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--connections", default="1,8,64,256")
    parser.add_argument("--crowds", default="64,512,2048", help="connections of barrier and storm")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--require", type=float)
    options = parser.parse_args()
    load = os.path.join(options.build, "tests", "store_load")
    servers = [Server("torch", [sys.executable, "-c", TORCH_SERVER]),
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
