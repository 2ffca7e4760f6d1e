"""What cxxrun.install() costs a PyTorch script: a world of one on gloo, without and with it.
Usage: install_bench.py [--smoke] CXXRUN. Exit code 1: a bar is missed; 77: there is no torch.

A collective costs nothing by design: the figures of the two differ by the machine's noise, and so the least of each
counts. The thread's share of a core is
the CPU time that the kernel has counted for it."""
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile

if importlib.util.find_spec("torch") is None:
    print("skipped: there is no torch (Debian: python3-torch)")
    sys.exit(77)

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/runtime/python")
sys.path.insert(0, PACKAGE)
from cxxrun import _watch  # noqa: E402
WORKER = """
import sys, threading, time
seconds, installs = float(sys.argv[1]), sys.argv[2] == "yes"
if installs:
    import cxxrun
    cxxrun.install()
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
tensor = torch.ones(4)

def cpu_of_thread():
    for thread in threading.enumerate():
        if thread.name == "cxxrun":
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return 0.0

def busy(until):
    # The least of a hundred at a time: what gloo's own threads add depends on where they run.
    best = float("inf")
    while time.monotonic() < until:
        begin = time.monotonic()
        for _ in range(100):
            dist.all_reduce(tensor)
        best = min(best, (time.monotonic() - begin) / 100 * 1e6)
    return best

for name, work in (("busy", lambda: busy(time.monotonic() + seconds)), ("idle", lambda: time.sleep(seconds) or 0.0)):
    if name == "idle":
        time.sleep(3)  # in which the flight recorder is asked, which has a share of its own
    begin, cpu = time.monotonic(), cpu_of_thread()
    each = work()
    share = (cpu_of_thread() - cpu) / (time.monotonic() - begin) * 100
    print(f"{name} {each:.2f} {share:.4f}")
dist.barrier()
"""


def measure(cxxrun, seconds, installs):
    """{"busy": (µs a collective, % of a core), "idle": …}"""
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "worker.py")
        with open(script, "w") as file:
            file.write(WORKER)
        env = dict(os.environ, PYTHONPATH=PACKAGE, PYTHON_EXEC="/usr/bin/python3", GLOO_SOCKET_IFNAME="lo", USE_LIBUV="0",
                   OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        said = subprocess.run([cxxrun, "--standalone", "--log-level", "error", script, str(seconds),
                               "yes" if installs else "no"], env=env, stdout=subprocess.PIPE, check=True,
                              universal_newlines=True).stdout
    return {name: (float(each), float(share)) for name, each, share in re.findall(r"(busy|idle) (\S+) (\S+)", said)}


def main(words):
    smoke = "--smoke" in words
    cxxrun = [word for word in words if word != "--smoke"][0]
    without, with_it = [], []
    for _ in range(1 if smoke else 9):
        without.append(measure(cxxrun, 1 if smoke else 3, False))
        with_it.append(measure(cxxrun, 1 if smoke else 3, True))
    before, after = (min(each["busy"][0] for each in runs) for runs in (without, with_it))
    shares = {name: sorted(each[name][1] for each in with_it) for name in ("busy", "idle")}
    busy, idle = (statistics.median(shares[name]) for name in ("busy", "idle"))
    print(f"a collective: {before:.2f} µs without, {after:.2f} µs with install(); the thread: {busy:.3f} % of a core "
          f"({shares['busy'][0]:.3f} to {shares['busy'][-1]:.3f}) while collectives run, {idle:.3f} % "
          f"({shares['idle'][0]:.3f} to {shares['idle'][-1]:.3f}) while the rank stands still")
    if smoke:
        return 0 if busy > 0 and idle > 0 else 1
    share = max(busy, idle) + 100 * _watch._SHARE
    bars = [("at most 1 µs a collective", after - before <= 1.0),
            ("at most 0.1 % of a core, with what the flight recorder may take", 0 < min(busy, idle) and share <= 0.1)]
    for what, is_kept in bars:
        print(("kept:   " if is_kept else "MISSED: ") + what)
    return 0 if all(is_kept for _, is_kept in bars) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
