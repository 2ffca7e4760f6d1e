"""Each collective of torch's, on tensors of whose results all elements are known."""
import time

import torch

import torch.distributed as dist

TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")


def checks(device):
    """{name: (what makes tensors, the values that they must have)}. Makes a group: every rank calls it."""
    me, world = dist.get_rank(), dist.get_world_size()
    ranks, total = range(world), sum(range(1, world + 1))
    try:
        group, refused = dist.new_group(list(ranks)), None
    except RuntimeError as error:
        group, refused = None, error
    gather = getattr(dist, "all_gather_into_tensor", dist._all_gather_base)
    scatter = getattr(dist, "reduce_scatter_tensor", dist._reduce_scatter_base)
    ramp = torch.arange(2.0 * world, device=device)

    def on(*values, dtype=torch.float32):
        return torch.tensor(values, dtype=dtype, device=device)

    def zeros(*shape):
        return torch.zeros(*shape, device=device)

    def reduced(dtype=torch.float32, op=dist.ReduceOp.SUM, **more):
        x = on(me + 1, 5, dtype=dtype)
        work = dist.all_reduce(x, op=op, **more)
        if work is not None:
            work.wait()
        return x

    def after(call, out):
        call(out)
        return out

    def two_groups():
        """In turn, without a wait of the host's."""
        if refused is not None:
            raise refused
        x, y = on(me + 1.0), on(2.0 * me + 1)
        for _ in range(20):
            works = [dist.all_reduce(x, async_op=True), dist.all_reduce(y, group=group, async_op=True)]
            for work in works:
                work.wait()
            x, y = x / world, y / world
        return [x, y]

    def objects():
        found = [None] * world
        dist.all_gather_object(found, {"rank": me})
        return on(*[each["rank"] for each in found])

    sums = {f"sum of {name}": (lambda name=name: reduced(getattr(torch, name)), [total, 5 * world]) for name in TYPES}
    return {
        **sums,
        "average": (lambda: reduced(op=dist.ReduceOp.AVG), [total / world, 5]),
        "async sum": (lambda: reduced(async_op=True), [total, 5 * world]),
        "max of int32": (lambda: reduced(torch.int32, dist.ReduceOp.MAX), [world, 5]),
        "max": (lambda: reduced(op=dist.ReduceOp.MAX), [world, 5]),
        "min": (lambda: reduced(op=dist.ReduceOp.MIN), [1, 5]),
        "broadcast": (lambda: after(lambda x: dist.broadcast(x, world - 1), on(me, 7)), [world - 1, 7]),
        "broadcast of int16": (lambda: after(lambda x: dist.broadcast(x, 0), on(me, 7, dtype=torch.int16)), [0, 7]),
        "all_gather": (lambda: after(lambda out: dist.all_gather(out, on(me, 3)), [zeros(2) for _ in ranks]),
                       [[rank, 3] for rank in ranks]),
        "all_gather_into_tensor": (lambda: after(lambda out: gather(out, on(me)), zeros(world)), list(ranks)),
        "reduce_scatter_tensor": (lambda: after(lambda out: scatter(out, ramp), zeros(2)),
                                  [2 * me * world, (2 * me + 1) * world]),
        "all_to_all_single": (lambda: after(lambda out: dist.all_to_all_single(out, ramp[:world] + 10 * me), zeros(world)),
                              [me + 10 * rank for rank in ranks]),
        "reduce": (lambda: after(lambda x: dist.reduce(x, 0), on(me + 1)), [total if me == 0 else me + 1]),
        "scatter": (lambda: after(lambda out: dist.scatter(out, [on(rank) for rank in ranks] if me == 0 else None), zeros(1)),
                    [me]),
        "objects": (objects, list(ranks)),
        "two groups in turn": (two_groups, [[total / world], [sum(2.0 * rank + 1 for rank in ranks) / world]]),
        "barrier": (lambda: after(lambda _: dist.barrier(), on(1)), [1]),
    }


def check(its, where, wrong):
    for name, (make, wanted) in its.items():
        try:
            got = make()
            got = [each.tolist() for each in got] if isinstance(got, list) else got.tolist()
            if got != wanted:
                wrong.append(f"{name} {where}: {got}, not {wanted}")
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            wrong.append(f"{name} {where}: {type(error).__name__}: {str(error)[:150]}")


def check_stream(wrong):
    """A call on a stream of its own, behind a kernel of 50 ms or so."""
    me, world, stream = dist.get_rank(), dist.get_world_size(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x = torch.full((1 << 20,), me + 1.0, device="cuda")
        at = time.perf_counter()
        dist.all_reduce(x)
        took = time.perf_counter() - at
        x *= 2
    stream.synchronize()
    if [x.min().item(), x.max().item()] != [world * (world + 1.0)] * 2:
        wrong.append(f"a stream of one's own: {x.min().item()} to {x.max().item()}")
    print(f"behind a kernel of 50 ms all_reduce kept the host for {1e3 * took:.2f} ms", flush=True)
