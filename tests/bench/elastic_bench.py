#!/usr/bin/python3
"""Measures PyTorch ranks that keep their process: what a bucket of gradients costs, and what the death of a rank costs.

  bucket   25 MiB: all_reduce, and what DistributedDataParallel adds to a backward, over the group that survives and over gloo
  kills    SIGKILL of one rank at a random moment: until each of the others is in the library's hands (parked), and until
           the first step of the whole world is done; elastic, elastic with --warm, and DDP from checkpoints under both
           launchers. A job that makes no step for three minutes, or ends, is counted as lost, and another one takes its place.
With the newest PyTorch: tests/support/todays_torch run /usr/bin/python3 tests/bench/elastic_bench.py …
Usage: elastic_bench.py --cxxrun PROGRAM --library LIBCXXRUN_C [--ranks 4] [--kills 15] [--only bucket|kills]
       [--warm-modules torch] [--smoke]
Exit code 1: a bar of docs/evidence/performance.md is missed; 77: there is no torch."""
import argparse
import collections
import importlib.util
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from torchrun import TORCHRUN  # noqa: E402

PYTHON = "/usr/bin/python3"
GUARD_S = 180
HEIR_S = 10  # until a warm Python that nobody calls has imported all that it will (docs/use/warm.md)
MIB = 1 << 20
WAYS = {"own": "DDP", "view": "DDP, gradient_as_bucket_view", "idle": "DDP's own copying"}


# ---- in the ranks

def tell(what, generation):
    line = f"{what} {os.environ['RANK']} {os.getpid()} {generation} {time.clock_gettime(time.CLOCK_MONOTONIC):.6f}\n"
    with open(os.environ["CXXRUN_BENCH"], "a") as file:
        file.write(line)


def small_model(torch):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64))


def train_elastic():
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from cxxrun import _lib
    from cxxrun.torch import Elastic
    rebuild = _lib.Communicator.rebuild

    def told(comm):
        tell("parked", comm.facts().generation)
        rebuild(comm)

    _lib.Communicator.rebuild = told
    job = Elastic()
    model = small_model(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    job.track(model=model, optimizer=optimizer)
    ddp = job.wrap(lambda: DistributedDataParallel(model))
    seen = 0
    while job.running(1 << 30):
        with job.step():
            optimizer.zero_grad(set_to_none=True)
            ddp(torch.randn(16, 64)).square().sum().backward()
            optimizer.step()
        if job.generation != seen:
            seen = job.generation
            tell("stepped", seen)


def train_from_checkpoints():
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    model, saved = small_model(torch), os.environ["CXXRUN_BENCH"] + ".pt"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if os.path.exists(saved):
        model.load_state_dict(torch.load(saved))
    ddp = DistributedDataParallel(model)
    told = False
    while True:
        optimizer.zero_grad(set_to_none=True)
        ddp(torch.randn(16, 64)).square().sum().backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), saved + ".new")
            os.replace(saved + ".new", saved)
        if not told:
            told = True
            tell("stepped", int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1)


def measure_bucket(is_elastic, size, repeats, way):
    """Milliseconds, on rank 0's standard output. `idle`: nothing is reduced."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(size // 4))

        def forward(self, x):
            return (self.weight * x).sum()

    def nothing(_, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    def made():
        ddp = DistributedDataParallel(model, **how)
        if way == "idle":
            ddp.register_comm_hook(None, nothing)
        return ddp

    torch.set_num_threads(1)
    model, how = Flat(), {"bucket_cap_mb": 1024, "gradient_as_bucket_view": way == "view"}
    if is_elastic:
        from cxxrun.torch import Elastic
        job = Elastic()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        job.track(model=model, optimizer=optimizer)
        ddp = job.wrap(made)
        assert job.running(1)
    else:
        dist.init_process_group("gloo")
        ddp = made()

    def timed(action):
        dist.barrier()
        begin = time.perf_counter()
        action()
        return (time.perf_counter() - begin) * 1e3

    def backward():
        loss = ddp(torch.ones(1))
        return timed(loss.backward)

    def alone():
        with ddp.no_sync():
            return backward()

    tensor = torch.ones(size // 4)
    reduced, without, together = [], [], []
    for _ in range(repeats + 3):
        reduced.append(timed(lambda: dist.all_reduce(tensor)))
        without.append(alone())
        together.append(backward())
        model.zero_grad(set_to_none=False)
    if dist.get_rank() == 0:
        medians = [statistics.median(times[3:]) for times in (reduced, without, together)]
        print(json.dumps({"all_reduce": medians[0], "ddp": medians[2] - medians[1]}), flush=True)
    dist.barrier()
    if is_elastic:
        job.close()


# ---- around them

def environment(folder, library):
    env = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM_", "PET_", "CXXRUN_"))}
    return {**env, "CXXRUN_BENCH": folder + "/said", "OMP_NUM_THREADS": "1", "TMPDIR": folder, "PYTHON_EXEC": PYTHON,
            "PYTHONPATH": os.path.join(ROOT, "src/runtime/python"), "CXXRUN_LIBRARY": os.path.abspath(library),
            "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": "", "USE_LIBUV": "0"}


class Lost(RuntimeError):
    pass


class Job:
    def __init__(self, folder, command, library):
        self.folder, self.lines = folder, []
        open(folder + "/said", "w").close()
        with open(folder + "/output", "wb") as output:
            self.process = subprocess.Popen(command, env=environment(folder, library), stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output)

    def told(self, what, count, since, until=None):
        """The first generation from `since` on in which that many ranks have told it, and {rank: (pid, when)}: torchrun may
        need more than one, when its ranks call one that has died."""
        end = time.monotonic() + GUARD_S
        while time.monotonic() < end and self.process.poll() is None:
            with open(self.folder + "/said") as file:
                lines = [line.split() for line in file if line.endswith("\n")]
            found = collections.defaultdict(dict)
            for word, rank, pid, number, when in lines:
                if word == what and int(number) >= since and (until is None or int(number) <= until):
                    found[int(number)][int(rank)] = int(pid), float(when)
            for number in sorted(found):
                if len(found[number]) >= count:
                    return number, found[number]
            time.sleep(0.002)
        with open(self.folder + "/output", errors="replace") as output:
            raise Lost(f"the job does not go on:\n{output.read()[-2000:]}")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def kill_ranks(command, ranks, kills, library, rng, is_elastic):
    """Milliseconds until each survivor was parked, and until the next step; how many processes were kept, at least; and
    how many jobs were lost."""
    parked, stepped, kept, lost = [], [], ranks, 0
    while len(stepped) + lost < kills:
        with tempfile.TemporaryDirectory() as folder:
            job = Job(folder, command, library)
            try:
                generation, there = job.told("stepped", ranks, 1)
                time.sleep(HEIR_S if any(word.startswith("--warm") for word in command) else 0)
                while len(stepped) + lost < kills:
                    time.sleep(rng.uniform(0.2, 0.5))  # somewhere in a step
                    victim = rng.choice(list(there))
                    killed = time.clock_gettime(time.CLOCK_MONOTONIC)
                    os.kill(there[victim][0], signal.SIGKILL)
                    after, again = job.told("stepped", ranks, generation + 1)
                    stepped.append((max(when for _, when in again.values()) - killed) * 1e3)
                    kept = min(kept, len({pid for pid, _ in there.values()} & {pid for pid, _ in again.values()}))
                    if is_elastic:
                        _, those = job.told("parked", ranks - 1, generation, generation)
                        parked += [(when - killed) * 1e3 for _, when in those.values()]
                    generation, there = after, again
            except Lost:
                if is_elastic:
                    raise
                lost += 1
            finally:
                job.end()
    return parked, stepped, kept, lost


def bucket_run(given, name, words):
    """What rank 0 has measured, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run([given.cxxrun, "--standalone", f"--nproc-per-node={given.ranks}", "--log-level=error",
                               "--log-line-prefix-template=", __file__, "bucket", name, *words],
                              env=environment(folder, given.library), stdout=subprocess.PIPE, check=True, text=True,
                              timeout=GUARD_S).stdout
        return json.loads(said[said.index("{"):])


def bench_bucket(given):
    """How many times as long gloo takes, of each way."""
    figures, size = {}, 1 if given.smoke else 25
    for _ in range(1 if given.smoke else 3):
        for way, name in itertools.product(WAYS, ("elastic", "gloo")):
            if (way, name) != ("idle", "elastic"):
                run = bucket_run(given, name, [str(size * MIB), "3" if given.smoke else "20", way])
                for what, how_long in ((WAYS[way], run["ddp"]), ("all_reduce", run["all_reduce"])):
                    figures.setdefault(what, {}).setdefault(name, []).append(how_long)
    (idle,) = figures.pop(WAYS["idle"]).values()
    print(f"| {WAYS['idle']}, {size} MiB, {given.ranks} ranks | {statistics.median(idle):.2f} ms ({min(idle):.2f} to "
          f"{max(idle):.2f}) | | |", flush=True)
    shares = {}
    for what, its in figures.items():
        ours, theirs = statistics.median(its["elastic"]), statistics.median(its["gloo"])
        shares[what] = theirs / ours
        print(f"| {what}, {size} MiB, {given.ranks} ranks | {ours:.2f} ms ({min(its['elastic']):.2f} to "
              f"{max(its['elastic']):.2f}) | gloo {theirs:.2f} ms ({min(its['gloo']):.2f} to {max(its['gloo']):.2f}) | "
              f"{shares[what]:.1f} |", flush=True)
    return shares


def bench_kills(given):
    cxxrun = [given.cxxrun, "--standalone", f"--nproc-per-node={given.ranks}", "--max-restarts=1000", "--restart-delay=0"]
    torchrun = [PYTHON, "-c", TORCHRUN, "--standalone", "--monitor_interval=0.1", f"--nproc_per_node={given.ranks}",
                "--max_restarts=1000"]
    contenders = {"elastic": [*cxxrun, __file__, "elastic"],
                  "elastic, --warm": [*cxxrun, "--warm=" + given.warm_modules, __file__, "elastic"],
                  "cxxrun, checkpoints": [*cxxrun, __file__, "checkpoints"],
                  "torchrun, checkpoints": [*torchrun, __file__, "checkpoints"]}
    rng, figures = random.Random(1), {}
    print("| | parked, ms: median | p99 | next step, ms: median | least to most | processes kept | jobs lost |\n"
          "|---|---|---|---|---|---|---|")
    for name, command in contenders.items():
        is_elastic = name.startswith("elastic")
        kills = 2 if given.smoke else given.kills if is_elastic else max(3, given.kills // 5)
        if given.smoke and not is_elastic:
            continue
        parked, stepped, kept, lost = kill_ranks(command, given.ranks, kills, given.library, rng, is_elastic)
        parked.sort()
        late = parked[min(len(parked) - 1, int(len(parked) * 0.99))] if parked else 0.0
        middle = statistics.median(stepped) if stepped else 0.0
        figures[name] = statistics.median(parked) if parked else 0.0, late, middle
        waits = f"{figures[name][0]:.1f} | {late:.1f}" if parked else "- | -"
        steps = f"{middle:.0f} | {min(stepped):.0f} to {max(stepped):.0f}" if stepped else "- | -"
        print(f"| {name} | {waits} | {steps} | {kept} of {given.ranks - 1} | {lost} |", flush=True)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cxxrun", default=os.path.join(ROOT, "build/release/bin/cxxrun"))
    parser.add_argument("--library", default=os.path.join(ROOT, "build/release/lib/libcxxrun_c.so.0"))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--only", choices=("bucket", "kills"))
    parser.add_argument("--warm-modules", default="torch,torch.distributed")
    parser.add_argument("--smoke", action="store_true", help="a small bucket, few kills, no bars: does it measure at all?")
    given = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("skipped: there is no torch (Debian: python3-torch)")
        sys.exit(77)
    shares = {} if given.only == "kills" else bench_bucket(given)
    kills = {} if given.only == "bucket" else bench_kills(given)
    if given.smoke:
        return
    bars = [(f"{what}: a bucket in a fifth of the time on gloo", shares[what] >= 5) for what in (WAYS["own"], WAYS["view"]) if shares]
    if kills:
        bars += kill_bars(kills)
    for what, is_kept in bars:
        print(("kept:   " if is_kept else "MISSED: ") + what)
    sys.exit(0 if all(is_kept for _, is_kept in bars) else 1)


def kill_bars(kills):
    begin = time.monotonic()
    subprocess.run([PYTHON, "-c", "import torch, torch.distributed"], check=True)
    imported = (time.monotonic() - begin) * 1e3
    return [("parked within 50 ms", kills["elastic"][0] <= 50), ("99 of 100 parked within 500 ms", kills["elastic"][1] <= 500),
            ("the next step within 500 ms with --warm", kills["elastic, --warm"][2] <= 500),
            (f"within import ({imported:.0f} ms) + 300 ms without", kills["elastic"][2] <= imported + 300)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["bucket"]:
        measure_bucket(sys.argv[2] == "elastic", int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["elastic"]:
        train_elastic()
    elif sys.argv[1:2] == ["checkpoints"]:
        train_from_checkpoints()
    else:
        main()
