#!/usr/bin/python3
"""What gradient synchronisation adds to the backward of an MLP: TorchGradients in C++, and torch's own
DistributedDataParallel over gloo, with the same libtorch, the same layers and one thread per rank.

In each run a backward with synchronisation follows one without; runs of both take turns. Usage:
  torch_bench.py --cxxrun build/release/bin/cxxrun --worker build/release/tests/torch_bench [--ranks 2] [--layers 6]
                 [--width 1024] [--batch 64] [--steps 20] [--repeats 3] [--smoke]
"""
import argparse
import json
import statistics
import sys
import time

from sync_bench import has_torch, run_job


def torch_rank(layers, width, batch, steps):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = DistributedDataParallel(torch.nn.Sequential(*parts), gradient_as_bucket_view=True)
    given = torch.randn(batch, width)

    def step():
        model.zero_grad(set_to_none=False)
        loss = model(given).sum()
        dist.barrier()
        begin = time.perf_counter()
        loss.backward()
        return (time.perf_counter() - begin) * 1e3

    alone, together = [], []
    for _ in range(steps + 3):
        with model.no_sync():
            alone.append(step())
        together.append(step())
    if dist.get_rank() == 0:
        alone, together = alone[3:], together[3:]
        print(json.dumps({"backward_ms": statistics.median(alone), "step_ms": statistics.median(together),
                          "fastest_backward_ms": min(alone), "fastest_step_ms": min(together)}), flush=True)
    dist.barrier()
    del model  # before its group: where gloo ends with the last DistributedDataParallel, torch 1.13 may hang
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cxxrun", required=True)
    parser.add_argument("--worker", required=True)
    shape = {"layers": 6, "width": 1024, "batch": 64, "steps": 20}
    for name, value in {"ranks": 2, "repeats": 3, **shape}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--smoke", action="store_true", help="only whether figures come out")
    options = parser.parse_args()
    if options.smoke:
        options.layers, options.width, options.steps, options.repeats = 2, 64, 3, 1
    numbers = [getattr(options, name) for name in shape]
    with_torch = has_torch() and not options.smoke
    ours, theirs = [], []
    for _ in range(options.repeats):
        ours.append(run_job(options, [options.worker], numbers))
        if with_torch:
            theirs.append(run_job(options, ["/usr/bin/python3", __file__, "torch-rank"], numbers))
    mib = options.layers * (options.width + 1) * options.width / (1 << 18)
    print(f"{options.ranks} ranks, {options.layers} layers of {options.width}, {mib:.0f} MiB of gradients, batch "
          f"{options.batch}; median (min - max) of {options.repeats}")
    for name, results in (("cxxrun", ours), ("torch DDP, gloo", theirs)):
        if results:
            over = sorted(result["step_ms"] - result["backward_ms"] for result in results)
            alone = statistics.median(result["backward_ms"] for result in results)
            fastest = (min(result["fastest_step_ms"] for result in results) -
                       min(result["fastest_backward_ms"] for result in results))
            print(f"  {name:16} step takes {statistics.median(over):.2f} ms ({over[0]:.2f} - {over[-1]:.2f}) "
                  f"longer than its backward alone ({alone:.2f} ms); the fastest of all {fastest:.2f} ms")
    print(f"  cxxrun: {statistics.median(result['exposed_ms'] for result in ours):g} ms that wait() blocks")
    assert all(result["copied"] == 0 for result in ours), "gradients were copied"


if __name__ == "__main__":
    if sys.argv[1:2] == ["torch-rank"]:
        torch_rank(*map(int, sys.argv[2:]))
    else:
        main()
