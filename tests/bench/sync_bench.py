#!/usr/bin/python3
"""Gradient synchronisation beside a simulated backward: cxxrun's synchronizer and torch's DistributedDataParallel (gloo).

The backward writes each gradient and sleeps for the rest of its time, so what a step takes longer than the backward
alone is what synchronisation exposes. Repeats of both are interleaved. Usage:
  sync_bench.py --cxxrun build/release/bin/cxxrun --worker build/release/tests/sync_bench [--ranks 2] [--mib 100]
                [--parameters 100] [--backward-ms 100] [--steps 20] [--repeats 3] [--smoke]
"""
import argparse
import json
import statistics
import subprocess
import sys
import time


def torch_rank(mib, number, backward_ms, steps):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    count = (mib << 18) // number
    clock = {"begin": 0.0, "left": 0}

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            clock["left"] -= 1
            gradient = torch.ones(count)
            due = clock["begin"] + backward_ms / 1e3 * (number - clock["left"]) / number
            time.sleep(max(0.0, due - time.perf_counter()))
            return grad, gradient

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(count)) for _ in range(number)])

        def forward(self, x):
            for weight in self.weights:
                x = Layer.apply(x, weight)
            return x.sum()

    plain = Model()
    model = DistributedDataParallel(plain, gradient_as_bucket_view=True)

    def step(module):
        loss = module(torch.ones(1, requires_grad=True))
        dist.barrier()
        clock["begin"], clock["left"] = time.perf_counter(), number
        loss.backward()
        return (time.perf_counter() - clock["begin"]) * 1e3

    for _ in range(3):
        step(model)
    alone, together = [], []
    for _ in range(steps):
        with model.no_sync():
            alone.append(step(model))
        together.append(step(model))
    if dist.get_rank() == 0:
        print(json.dumps({"backward_ms": statistics.median(alone), "step_ms": statistics.median(together)}), flush=True)
    dist.barrier()
    del model  # before its group: where gloo ends with the last DistributedDataParallel, torch 1.13 may hang
    dist.destroy_process_group()


def run_job(options, command, numbers):
    """What rank 0 printed as JSON."""
    job = [options.cxxrun, "--standalone", f"--nproc-per-node={options.ranks}", "--no-python", *command]
    job += map(str, numbers)
    done = subprocess.run(job, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    lines = [line[line.index("{"):] for line in done.stdout.splitlines() if "{" in line]
    if done.returncode != 0 or len(lines) != 1:
        sys.exit(f"{' '.join(job)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(lines[0])


def has_torch():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], stderr=subprocess.DEVNULL).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cxxrun", required=True)
    parser.add_argument("--worker", required=True)
    for name, value in {"ranks": 2, "mib": 100, "parameters": 100, "backward-ms": 100, "steps": 20, "repeats": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--smoke", action="store_true", help="only whether figures come out")
    options = parser.parse_args()
    if options.smoke:
        options.mib, options.parameters, options.backward_ms, options.steps, options.repeats = 2, 10, 5, 3, 1
    numbers = (options.mib, options.parameters, options.backward_ms, options.steps)
    ours, theirs = [], []
    with_torch = has_torch() and not options.smoke
    for _ in range(options.repeats):
        ours.append(run_job(options, [options.worker], numbers))
        if with_torch:
            theirs.append(run_job(options, ["/usr/bin/python3", __file__, "torch-rank"], numbers))
    print(f"{options.ranks} ranks, {options.mib} MiB in {options.parameters} gradients, backward {options.backward_ms} ms; "
          f"median (min - max) of {options.repeats}")
    for name, results in (("cxxrun", ours), ("torch DDP, gloo", theirs)):
        if results:
            over = sorted(result["step_ms"] - result["backward_ms"] for result in results)
            print(f"  {name:16} step takes {statistics.median(over):.2f} ms ({over[0]:.2f} - {over[-1]:.2f}) "
                  "longer than its backward alone")
    for key, unit in (("exposed_ms", "ms that wait() blocks"), ("mark_ns", "ns per mark_ready"),
                      ("allocations", f"allocations in {options.steps} steps")):
        print(f"  cxxrun: {statistics.median(result[key] for result in ours):g} {unit}")
    assert all(result["allocations"] == 0 for result in ours), "steps allocated memory"


if __name__ == "__main__":
    if sys.argv[1:2] == ["torch-rank"]:
        torch_rank(*map(int, sys.argv[2:]))
    else:
        main()
