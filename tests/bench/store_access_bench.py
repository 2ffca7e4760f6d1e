#!/usr/bin/python3
"""What it costs to find out whose a connection to the store is: the time until its first reply, with --store-access user
and any, by turns.

    store_access_bench.py BUILD_DIR [--repeat 500]

Two jobs of two nodes, which are network namespaces: needs root. `elsewhere`: from the node without the store, the
question goes to that node's agent and back; `here`: from the node with it. `round trip`: of a later request on the same
connection. `CPU`: of cxxrun-store for each of 64 connections that come at once, are answered once and end; what others
do on the machine does not count there."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import wires
from store_bench import Server

WORKER = '#!/bin/sh\necho "$MASTER_PORT" > "$1.new" && mv "$1.new" "$1" && exec sleep 600\n'
CLIENT = """
import json, socket, struct, sys, time
host, ports, repeat = sys.argv[1], [int(p) for p in sys.argv[2].split(",")], int(sys.argv[3])
ADD = b"\\x03" + struct.pack("<Q", 1) + b"n" + struct.pack("<q", 1)
def one(port):
    began = time.perf_counter()
    with socket.create_connection((host, port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(ADD)
        assert len(client.recv(8)) == 8
        first = time.perf_counter()
        client.sendall(ADD)
        assert len(client.recv(8)) == 8
        return first - began, time.perf_counter() - first
times = {p: [] for p in ports}
for i in range(repeat):
    for port in ports if i % 2 else ports[::-1]:
        times[port].append(one(port))
print(json.dumps([times[p] for p in ports]))
"""


def await_text(path, agents):
    while not os.path.exists(path):
        if any(agent.poll() is not None for agent in agents):
            sys.exit("a job has ended before its time")
        time.sleep(0.01)
    return open(path).read().strip()


def start_job(build, net, directory, access, port):
    worker = os.path.join(directory, "worker")
    pathlib.Path(worker).write_text(WORKER)
    os.chmod(worker, 0o755)
    told = os.path.join(directory, access)
    agents = [subprocess.Popen(
        ["nsenter", f"--net={host.net}", os.path.join(build, "bin", "cxxrun"), "--nnodes", "2", "--node-rank", str(rank),
         "--rdzv-endpoint", f"{net.hosts[0].address}:{port}", "--store-access", access, "--log-level", "error", worker,
         f"{told}.{rank}"], env={**os.environ, "HOME": directory, "TMPDIR": directory})
        for rank, host in enumerate(net.hosts)]
    return agents, [await_text(f"{told}.{rank}", agents) for rank in (0, 1)][0]


def on(host, *command):
    return subprocess.run(["nsenter", f"--net={host.net}", *command], capture_output=True, text=True, check=True).stdout


def spread(values):
    values = sorted(values)
    return f"{1e6 * statistics.median(values):>9.0f}{1e6 * values[int(0.99 * (len(values) - 1))]:>9.0f}"


def cpu_per_connection(build, rounds=40, crowd=64):
    """Microseconds, for user and any; rounds by turns."""
    store, load = os.path.join(build, "bin", "cxxrun-store"), os.path.join(build, "tests", "store_load")
    servers = [Server(access, [store, "--port", "0", "--store-access", access]) for access in ("user", "any")]
    used = {server: [] for server in servers}
    for i in range(rounds):
        for server in servers if i % 2 else servers[::-1]:
            before = server.cpu_seconds()
            subprocess.run([load, str(server.port), "storm", str(crowd), "4", str(server.process.pid)],
                           check=True, capture_output=True)
            used[server].append((server.cpu_seconds() - before) / (4 * crowd))
    for server in servers:
        server.stop()
    return [1e6 * statistics.median(used[server]) for server in servers]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--repeat", type=int, default=500)
    options = parser.parse_args()
    print("CPU us a connection: user {:.1f}, any {:.1f}".format(*cpu_per_connection(options.build)), flush=True)
    agents = []
    with wires.Wires(2) as net, tempfile.TemporaryDirectory() as directory:
        try:
            ports = []
            for access, port in (("user", 29400), ("any", 29410)):
                started, master = start_job(options.build, net, directory, access, port)
                agents += started
                ports.append(master)
            print(f"{'':<28}{'user: p50':>9}{'p99 us':>9}{'any: p50':>9}{'p99 us':>9}")
            for name, host in (("elsewhere", net.hosts[1]), ("here", net.hosts[0])):
                rows = json.loads(on(host, sys.executable, "-c", CLIENT, net.hosts[0].address, ",".join(ports),
                                     str(options.repeat)))
                for at, what in enumerate((f"first reply, {name}", f"round trip, {name}")):
                    print(f"{what:<28}" + "".join(spread([each[at] for each in row]) for row in rows), flush=True)
        finally:
            for agent in agents:
                agent.terminate()
            for agent in agents:
                agent.wait()


if __name__ == "__main__":
    main()
