#!/usr/bin/python3
"""all_reduce within one node: the host backend, torch's gloo and memcpy side by side, in turns.

    all_reduce_bench.py PROGRAM [--repeat 5] [--kills 100] [--csv FILE] [--smoke]

PROGRAM is build/…/tests/all_reduce_bench. Every cell is min / median / max in microseconds of one all_reduce of f32.
arena: buffers in an Arena; private: any other memory; memcpy: every process copies as many bytes, all at once.
`x gloo` and `x memcpy` compare medians: above 1, the host backend (arena) is faster. Then: SIGKILL of a rank that holds
1 GiB until every survivor has thrown PeerFailure. --smoke: tiny, no judgement; 77 where torch is missing."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

GLOO = """
import sys, time
import torch, torch.distributed as dist
rank, ranks, size, repetitions, store = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
data = torch.ones(max(size // 4, 1))
batch = 20 if size <= 4096 else 1
for i in range(-3, repetitions):
    dist.barrier()
    begin = time.perf_counter_ns()
    for _ in range(batch):
        dist.all_reduce(data)
    if i >= 0 and rank == 0:
        print((time.perf_counter_ns() - begin) / batch / 1000, flush=True)
dist.barrier()
"""
CASES = [(ranks, size) for ranks in (2, 4) for size in (4, 1 << 20, 25 << 20, 100 << 20)]
RESIDENT = 1 << 30


def figures(text):
    return [float(line) for line in text.split()]


def ours(program, what, ranks, size, repetitions):
    command = [program, what, str(ranks), str(size), str(repetitions)]
    return figures(subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200).stdout)


def gloo(ranks, size, repetitions):
    with tempfile.TemporaryDirectory() as tmp:
        workers = [subprocess.Popen([sys.executable, "-c", GLOO, str(rank), str(ranks), str(size), str(repetitions),
                                     os.path.join(tmp, "store")], stdout=subprocess.PIPE, text=True)
                   for rank in range(ranks)]
        said = [worker.communicate(timeout=600)[0] for worker in workers]
        if any(worker.returncode for worker in workers):
            sys.exit("gloo failed")
        return figures(said[0])


def cell(values):
    return f"{min(values):.1f} / {statistics.median(values):.1f} / {max(values):.1f}"


def size_text(size):
    return f"{size} B" if size < 1024 else f"{size >> 20} MiB"


def compare(program, ranks, size, repeat, repetitions):
    """Each round measures everything once: what else the machine does meets all alike."""
    seen = {"arena": [], "private": [], "memcpy": [], "gloo": []}
    for _ in range(repeat):
        for what, values in seen.items():
            values += gloo(ranks, size, repetitions) if what == "gloo" else ours(program, what, ranks, size, repetitions)
    return seen


def percentile(values, part):
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--csv")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if subprocess.run([sys.executable, "-c", "import torch.distributed as d; d.is_gloo_available"], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: no torch with gloo")
        sys.exit(77)
    rows = []
    print(f"{'ranks':>5} {'size':>8}  {'arena':>28} {'private':>28} {'gloo':>28} {'memcpy':>28} {'x gloo':>7} {'x memcpy':>8}")
    for ranks, size in [(2, 4), (2, 1 << 20)] if options.smoke else CASES:
        seen = compare(options.program, ranks, size, 1 if options.smoke else options.repeat, 2 if options.smoke else 7)
        medians = {what: statistics.median(values) for what, values in seen.items()}
        print(f"{ranks:>5} {size_text(size):>8}  {cell(seen['arena']):>28} {cell(seen['private']):>28} "
              f"{cell(seen['gloo']):>28} {cell(seen['memcpy']):>28} {medians['gloo'] / medians['arena']:>7.1f} "
              f"{medians['memcpy'] / medians['arena']:>8.2f}", flush=True)
        rows += [(what, ranks, size, min(v), statistics.median(v), max(v)) for what, v in seen.items()]
    resident, kills = (1 << 24, 3) if options.smoke else (RESIDENT, options.kills)
    for ranks in (2, 4):
        times = ours(options.program, "kill", ranks, resident, kills)
        print(f"kill, {ranks} ranks, {kills} times, {size_text(resident)} resident: median "
              f"{statistics.median(times) / 1000:.2f} ms, p99 {percentile(times, 0.99) / 1000:.2f} ms, "
              f"max {max(times) / 1000:.2f} ms", flush=True)
        rows.append(("kill", ranks, resident, min(times), statistics.median(times), percentile(times, 0.99)))
    if options.csv:
        with open(options.csv, "w") as out:
            out.write("what,ranks,bytes,min_us,median_us,max_or_p99_us\n")
            out.writelines(",".join(map(str, row)) + "\n" for row in rows)


if __name__ == "__main__":
    main()
