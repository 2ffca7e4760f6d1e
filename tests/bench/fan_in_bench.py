#!/usr/bin/python3
"""What workers at the first node's store cost, and what they would cost behind their agents (docs/design/fan_in.md).

    fan_in_bench.py BUILD_DIR [--crowds 1000x8,10000x8] [--direct 125x8,500x8,1000x8,1240x8] [--repeat 3] [--idle 3]

Today's path is measured with the real cxxrun-store, the other one with a model (fan_in_model.cpp). Prints tables for
that page. Exit code 1 when a figure is missing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

GUARD = 300  # seconds; against hanging only
MODES = {"direct": "direct", "single": "fan-in, a frame per request", "batch": "fan-in, batched",
         "one": "fan-in, asked once per agent"}


class Served:
    """A program that prints the port on which it listens."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def once(programs, mode, agents, workers, idle, value=128):
    served = [programs["store"], "--port", "0"] if mode == "direct" else [programs["model"], "host"]
    with Served(*served) as store:
        how = "batch" if mode == "one" else mode
        count = "1" if mode == "one" else str(workers)
        return output_of(programs["crowd"], store.port, how, str(agents), count, str(idle), str(store.process.pid),
                         str(value))


def spread(values):
    return min(values), statistics.median(values), max(values)


def row(name, agents, workers, connections, samples):
    everyone = agents * workers

    def middle(figure):
        return statistics.median(sample[figure] for sample in samples)

    cells = [f"{agents} × {workers}", name, f"{connections}",
             " / ".join(f"{value:.2f}" for value in spread([sample["start_s"] for sample in samples])),
             f"{middle('cpu_s'):.2f}", f"{1e6 * middle('cpu_s') / everyone:.1f}",
             f"{middle('bytes_per_worker'):.0f}", f"{middle('rss_kb') / everyone:.2f}",
             f"{middle('slab_kb') / connections / 2:.1f}", f"{100 * middle('idle_cpu'):.1f} %"]
    print("| " + " | ".join(cells) + " |", flush=True)


def starts(programs, options):
    print("| agents × workers | path | connections | start, s | processor time of the store, s | of it each worker, µs "
          "| bytes of each asker | memory of the store per worker, KB | of the kernel per connection, KB "
          "| a CHECK per worker and second, of one processor |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    crowds = [("direct", crowd) for crowd in options.direct.split(",")]
    crowds += [(mode, crowd) for crowd in options.crowds.split(",") for mode in ("single", "batch", "one")]
    for mode, crowd in crowds:
        agents, workers = map(int, crowd.split("x"))
        samples = [once(programs, mode, agents, workers, options.idle) for _ in range(options.repeat)]
        row(MODES[mode], agents, workers, agents * workers if mode == "direct" else agents, samples)


def to_everybody(programs, options):
    """Rank 0 writes one value as long as libcxxrun's list of all ranks, and everybody reads it."""
    agents, workers = map(int, options.value_crowd.split("x"))
    size = 320 * agents * workers
    print(f"\n| {size} B that all of {agents} × {workers} workers read | start, s | processor time of the store, s "
          "| memory of the store, MB |")
    print("|---|---|---|---|")
    for mode in ("direct", "batch", "one"):
        sample = once(programs, mode, agents, workers, 0, size)
        print(f"| {MODES[mode]} | {sample['start_s']:.2f} | {sample['cpu_s']:.2f} | {sample['rss_kb'] / 1024:.0f} |",
              flush=True)


def hops(programs, options):
    """A GET of 64 bytes, straight to the store and through an agent of the model; the paths take turns."""
    with Served(programs["store"], "--port", "0") as store, Served(programs["model"], "host") as host, \
            Served(programs["model"], "agent", host.port) as agent:
        print("\n| GET of 64 B over loopback, µs (median, least of the repeats) | direct | through an agent |\n|---|---|---|")
        for connections in ("1", "8"):
            figures = {store.port: [], agent.port: []}
            for _ in range(options.repeat):
                for port, found in figures.items():
                    found.append(output_of(programs["load"], port, "get", connections, str(options.seconds))["p50_us"])
            print(f"| {connections} at once | " + " | ".join(f"{min(found):.1f}" for found in figures.values()) + " |")


def seals(programs):
    figures = output_of(programs["model"], "seal")
    sizes = list(figures["as it is"])
    print("\n| sealing and opening a frame, µs | " + " | ".join(f"{size} B" for size in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for name, values in figures.items():
        print(f"| {name} | " + " | ".join(f"{values[size]:g}" for size in sizes) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--crowds", default="1000x8,10000x8", help="agents x workers behind agents")
    parser.add_argument("--direct", default="125x8,500x8,1000x8,1240x8", help="the same without agents between")
    parser.add_argument("--value-crowd", default="250x8", help="agents x workers who read one long value")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--idle", type=float, default=3, help="seconds of CHECKs")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each GET load")
    parser.add_argument("--realtime", action="store_true",
                        help="run everything with SCHED_RR, above whatever else the machine does (needs CAP_SYS_NICE)")
    parser.add_argument("--smoke", action="store_true", help="small and once: do figures come out?")
    options = parser.parse_args()
    if options.smoke:
        options.crowds = options.direct = options.value_crowd = "20x4"
        options.repeat, options.idle, options.seconds = 1, 0.1, 0.1
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    tests = os.path.join(options.build, "tests")
    programs = {"store": os.path.join(options.build, "bin", "cxxrun-store"), "load": os.path.join(tests, "store_load"),
                "model": os.path.join(tests, "fan_in_model"), "crowd": os.path.join(tests, "fan_in_crowd")}
    starts(programs, options)
    to_everybody(programs, options)
    hops(programs, options)
    seals(programs)


if __name__ == "__main__":
    main()
