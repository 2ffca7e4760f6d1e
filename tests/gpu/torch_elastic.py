"""A rank of the rows about cxxrun.torch.Elastic: torch_elastic.py DEVICE WHAT [WORD…]. DEVICE: Elastic's, cuda or none.

  start              Elastic() and three steps on the CPU
  calls              each collective, outside of a step and within one
  train STEPS WORD…  a small GPT. STEP:WHERE: there rank 1 kills itself, the n-th time in generation n; STEP counts from
                     the generation's first, WHERE is forward, backward, update (before it) or held. hold: rank 0 keeps
                     its stream busy in step 6 and goes on by itself. item: loss.item() in each step. unused, view: of DDP
  rate STEPS ROUNDS  steps/s beside a group of torch's own, in turns

Where torch has no GPU, tensors are the CPU's; device=cuda needs a stand-in that takes them for a GPU's."""
import faulthandler
import hashlib
import os
import signal
import statistics
import sys
import time
from datetime import timedelta

os.environ["NCCL_HOSTID"] = f"cxxrun-{os.getpid()}"
faulthandler.dump_traceback_later(float(os.environ.get("CXXRUN_GPU_DUMP", "1e6")))
import torch

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

import torch_calls
from cxxrun.torch import Elastic

DEVICE, WHAT, WORDS = sys.argv[1], sys.argv[2], sys.argv[3:]
ON = "cuda" if torch.cuda.is_available() and WHAT != "start" else "cpu"
VOCAB, WIDTH, LAYERS, HEADS, LENGTH, BATCH = (512, 256, 4, 4, 128, 16) if ON == "cuda" else (64, 32, 2, 2, 16, 4)
BUCKET = 8 if ON == "cuda" else 0.02  # MiB
torch.set_num_threads(1)


def elastic():
    if DEVICE == "none":
        return Elastic(seed=3)
    if ON == "cpu":
        sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jobs"))
        import elastic_claimed  # noqa: F401: it takes the CPU's tensors for a GPU's
    return Elastic(seed=3, device=DEVICE)


def synchronize():
    if ON == "cuda":
        torch.cuda.synchronize()


class Call(torch.autograd.Function):
    """In the middle of a backward pass, or at its top."""

    @staticmethod
    def forward(ctx, x, call):
        ctx.call = call
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.call()
        return gradient, None


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (each.reshape(batch, length, HEADS, -1).transpose(1, 2) for each in self.qkv(self.first(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5  # by hand, for the same bits each time
        mask = torch.ones(length, length, device=x.device, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


class Gpt(torch.nn.Module):
    def __init__(self, middle=lambda: None, top=lambda: None):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(VOCAB, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, VOCAB)
        self.register_buffer("passes", torch.zeros(1))  # a step that fails takes it back
        self.calls = middle, top

    def forward(self, x):
        self.passes += 1
        hidden = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for number, block in enumerate(self.blocks):
            hidden = block(hidden)
            if number == LAYERS // 2 - 1:
                hidden = Call.apply(hidden, self.calls[0])
        return Call.apply(self.head(hidden), self.calls[1])


def batch_of(step, rank):
    """Lines of numbers, each the last one times 5 plus 7."""
    line = [torch.randint(0, VOCAB, (BATCH,), generator=torch.Generator().manual_seed(100003 * step + rank))]
    for _ in range(LENGTH):
        line.append((5 * line[-1] + 7) % VOCAB)
    line = torch.stack(line, 1)
    return line[:, :-1].contiguous().to(ON), line[:, 1:].reshape(-1).contiguous().to(ON)


def loss_of(ddp, x, y):
    return torch.nn.functional.cross_entropy(ddp(x).flatten(0, 1), y)


def digest(module):
    state = b"".join(each.detach().cpu().numpy().tobytes() for each in module.state_dict().values())
    return hashlib.sha256(state).hexdigest()[:16]


def start():
    job = Elastic()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    job.track(model=model, optimizer=optimizer)
    ddp = job.wrap(lambda: DDP(model))
    while job.running(3):
        with job.step():
            optimizer.zero_grad()
            ddp(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    print(f"started: {job.completed} steps of {os.environ.get('WORLD_SIZE', '1')}", flush=True)


def train(steps, *words):
    steps, falls = int(steps), [word.split(":") for word in words if ":" in word]
    torch.use_deterministic_algorithms(True, warn_only=True)
    job = elastic()
    first, world, times, losses = 0, 0, [], []

    def note(*its):
        print("at", job.generation, dist.get_rank(), *its, f"{time.monotonic():.4f}", flush=True)

    def fall(where):
        for step, wanted in falls[job.generation - 1:job.generation]:
            if (dist.get_rank(), job.completed - first, where) == (1, int(step), wanted):
                if where == "held":
                    time.sleep(0.7)  # rank 0 runs ahead
                note("falls", where)
                os.kill(os.getpid(), signal.SIGKILL)

    def top():
        if "hold" in words and (job.generation, dist.get_rank(), job.completed) == (1, 0, 6):
            torch.cuda._sleep(int(1.5 * 1.8e9))
        fall("held")

    torch.manual_seed(1 if job.generation == 1 else os.getpid())  # whoever is new knows nothing of the state
    model = Gpt(lambda: fall("backward"), top).to(ON)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    job.track(model=model, optimizer=optimizer)
    ddp = job.wrap(lambda: DDP(model, gradient_as_bucket_view="view" in words, find_unused_parameters="unused" in words,
                               bucket_cap_mb=BUCKET))
    while job.running(steps):
        if job.generation != world:
            world, first = job.generation, job.completed
            note("met", os.getpid())
        before = job.completed
        with job.step():
            x, y = batch_of(before, dist.get_rank())
            fall("forward")
            loss = loss_of(ddp, x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            fall("update")
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if "item" in words:  # the host waits in the driver, as in most scripts
                mean.item()
            optimizer.step()
        if job.completed == before:
            note("noticed", before - first)
            continue
        losses.append(mean)
        if job.completed == first + 1:
            synchronize()
            note("stepped")
        times.append(time.monotonic())
    steady = [b - a for a, b in zip(times[5:], times[6:])] or [0]
    first, last = (each.item() / 2 for each in (losses[0], losses[-1]))
    print(f"end {os.getpid()} {job.completed} {digest(model)}; loss {first:.3f} to {last:.3f}, "
          f"{1e3 * statistics.median(steady):.0f} ms a step", flush=True)


def calls():
    job = elastic()
    checks, wrong = torch_calls.checks(ON), []
    torch_calls.check(checks, "outside of a step", wrong)
    model = torch.nn.Linear(4, 1).to(ON)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    job.track(model=model, optimizer=optimizer)
    while job.running(1):
        with job.step():
            torch_calls.check(checks, "in a step", wrong)
            if ON == "cuda":
                torch_calls.check_stream(wrong)
            model(torch.ones(1, 4, device=ON)).sum().backward()
            optimizer.step()
    print("wrong: " + "; ".join(wrong) if wrong else f"ok: {len(checks)} calls, outside of a step and in one", flush=True)
    sys.exit(bool(wrong))


def own_group():
    """Of torch's, beside Elastic's."""
    c10d, me, world, name = dist.distributed_c10d, dist.get_rank(), dist.get_world_size(), "nccl" if ON == "cuda" else "gloo"
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False) if me == 0 else None
    ports = [store.port if me == 0 else 0]
    dist.broadcast_object_list(ports)
    store = store or dist.TCPStore("127.0.0.1", ports[0], None, False)
    made = c10d._new_process_group_helper(world, me, list(range(world)), name, store, group_name="own",
                                          timeout=timedelta(minutes=2))
    group = made if torch.__version__.startswith("1.") else made[0]
    known = c10d._pg_group_ranks if torch.__version__.startswith("1.") else c10d._world.pg_group_ranks
    known[group] = {rank: rank for rank in range(world)}
    return name, group


def rate(steps, rounds, kind):
    job = elastic()
    world, (name, group) = dist.get_world_size(), own_group()
    x, y = batch_of(0, dist.get_rank())
    models = [Gpt().to(ON) for _ in range(2)]
    options = {"fused": True} if kind == "fused" and ON == "cuda" else {}  # torch 1.13 has no such option on a CPU
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.001, **options) for model in models]
    job.track(model=models[0], optimizer=optimizers[0])
    wrapped = job.wrap(lambda: DDP(models[0], bucket_cap_mb=BUCKET))
    own = DDP(models[1], process_group=group, bucket_cap_mb=BUCKET)

    def once(ddp, optimizer):
        loss = loss_of(ddp, x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    def in_elastic(number):
        until = job.completed + number
        while job.completed < until:
            job.running(1 << 30)
            with job.step():
                once(wrapped, optimizers[0])

    def in_own(number):
        for _ in range(number):
            once(own, optimizers[1])

    for number in range(int(rounds)):
        for arm, run in ((("elastic", in_elastic), (name, in_own)), ((name, in_own), ("elastic", in_elastic)))[number % 2]:
            run(5)
            synchronize()
            at = time.monotonic()
            run(int(steps))
            synchronize()
            if dist.get_rank() == 0:
                print(f"rate {world} {arm} {int(steps) / (time.monotonic() - at):.2f}", flush=True)
    host_cost(job)
    try:
        dist.destroy_process_group(group)
    except Exception as error:  # it is none that torch has made itself
        print(f"torch's own group is not let go: {error}", flush=True)
    job.close()


def host_cost(job):
    """Of a call of 4 KiB."""
    x, started, waited = torch.ones(1024, device=ON), [], []
    for _ in range(6):
        job.running(1 << 30)
        with job.step():
            for _ in range(10):
                at = time.perf_counter()
                work = dist.all_reduce(x, async_op=True)
                between = time.perf_counter()
                work.wait()
                started.append(1e6 * (between - at))
                waited.append(1e6 * (time.perf_counter() - at))
    begun, done = statistics.median(started[10:]), statistics.median(waited[10:])
    print(f"host, all_reduce of 4 KiB: {begun:.0f} us, with wait() {done:.0f} us", flush=True)


{"start": start, "calls": calls, "train": train, "rate": rate}[WHAT](*WORDS)
