#!/usr/bin/python3
"""Measures what cxxrun adds to srun on a real Slurm cluster of namespaces on this machine.

    slurm_bench.py BUILD_DIR [--nodes 4,16] [--reps 15]

For each size, in turn: `srun -NN true`, `srun -NN cxxrun true` (difference of the medians), and a job whose agents and
workers stamp their first instruction (last worker minus last agent), and `srun -NN cxxrun --doctor`. Targets are in
docs/evidence/performance.md. All nodes are on one machine: what the network costs is missing, what the nodes do at the
same time they do one after the other.
Exit code 1: a target is missed, which fewer than 5 repetitions do not show; 77: no cluster can run here; 2: usage.
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

ADDS, FIRST_INSTRUCTION, DOCTOR = "cxxrun adds", "last agent to last worker's instruction", "srun cxxrun --doctor"
TARGETS = {(4, ADDS): 60, (16, ADDS): 250, (16, FIRST_INSTRUCTION): 150, (16, DOCTOR): 3000}  # (nodes, what) → ms
FEW = 5  # repetitions


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


def table(nodes, samples):
    """Its lines, and how many figures miss their target. `samples`: what was measured → ms of each repetition."""
    medians = {what: statistics.median(values) for what, values in samples.items()}
    medians[ADDS] = medians["srun cxxrun true"] - medians["srun true"]
    lines = [f"{nodes} nodes, ms, median (least to most) of {len(samples['srun true'])}"]
    missed = 0
    for what in ("srun true", "srun cxxrun true", ADDS, FIRST_INSTRUCTION, DOCTOR):
        target = TARGETS.get((nodes, what))
        met = target is None or medians[what] <= target
        missed += not met
        spread = f" ({min(samples[what]):.1f} to {max(samples[what]):.1f})" if what in samples else ""
        verdict = "" if target is None else f"  [target {target}: {'met' if met else 'not met'}]"
        lines.append(f"  {what:41} {medians[what]:7.1f}{spread}{verdict}")
    return lines, missed


def code(missed, repeats):
    return 1 if missed and repeats >= FEW else 0


def self_test():
    """Whether a median that is over its target is told, and no other one, nor one of few repetitions."""
    sound = {"srun true": [100] * 3, "srun cxxrun true": [340, 350, 900], FIRST_INSTRUCTION: [150], DOCTOR: [3000]}
    slow = {**sound, "srun cxxrun true": [340, 351, 900], DOCTOR: [1, 3001, 3001]}
    told = [line for line in table(16, slow)[0] if "not met" in line]
    return (table(16, sound)[1], table(16, slow)[1], len(told), table(2, slow)[1]) == (0, 2, 2, 0) and \
        [code(0, 15), code(1, 15), code(1, 1)] == [0, 1, 0]


def measure(build, nodes, repeats):
    """How many figures miss their target."""
    cluster = Cluster(nodes=nodes, gpus=0)
    samples = {}
    try:
        cluster.up()
        os.makedirs(cluster.base + "/bin")
        for program in ("bin/cxxrun", "tests/bench_stamp_exec", "tests/bench_stamp_worker"):
            shutil.copy(os.path.join(build, program), cluster.base + "/bin")
        for number in range(-2, repeats):  # two rounds to warm up
            measured = {"srun true": srun(cluster, f"-N{nodes}", "true"),
                        "srun cxxrun true": srun(cluster, f"-N{nodes}", "cxxrun", "true"),
                        FIRST_INSTRUCTION: to_first_instruction(cluster, nodes, number),
                        # 1: it has found something
                        DOCTOR: srun(cluster, f"-N{nodes}", "cxxrun", "--doctor", codes=(0, 1))}
            for what, ms in measured.items() if number >= 0 else ():
                samples.setdefault(what, []).append(ms)
    finally:
        cluster.down()
    lines, missed = table(nodes, samples)
    print(*lines, sep="\n", flush=True)
    return missed


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
    build = os.path.abspath(options.build)
    missed = sum(measure(build, int(nodes), options.reps) for nodes in options.nodes.split(","))
    sys.exit(code(missed, options.reps))


if __name__ == "__main__":
    if not self_test():
        sys.exit("slurm_bench: the self-test found something else: the verdict is broken")
    main()
