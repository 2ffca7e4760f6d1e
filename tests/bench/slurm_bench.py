#!/usr/bin/python3
"""Measures what cxxrun adds to srun on a real Slurm cluster of namespaces on this machine.

    slurm_bench.py BUILD_DIR [--nodes 4,16] [--reps 15]

For each size, in turn: `srun -NN true`, `srun -NN cxxrun true` (difference of the medians), and a job whose agents and
workers stamp their first instruction (last worker minus last agent), and `srun -NN cxxrun --doctor`. Targets are in
docs/evidence/performance.md. All nodes are on one machine: what the network costs is missing, what the nodes do at the
same time they do one after the other.
Exit code 0: measured (met or not); 77: no cluster can run here; 2: usage.
"""
import argparse
import os
import shutil
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "slurm"))

from cluster import LOGIN, PATH, Cluster, why_not

TARGETS = {4: 60, 16: 250}  # ms over srun alone
FIRST_INSTRUCTION = 150  # ms after the last agent, 16 nodes
DOCTOR = 3000  # ms, 16 nodes


def srun(cluster, *argv, codes=(0,)):
    """Milliseconds."""
    began = time.monotonic_ns()
    done = cluster.run(LOGIN, ["srun", *argv], cwd=cluster.base, env={"PATH": f"{cluster.base}/bin:{PATH}"})
    if done.code not in codes:
        sys.exit(f"srun {' '.join(argv)} ended with {done.code}:\n{done.err}")
    return (time.monotonic_ns() - began) / 1e6


def last(path, kind):
    with open(path) as file:
        return max(int(line.split()[1]) for line in file if line.startswith(kind + " "))


def to_first_instruction(cluster, nodes, number):
    """Milliseconds from the last agent's start to the last worker's first instruction."""
    stamps = os.path.join(cluster.base, f"stamps{number}")
    open(stamps, "w").close()
    srun(cluster, f"-N{nodes}", "bench_stamp_exec", stamps, "cxxrun", "bench_stamp_worker", stamps, "0")
    return (last(stamps, "start") - last(stamps, "begin")) / 1e6


def middle(values):
    return f"{statistics.median(values):7.1f} ({min(values):.1f} to {max(values):.1f})"


def measure(build, nodes, repeats):
    cluster = Cluster(nodes=nodes, gpus=0)
    try:
        cluster.up()
        os.makedirs(cluster.base + "/bin")
        for program in ("bin/cxxrun", "tests/bench_stamp_exec", "tests/bench_stamp_worker"):
            shutil.copy(os.path.join(build, program), cluster.base + "/bin")
        plain, launched, first, doctor = [], [], [], []
        for number in range(-2, repeats):  # two rounds to warm up
            rounds = (srun(cluster, f"-N{nodes}", "true"), srun(cluster, f"-N{nodes}", "cxxrun", "true"),
                      to_first_instruction(cluster, nodes, number),
                      srun(cluster, f"-N{nodes}", "cxxrun", "--doctor", codes=(0, 1)))  # 1: it has found something
            if number >= 0:
                for values, value in zip((plain, launched, first, doctor), rounds):
                    values.append(value)
    finally:
        cluster.down()
    added = statistics.median(launched) - statistics.median(plain)
    target = f"  [target {TARGETS[nodes]}]" if nodes in TARGETS else ""
    print(f"{nodes} nodes, ms, median (least to most) of {repeats}")
    print(f"  srun true                                 {middle(plain)}")
    print(f"  srun cxxrun true                          {middle(launched)}")
    print(f"  cxxrun adds                               {added:7.1f}{target}")
    print(f"  last agent to last worker's instruction   {middle(first)}"
          + (f"  [target {FIRST_INSTRUCTION}]" if nodes == 16 else ""))
    print(f"  srun cxxrun --doctor                      {middle(doctor)}"
          + (f"  [target {DOCTOR}]" if nodes == 16 else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--nodes", default="4,16")
    parser.add_argument("--reps", type=int, default=15)
    options = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"skipped: no Slurm cluster here: {reason}")
        sys.exit(77)
    for nodes in options.nodes.split(","):
        measure(os.path.abspath(options.build), int(nodes), options.reps)


if __name__ == "__main__":
    main()
