"""What torch does by itself, where the runtime may rely on it: torch_alone.py facts, or gate STEPS."""
import statistics
import sys
import time

import torch


def facts():
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {sys.version.split()[0]}", flush=True)
    if not torch.cuda.is_available():
        return
    with open("/proc/self/maps") as maps:
        loaded = sorted({line.split()[-1] for line in maps if "libnccl" in line or "libcudart" in line})
    free, whole = torch.cuda.mem_get_info()
    print(f"NCCL {torch.cuda.nccl.version()}; {', '.join(loaded)}; {free >> 20} of {whole >> 20} MiB free", flush=True)
    size = 1 << 28
    pinned, device = torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.empty(size, dtype=torch.uint8, device="cuda")
    for name, source, target in (("down", device, pinned), ("up", pinned, device)):
        times = []
        for _ in range(8):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            target.copy_(source, non_blocking=True)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        print(f"pinned memory {name} {size / statistics.median(times) / 1e9:.0f} GB/s", flush=True)


def gate(steps):
    """Steps of 45 ms, in turns: as they are, with a host that waits for the stream before the update, and with a flag that
    the fused optimizer reads on the device."""
    width, length, batch = 768, 1024, 8
    layers = [torch.nn.TransformerEncoderLayer(width, 12, 4 * width, 0.0, batch_first=True, norm_first=True) for _ in range(12)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 50257)).cuda()
    x, y = torch.randn(batch, length, width, device="cuda"), torch.randint(0, 64, (batch * length,), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    flag, found_inf = torch.zeros((), pin_memory=True), torch.zeros((), device="cuda")

    def step(kind):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if kind == "host waits":
            torch.cuda.current_stream().synchronize()
        elif kind == "flag on the device":
            found_inf.copy_(flag, non_blocking=True)
        optimizer.found_inf = found_inf if kind == "flag on the device" else None
        optimizer.step()

    times = {"no gate": [], "host waits": [], "flag on the device": []}
    for kind in times:
        for _ in range(5):
            step(kind)
    in_turn = 10
    for _ in range(int(steps) // in_turn):
        for kind, its in times.items():
            torch.cuda.synchronize()
            at = time.monotonic()
            for _ in range(in_turn):
                step(kind)
            torch.cuda.synchronize()
            its.append(1e3 * (time.monotonic() - at) / in_turn)
    without = statistics.median(times["no gate"])
    for kind, its in times.items():
        middle = statistics.median(its)
        print(f"{kind} {middle:.2f} ms a step ({min(its):.2f} to {max(its):.2f}), ratio {middle / without:.3f}", flush=True)


{"facts": facts, "gate": gate}[sys.argv[1]](*sys.argv[2:])
print("ok", flush=True)
