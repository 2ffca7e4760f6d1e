#!/usr/bin/python3
"""All-reduce between two network namespaces on a shaped link, beside one raw TCP stream on the same link.

    rails_bench.py RAILS_LOAD [--rates 1gbit,5gbit] [--mib 25,100] [--reps 5] [--require RATIO] [--gloo] [--smoke]
                   [--setup RAILS_SETUP]

With two nodes an all-reduce of S bytes sends S bytes each way, so a raw stream of S bytes is the limit: `of raw` is the
raw stream's time by ours. Rates are medians. --require fails (exit code 1) when f32 on a shaped link is below RATIO.
--gloo adds torch's gloo with two processes over loopback, for comparison. --setup adds how long the ranks of two nodes
take to connect over loopback, without proofs and with those of an agent for each node: median and fastest of 20 times.
Needs root; else exit code 77."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import wires  # noqa: E402

GLOO = """
import os, sys, time, json, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
data = torch.ones(int(sys.argv[1]) // 4)
times = []
for rep in range(int(sys.argv[2]) + 1):
    dist.barrier()
    began = time.monotonic()
    dist.all_reduce(data)
    times.append(time.monotonic() - began)
if dist.get_rank() == 0:
    print(json.dumps({"rank": 0, "seconds": times[1:]}), flush=True)
dist.barrier()
os._exit(0)
"""


def median(lines):
    """Of rank 0: ranks start and end together."""
    for line in lines.splitlines():
        result = json.loads(line)
        if result["rank"] == 0:
            return statistics.median(result["seconds"])
    sys.exit("no result")


def load(program, words, mib, reps, *more):
    out = subprocess.run([program, *words, "--bytes", str(int(mib * 2**20)), "--reps", str(reps), *more],
                         capture_output=True, text=True, timeout=280)
    if out.returncode != 0:
        sys.exit(f"rails_load: {out.stderr.strip()}")
    return median(out.stdout)


def gloo(mib, reps):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = [subprocess.Popen(["/usr/bin/python3", "-c", GLOO, str(int(mib * 2**20)), str(reps)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                   "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(2)]
    texts = [rank.communicate(timeout=280)[0] for rank in ranks]
    return median(texts[0])


def row(link, mib, what, seconds, raw):
    print(f"{link:>10}  {mib:>6g} MiB  {what:<22} {seconds * 1e3:>9.2f} ms  {mib * 2**20 / seconds / 1e9:>7.3f} GB/s"
          + (f"  {raw / seconds:>5.2f} of raw" if raw else ""), flush=True)


def setup(program, reps):
    for ranks in (1, 8):
        for how in ((), ("--prove",)):
            out = subprocess.run([program, "--ranks", str(ranks), "--reps", str(reps), *how], capture_output=True,
                                 text=True, timeout=280)
            if out.returncode != 0:
                sys.exit(f"rails_setup: {out.stderr.strip()}")
            seconds = json.loads(out.stdout)
            print(f"  loopback  2 nodes x {ranks} ranks  connected, {'proven' if how else 'no proofs'}"
                  f"  {statistics.median(seconds) * 1e3:>9.2f} ms, fastest {min(seconds) * 1e3:.2f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rails_load")
    parser.add_argument("--rates", default="1gbit,5gbit")
    parser.add_argument("--mib", default="25,100")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--require", type=float, default=0)
    parser.add_argument("--gloo", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--setup")
    args = parser.parse_args()
    reason = wires.missing()
    if reason:
        print(f"skipped: {reason}")
        return 77
    if args.smoke:
        args.rates, args.mib, args.reps = "1gbit", "2", 1
    if args.setup:
        setup(args.setup, 3 if args.smoke else 21)
    worst = 9.9
    sizes = [float(mib) for mib in args.mib.split(",")]
    for rate in args.rates.split(","):
        with wires.Wires(2, None if rate == "none" else rate, switch=False) as two:
            words = [host.word for host in two.hosts]
            for mib in sizes:
                before = load(args.rails_load, words, mib, args.reps, "--raw")
                ours = load(args.rails_load, words, mib, args.reps)
                bf16 = load(args.rails_load, words, mib, args.reps, "--wire", "bf16")
                raw = (before + load(args.rails_load, words, mib, args.reps, "--raw")) / 2
                row(rate, mib, "raw TCP stream", raw, None)
                row(rate, mib, "all_reduce f32", ours, raw)
                row(rate, mib, "all_reduce, wire bf16", bf16, raw)
                worst = min(worst, raw / ours)
    if args.gloo:
        words = ["/proc/self/ns/net=127.0.0.1"] * 2
        for mib in [4 / 2**20, 0.015625, 1] + sizes:
            reps = args.reps if mib > 1 else 100
            row("loopback", mib, "all_reduce f32", load(args.rails_load, words, mib, reps), None)
            row("loopback", mib, "all_reduce, wire bf16", load(args.rails_load, words, mib, reps, "--wire", "bf16"), None)
            row("loopback", mib, "torch gloo", gloo(mib, reps), None)
    if worst < args.require:
        print(f"below {args.require} of a raw stream")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
