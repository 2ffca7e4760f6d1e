#!/usr/bin/python3
"""Measures the coordinator with crowds: 1,000 and 10,000 agents of crowd_bench against a real cxxrun-rendezvous, and with
--strangers N a real agent beside N connections of stranger_bench, which prove nothing.

Prints a table for docs/evidence/performance.md. Exit code 0: every bar is met; 1: one is not, or a figure is missing; 2: usage.
"""
import argparse
import contextlib
import json
import os
import resource
import secrets
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUARD = 120  # seconds; against hanging only
SPARE = 100  # descriptors besides those of agents
STRANGERS_BAR = 200  # ms

# figure: (text, unit, bars by number of agents)
FIGURES = {
    "formed_s": ("first call to the last agent's start", "s", {1000: 0.5, 10000: 3.0}),
    "bytes_per_agent": ("payload of an agent until then, both ways", "B", {1000: 4096, 10000: 4096}),
    "cpu_s": ("processor time of the coordinator for that", "s", {}),
    "peak_mb": ("peak RSS of the coordinator", "MB", {}),
    "lost_s": ("one agent ends to the last one's next start", "s", {1000: 0.5, 10000: 3.0}),
    "lost_bytes_per_agent": ("payload of an agent for that, both ways", "B", {1000: 4096, 10000: 4096}),
    "idle_kb_s": ("idle: payload of all beats, both ways", "kB/s", {1000: 200}),
    "idle_cpu": ("idle: of one processor", "", {}),
}


def raise_descriptors(wanted):
    """For this process and what it starts; returns how many they may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, hard),) * 2)
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def heartbeat(arguments, agents):
    """With beats an agent has two connections; without descriptors for them a crowd does without."""
    return arguments.heartbeat if 2 * agents + SPARE <= arguments.descriptors else 0


@contextlib.contextmanager
def coordinator(arguments):
    """A coordinator while the block runs: its process, its port, and the environment and options of its agents."""
    log = subprocess.DEVNULL if not arguments.log else open(arguments.log, "a")
    environment = {**os.environ, "CXXRUN_SECRET": secrets.token_hex(32)}
    auth = ["--auth", "file"]
    if arguments.open:
        del environment["CXXRUN_SECRET"]
        auth = ["--auth", "none"]
    with subprocess.Popen([arguments.rendezvous, "--port", "0", "--loopback", "--log-level", "info", *auth],
                          stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as process:
        try:
            yield process, process.stdout.readline().strip().rsplit(":", 1)[1], environment, auth
        finally:
            process.kill()


def once(arguments, agents, number):
    with coordinator(arguments) as (process, port, environment, _):
        done = subprocess.run(
            [arguments.crowd, port, str(agents), str(agents), f"crowd.{number}", str(heartbeat(arguments, agents)),
             str(arguments.idle), str(process.pid), "lose"],
            capture_output=True, text=True, timeout=GUARD, check=False, env=environment)
    if done.returncode != 0:
        print(f"{agents} agents, repeat {number}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def spread(values):
    return " / ".join(f"{value:.3g}" if value < 1000 else f"{value:.0f}"
                      for value in (min(values), statistics.median(values), max(values)))


def report(samples, crowds, strict):
    """The table; False when a bar is not met, or only by the best repeat."""
    good = True
    print("| | " + " | ".join(f"{agents} agents | target" for agents in crowds) + " |")
    print("|---|" + "---|---|" * len(crowds))
    for name, (text, unit, bars) in FIGURES.items():
        cells = []
        for agents in crowds:
            values = [sample[name] for sample in samples[agents]]
            if name.startswith("idle") and not any(values):
                values = []  # nobody beats
            bar = bars.get(agents)
            if not values:
                cells += ["-", "-" if bar is None else "missing"]
                good = good and bar is None
                continue
            met = bar is None or statistics.median(values) <= bar
            good = good and met
            wanted = "-" if bar is None else f"≤ {bar:g} {unit}: " + ("met" if met else "not met")
            cells += [spread(values), wanted]
        print(f"| {text}{', ' + unit if unit else ''} | " + " | ".join(cells) + " |")
    return good or not strict


def jobs(arguments, port, environment, options, kind):
    """Milliseconds from exec to exit of an agent that joins, runs `true`, and leaves: of each repeat."""
    took = []
    for number in range(arguments.reps):
        began = time.monotonic()
        subprocess.run([arguments.cxxrun, "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", f"{kind}.{number}",
                        *options, "--no-python", "true"], env=environment, timeout=GUARD, check=True,
                       capture_output=True)
        took.append((time.monotonic() - began) * 1000)
    return took


def beside_strangers(arguments):
    """The table of a real agent with and without strangers; False when the bar is not met."""
    with coordinator(arguments) as (_, *where):
        quiet = jobs(arguments, *where, "quiet")
        with subprocess.Popen([arguments.stranger, where[0], str(arguments.strangers)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as crowd:
            crowd.stdout.readline()
            began = time.monotonic()
            beside = jobs(arguments, *where, "beside")
            calls = json.loads(crowd.communicate(timeout=GUARD)[0])["calls"]
            rate = (calls - arguments.strangers) / (time.monotonic() - began)
    met = statistics.median(beside) <= STRANGERS_BAR
    print(f"| | alone | beside {arguments.strangers} strangers, {rate:.0f} calls/s | target |\n|---|---|---|---|")
    print(f"| an agent joins, runs `true` and leaves, ms | {spread(quiet)} | {spread(beside)} "
          f"| ≤ {STRANGERS_BAR} ms: {'met' if met else 'not met'} |")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rendezvous", default=os.path.join(ROOT, "build/release/bin/cxxrun-rendezvous"))
    parser.add_argument("--crowd", default=os.path.join(ROOT, "build/release/tests/crowd_bench"))
    parser.add_argument("--cxxrun", default=os.path.join(ROOT, "build/release/bin/cxxrun"))
    parser.add_argument("--stranger", default=os.path.join(ROOT, "build/release/tests/stranger_bench"))
    parser.add_argument("--agents", default="1000,10000")
    parser.add_argument("--strangers", type=int, help="measure beside so many connections that prove nothing, instead")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--heartbeat", type=int, default=5000, help="--heartbeat-timeout of the run, in milliseconds")
    parser.add_argument("--idle", type=float, default=5, help="seconds of idling")
    parser.add_argument("--open", action="store_true", help="--auth none: nothing is proven and nothing is sealed")
    parser.add_argument("--log", help="append what the coordinators say to this file")
    parser.add_argument("--realtime", action="store_true",
                        help="run everything with SCHED_RR, above whatever else the machine does (needs CAP_SYS_NICE)")
    parser.add_argument("--smoke", action="store_true", help="100 agents once: do figures come out?")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.agents, arguments.reps, arguments.idle = "100", 1, 1.2
    if arguments.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    if arguments.strangers:
        raise_descriptors(arguments.strangers + SPARE)
        return 0 if beside_strangers(arguments) or arguments.smoke else 1
    crowds = [int(word) for word in arguments.agents.split(",")]
    arguments.descriptors = raise_descriptors(2 * max(crowds) + SPARE)
    if max(crowds) + SPARE > arguments.descriptors:
        parser.error(f"{max(crowds) + SPARE} descriptors are needed (ulimit -n), {arguments.descriptors} are allowed")
    samples = {agents: [] for agents in crowds}
    for number in range(arguments.reps):
        for agents in crowds:
            sample = once(arguments, agents, number)
            samples[agents] += [sample] if sample else []
    good = report(samples, crowds, not arguments.smoke)
    for agents in crowds:
        if heartbeat(arguments, agents) == 0:
            print(f"\n{agents} agents without heartbeats: {arguments.descriptors} descriptors are allowed here, two "
                  "connections each need more.")
    return 0 if good and all(len(samples[agents]) == arguments.reps for agents in crowds) else 1


if __name__ == "__main__":
    sys.exit(main())
