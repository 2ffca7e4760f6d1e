#!/usr/bin/python3
"""Measures cxxrun as a launcher against its targets and, where it is installed, against torchrun.

Every repeat runs all contenders one after the other, so that noise of the machine falls on all of them. Method and
figures: docs/evidence/performance.md. Exit code 0: every figure was taken (met or not); 1: some could not be; 2: usage.
"""
import argparse
import contextlib
import ctypes
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from torchrun import TORCHRUN  # noqa: E402

PYTHON = "/usr/bin/python3"
HOLD_S = 120  # a worker's bound: nothing started here outlives a killed benchmark for longer
WAIT_S = 30  # for anything that is expected to happen
PEER_WAIT_S = 120  # sixteen imports of torch on a busy machine
SWEEP_S = 10
WINDOW_S = 0.02  # --join-window where a job starts with fewer than MAX: it cannot know that nobody else comes


class Missed(Exception):
    """A repeat that gave no figure."""


# ---- processes: everything started here is a descendant, and is gone when a Job ends --------------------------------


def become_subreaper():
    """Daemonised descendants become children of this process: none can leave its sight."""
    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) != 0:
        sys.exit("launch_bench: prctl(PR_SET_CHILD_SUBREAPER) failed")


def descendants(root):
    """Pids below root, without root."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(name))
    found, unvisited = set(), [root]
    while unvisited:
        direct = children.get(unvisited.pop(), [])
        found.update(direct)
        unvisited.extend(direct)
    return found


def sweep():
    """SIGKILL until ECHILD: for a subreaper the proof that nothing is left."""
    end = time.monotonic() + SWEEP_S
    while time.monotonic() < end:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)
    raise RuntimeError(f"processes survive SIGKILL: {sorted(descendants(os.getpid()))}")


class Job:
    """One run of one contender in a directory of its own below `scratch`. The directory stays until all is measured:
    ext4 avoids inodes freed in the last seconds, so removing it would slow down the next run's files."""

    def __init__(self, helpers, scratch, patience_s):
        self.helpers, self.scratch, self.patience_s = helpers, scratch, patience_s
        self.agents = 0
        self.port = free_port()

    def __enter__(self):
        self.directory = tempfile.mkdtemp(dir=self.scratch)
        self.stamps = os.path.join(self.directory, "stamps")
        self.output = os.path.join(self.directory, "output")
        open(self.stamps, "w").close()
        return self

    def __exit__(self, *_):
        sweep()

    def helper(self, name):
        return os.path.join(self.helpers, "bench_" + name)

    def worker(self, seconds):
        return [self.helper("stamp_worker"), self.stamps, str(seconds)]

    def start(self, count, command):
        self.agents += count
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment.update(TMPDIR=self.directory, OMP_NUM_THREADS="1")
        starter = self.helper("start_together")
        writable = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.posix_spawn(starter, [starter, self.stamps, str(count), *command], environment,
                       file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                                     (os.POSIX_SPAWN_OPEN, 1, self.output, writable, 0o644),
                                     (os.POSIX_SPAWN_DUP2, 1, 2)])

    def events(self, kind, after=0):
        """[(ns, pid, further fields…)] in order of time."""
        with open(self.stamps) as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        return sorted((*map(int, fields[1:]),) for fields in lines if fields[0] == kind and int(fields[1]) > after)

    def wait(self, find, what):
        """Until find() gives something true; looks again only when a stamp was added, and not when all have ended."""
        end, seen = time.monotonic() + self.patience_s, -1
        while time.monotonic() < end:
            size = os.stat(self.stamps).st_size
            if size != seen:
                seen, all_ended = size, len(self.events("end")) == self.agents  # before find: its stamps are older
                found = find()
                if found:
                    return found
                if all_ended:
                    break
            time.sleep(0.002)
        with open(self.output, errors="replace") as file:
            raise Missed(f"no {what}; last output: {file.read()[-600:]!r}")

    def full_generation(self, world, after=0):
        """The first starts after `after` that make all ranks of `world`, in order of time; or None."""
        by_rank = {}
        for event in self.events("start", after):
            if event[3] == world:
                by_rank.setdefault(event[2], event)
                if len(by_rank) == world:
                    return sorted(by_rank.values())
        return None

    def wait_generation(self, world, after=0):
        return self.wait(lambda: self.full_generation(world, after), f"{world} workers")


# ---- contenders -----------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Launcher:
    def __init__(self, name, command, separator, extra):
        self.name, self.command, self.separator, self.extra = name, command, separator, extra

    def line(self, job, agents, workers, program, **more):
        """`agents`: how many, or MIN:MAX; `more`: further options, with _ for -."""
        flags = {"nproc-per-node": workers, "max-restarts": 3, "redirects": 3,
                 "log-dir": os.path.join(job.directory, "logs")}
        if agents == 1:
            flags["standalone"] = None
        else:
            flags.update({"nnodes": agents, "rdzv-backend": "c10d", "rdzv-id": "bench",
                          "rdzv-endpoint": f"127.0.0.1:{job.port}"})
        flags.update(self.extra)
        flags.update({name.replace("_", "-"): value for name, value in more.items()})
        flags["no-python"] = None
        spelled = []
        for name, value in flags.items():
            flag = "--" + name.replace("-", self.separator)
            spelled.append(flag if value is None else f"{flag}={value}")
        return self.command + spelled + program


class ForkLoop:
    name = "fork loop"

    @staticmethod
    def line(job, _agents, workers, program):
        return [job.helper("fork_loop"), str(workers), *program]


def torchrun():
    probe = subprocess.run([PYTHON, "-c", "import torch.distributed.run"], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=120, check=False)
    if probe.returncode != 0:
        return None
    return Launcher("torchrun", [PYTHON, "-c", TORCHRUN], "_",
                    {"monitor-interval": 0.1, "rdzv-conf": "last_call_timeout=1"})


# ---- cases: one repeat of one contender gives {figure: value} --------------------------------------------------------


def launch(job, contender, _phase):
    job.start(1, contender.line(job, 1, 8, job.worker(0.3)))
    end = job.wait(lambda: job.events("end"), "end of the launcher")[0]
    started, exited = job.full_generation(8), job.events("exit")
    if not started or len(exited) != 8 or end[2] != 0:
        raise Missed(f"bad run: {len(exited)} exits, status {end[2]}")
    return {"launch": (started[-1][0] - job.events("exec")[0][0]) / 1e6, "exit": (end[0] - exited[-1][0]) / 1e6}


def memory(job, contender, _phase):
    job.start(1, contender.line(job, 1, 8, job.worker(HOLD_S)))
    workers = {event[1] for event in job.wait_generation(8)}
    time.sleep(0.2)
    launcher = job.events("exec")[0][1]
    peak = share = 0
    for pid in {launcher} | descendants(launcher) - workers:
        with open(f"/proc/{pid}/status") as status, open(f"/proc/{pid}/smaps_rollup") as rollup:
            peak += kilobytes(status, "VmHWM:")
            share += kilobytes(rollup, "Pss:")
    return {"memory": peak * 1024 / 1e6, "share": share * 1024 / 1e6}


def kilobytes(lines, name):
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def with_deaf_child(program):
    """It leaves a process behind that ignores SIGTERM."""
    return ["sh", "-c", "(trap '' TERM; exec sleep %d) & exec \"$@\"" % HOLD_S, "sh", *program]


def restart(agents, figure, around=list):
    def case(job, contender, phase):
        world = 2 * agents
        job.start(agents, contender.line(job, agents, 2, around(job.worker(HOLD_S))))
        first = job.wait_generation(world)
        time.sleep(0.5 + 0.1 * phase)  # over the whole period of a launcher that polls
        victim = next(event[1] for event in first if event[2] == 0)
        killed = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        return {figure: (job.wait_generation(world, killed)[-1][0] - killed) / 1e6}

    return case


def agents16(job, contender, _phase):
    job.start(16, contender.line(job, 16, 1, job.worker(HOLD_S)))
    last = job.wait_generation(16)[-1]
    return {"agents16": (last[0] - max(event[0] for event in job.events("exec"))) / 1e6}


def hosts(pid, port):
    """Whether the process listens on the port."""
    inodes = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            inodes.add(os.readlink(entry.path).removeprefix("socket:[").removesuffix("]"))
    except OSError:
        return False
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as file:
            for fields in (line.split() for line in file.readlines()[1:]):
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port and fields[9] in inodes:
                    return True
    return False


def elastic(job, contender, agents, **more):
    """Two or three agents of 2:3 with two workers each, and the last start of their generation."""
    window = {"join_window": WINDOW_S} if contender.separator == "-" and agents < 3 else {}
    command = contender.line(job, "2:3", 2, job.worker(HOLD_S), **window, **more)
    job.start(agents, command)
    job.wait_generation(2 * agents)
    return command


def strike(pid, number):
    """Once the agent is dead its parent may be quicker than we are."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def lost(figure, of_coordinator=False, silent=False, **more):
    """One of three agents goes with its workers, the others run on without it. Its parent is left to reap them, and
    says so; frozen are all."""
    def case(job, contender, phase):
        ours = contender.separator == "-"
        if silent and not ours:
            return {}  # watched for two minutes once: it never notices
        elastic(job, contender, 3, **more if ours else {})
        time.sleep(0.5 + 0.1 * phase)
        nodes = [{event[1]} | descendants(event[1]) for event in job.events("exec")]
        host = next((node for node in nodes if any(hosts(pid, job.port) for pid in node)), None)
        if host is None:
            raise Missed("nobody listens on the rendezvous port")
        victim = host if of_coordinator else next(node for node in nodes if node is not host)
        workers = {event[1] for event in job.events("start")}
        parents = {event[1] for event in job.events("exec")} if ours and not silent else set()
        began = time.monotonic_ns()
        for pid in sorted(victim - parents):
            strike(pid, signal.SIGSTOP if silent else signal.SIGKILL)
        if not ours:  # its workers would have to notice: nobody else does
            for pid in workers - victim:
                strike(pid, signal.SIGKILL)
        return {figure: (job.wait_generation(4, began)[-1][0] - began) / 1e6}

    return case


def scale_out(job, contender, phase):
    command = elastic(job, contender, 2, **{"scale_out": "now"} if contender.separator == "-" else {})
    time.sleep(0.5 + 0.1 * phase)
    before = max(event[0] for event in job.events("exec"))
    job.start(1, command)
    last = job.wait_generation(6, before)[-1]
    return {"scale_out": (last[0] - job.events("exec", before)[0][0]) / 1e6}


CASES = {"launch": launch, "memory": memory, "restart1": restart(1, "restart1"), "restart4": restart(4, "restart4"),
         "left": restart(1, "left", with_deaf_child), "agents16": agents16, "lost": lost("lost"),
         "silent": lost("silent", silent=True, heartbeat_timeout=1), "scale_out": scale_out,
         "host_lost": lost("host_lost", of_coordinator=True)}

# figure: (case, text, unit, target, or None where there is none; "x" is a factor over the fork loop)
FIGURES = {
    "launch": ("launch", "exec to first instruction of the last of 8 workers", "ms", (3, "x")),
    "exit": ("launch", "last worker's exit to launcher's exit", "ms", (3, "ms")),
    "memory": ("memory", "peak RSS of all launcher processes, 8 workers", "MB", (16, "MB")),
    "share": ("memory", "the same as proportional set size", "MB", None),
    "restart1": ("restart1", "SIGKILL of a worker to last new worker, 1 agent", "ms", (10, "ms")),
    "restart4": ("restart4", "the same, 4 agents of 2 workers", "ms", (30, "ms")),
    "left": ("left", "the same, 1 agent, each worker leaves a child that ignores SIGTERM", "ms", (600, "ms")),
    "agents16": ("agents16", "16 agents: last exec to last worker", "ms", (60, "ms")),
    "lost": ("lost", "3 agents, one killed with its workers: to last worker of the others' next generation", "ms",
             (50, "ms")),
    "silent": ("silent", "the same, frozen instead, --heartbeat-timeout 1", "ms", (1100, "ms")),
    "host_lost": ("host_lost", "the same, killed, and it was the one that coordinates", "ms", (200, "ms")),
    "scale_out": ("scale_out", "third agent's exec to last worker of the generation of three", "ms", (50, "ms")),
}


# ---- running and reporting ------------------------------------------------------------------------------------------


def gauge():
    """A fixed loop: how busy the machine is."""
    start = time.perf_counter()
    sum(range(1_000_000))
    return (time.perf_counter() - start) * 1e3


def measure(arguments, scratch, cxxrun, peer):
    samples, gauges, missed = {}, [], 0
    for name in arguments.cases:
        contenders = [cxxrun] + ([ForkLoop] if name == "launch" else []) + ([peer] if peer else [])
        for repeat in range(arguments.reps):
            gauges.append(gauge())
            for contender in contenders:
                try:
                    patience_s = PEER_WAIT_S if contender is peer else WAIT_S
                    with Job(arguments.helpers, scratch, patience_s) as job:
                        figures = CASES[name](job, contender, (repeat + 0.5) / arguments.reps)
                except Missed as why:
                    missed += 1
                    print(f"launch_bench: {name}, {contender.name}, repeat {repeat}: {why}", file=sys.stderr)
                    continue
                for figure, value in figures.items():
                    samples.setdefault((figure, contender.name), []).append(value)
    return samples, gauges, missed


def spread(values):
    return " / ".join(f"{value:.3g}" if value < 1000 else f"{value:.0f}"
                      for value in (min(values), statistics.median(values), max(values))) if values else "-"


def verdict(values, loop, target):
    """By the medians; a target that only the minima meet says so, for it may be noise."""
    if target is None or not values:
        return "-", "-"
    limit, unit = target
    if unit == "x":
        if not loop:
            return f"≤ {limit} × loop", "-"
        factors = [take(values) / take(loop) for take in (statistics.median, min)]
        text = f"≤ {limit} × loop"
        detail = f" ({factors[0]:.1f} ×, minima {factors[1]:.1f} ×)"
    else:
        factors = [statistics.median(values), min(values)]
        text, detail = f"≤ {limit} {unit}", ""
    met = "met" if factors[0] <= limit else "minimum only" if factors[1] <= limit else "not met"
    return text, met + detail


def report(arguments, samples, gauges, peer):
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {os_name()}, Linux {platform.release()}; "
          f"{arguments.reps} repeats{', SCHED_RR' if arguments.realtime else ''}; min / median / max.\n")
    name = peer.name if peer else "torchrun"
    print(f"| figure | target | cxxrun | fork loop | {name} | {name} ÷ cxxrun | |")
    print("|---|---|---|---|---|---|---|")
    for figure, (case, text, unit, target) in FIGURES.items():
        if case not in arguments.cases:
            continue
        ours, loop, theirs = (samples.get((figure, each), []) for each in ("cxxrun", "fork loop", name))
        loop = loop if figure == "launch" else []
        ratio = f"{statistics.median(theirs) / statistics.median(ours):.3g}" if ours and theirs else "-"
        wanted, met = verdict(ours, loop, target)
        print(f"| {text}, {unit} | {wanted} | {spread(ours)} | {spread(loop)} | {spread(theirs)} | {ratio} | {met} |")
    print(f"\nNoise: a fixed loop before each repeat took {spread(gauges)} ms; load average "
          f"{os.getloadavg()[0]:.1f} at the end." + ("" if peer else f" {name} was not measured."))


def os_name():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return "unknown system"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cxxrun", default=os.path.join(ROOT, "build/release/bin/cxxrun"))
    parser.add_argument("--helpers", default=os.path.join(ROOT, "build/release/tests"),
                        help="directory of bench_stamp_worker and the others")
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--cases", default=",".join(CASES), help="of " + ",".join(CASES))
    parser.add_argument("--no-peer", action="store_true", help="without torchrun")
    parser.add_argument("--beside", metavar="FILE", help="another cxxrun, as that of scripts/release, in torchrun's place")
    parser.add_argument("--scratch", help="where logs and stamps go while measuring [TMPDIR or /tmp]")
    parser.add_argument("--realtime", action="store_true",
                        help="run everything with SCHED_RR, above whatever else the machine does (needs CAP_SYS_NICE)")
    parser.add_argument("--smoke", action="store_true", help="one repeat without torchrun: do figures come out?")
    arguments = parser.parse_args()
    arguments.cases = arguments.cases.split(",")
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error("no such case: " + ", ".join(unknown))
    if arguments.reps < 1:
        parser.error("--reps must be at least 1")
    if arguments.smoke:
        arguments.reps, arguments.no_peer = 1, True
    for path in (arguments.cxxrun, *(os.path.join(arguments.helpers, "bench_" + name)
                                     for name in ("stamp_worker", "fork_loop", "start_together"))):
        if not os.access(path, os.X_OK):
            parser.error(f"{path} is not there: build it, or name it with --cxxrun and --helpers")
    return arguments


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    become_subreaper()
    if arguments.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    cxxrun = Launcher("cxxrun", [os.path.abspath(arguments.cxxrun)], "-", {})
    peer = (None if arguments.no_peer else
            Launcher("other", [os.path.abspath(arguments.beside)], "-", {}) if arguments.beside else torchrun())
    with tempfile.TemporaryDirectory(prefix="launch_bench.", dir=arguments.scratch) as scratch:
        samples, gauges, missed = measure(arguments, scratch, cxxrun, peer)
    report(arguments, samples, gauges, peer)
    wanted = {figure for figure, (case, *_) in FIGURES.items() if case in arguments.cases}
    taken = {figure for figure, name in samples if name == "cxxrun"}
    return 0 if missed == 0 and wanted == taken else 1


if __name__ == "__main__":
    sys.exit(main())
