"""Lets a failure happen under a launcher, and keeps what that says. A place is a function of a row, a side and a scene."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

from stage import GUARD, HERE, Seen

import faults  # of tests/faults, where stage has led
import jobs
import sides
import slurm_place
from machines import Cluster, send

sys.path.insert(0, str(HERE.parent / "support"))
import wires  # noqa: E402

MEMORY = pathlib.Path("/sys/fs/cgroup/memory")
IN_GROUP = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
DISK = 'mount -t tmpfs -o size=4m none "$0"'
HOSTS = 'mount --bind "$0" /etc/hosts'


def missing(row):
    """Why it cannot happen here, or None."""
    if os.geteuid() != 0 and (row.memory_mb or row.disk):
        return "needs root"
    if row.memory_mb and not (MEMORY / "memory.limit_in_bytes").exists():
        return "needs the memory controller of cgroup v1"
    of_place = {"nodes": wires.missing, "slurm": slurm_place.missing}.get(row.place)
    return of_place() if of_place else None


@contextlib.contextmanager
def memory_group(row, scene):
    group = MEMORY / scene.dir.name
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(row.memory_mb << 20))
        yield ["sh", "-c", IN_GROUP, str(group)]
    finally:
        scene.clear()
        jobs.wait_until(lambda: not (group / "cgroup.procs").read_text(), "the control group is empty", GUARD)
        group.rmdir()


def with_mount(script, argument):
    """Words before a command, which then has a mount of its own."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script + ' && exec "$@"', str(argument)]


def local(row, side, scene, fault=lambda row, scene: None):
    """On one node, which is this machine."""
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(memory_group(row, scene)) if row.memory_mb else []
        if row.disk:
            before = with_mount(DISK, scene.dir / "full")
        if row.at_start:
            scene.begin()
        agent = Started(scene, "console", [*before, *side.command(scene.placed(row), scene.logs)], row)
        stack.callback(agent.close)
        fault(row, scene)
        code, seconds = scene.await_end(agent.process.poll, row)
        return Seen(agent.console, code, seconds)


class Started:
    def __init__(self, scene, name, command, row):
        self.scene, self.path = scene, scene.dir / name
        with open(self.path, "w") as console:
            self.process = subprocess.Popen(command, env=scene.env(row), stdin=subprocess.DEVNULL, stdout=console,
                                            stderr=console)

    @property
    def console(self):
        return jobs.read(self.path)

    def close(self):
        self.scene.clear()
        self.process.wait()


def killed(row, side, scene):
    def fault(row, scene):
        scene.await_workers(row.nproc)
        scene.begin()
        os.kill(int(jobs.read(scene.dir / f"up.{row.culprit}")), signal.SIGKILL)
    return local(row, side, scene, fault)


def rank_of(pid):
    found = re.search(r"(?:^|\0)RANK=(\d+)\0", jobs.read(f"/proc/{pid}/environ"))
    return int(found[1]) if found else None


def stopped(row, side, scene):
    """The example's worker of that rank, once all train."""
    def fault(row, scene):
        jobs.wait_until(lambda: jobs.read(scene.dir / "curve").count("\n") > 3, "it trains", GUARD)
        scene.begin()
        send([pid for pid in jobs.processes_with(scene.marker) if rank_of(pid) == row.culprit], signal.SIGSTOP)
    return local(row, side, scene, fault)


def nodes(row, side, scene):
    """On three hosts of namespaces, one of which loses its power."""
    with wires.Wires(3) as net, Cluster(net, scene.dir) as cluster:
        (scene.dir / "hosts").write_text("".join(f"{host.address} host{i}\n" for i, host in enumerate(net.hosts)))
        for machine in cluster.machines:
            command = side.command(scene.placed(row), scene.logs, sides.meeting(cluster.endpoint, 3, machine.index))
            machine.start([*with_mount(HOSTS, scene.dir / "hosts"), *command], scene.env(row))
        scene.await_workers(3, cluster.machines[row.seen_from].exit_code)
        scene.begin()
        faults.Kill("host", silent=True).begin(cluster, row.lost)
        seen = cluster.machines[row.seen_from]
        code, seconds = scene.await_end(seen.exit_code, row)
        return Seen(jobs.read(seen.logs / "out") + seen.said, code, seconds)


def listening(port):
    lines = jobs.read("/proc/net/tcp") + jobs.read("/proc/net/tcp6")
    return re.search(rf":{port:04X} [0-9A-F]+:0000 0A ", lines)


def crowd(row, side, scene):
    """Four agents on this machine; the first one's console."""
    port = jobs.free_port()
    agents = []
    try:
        for index in range(4):
            command = side.command(scene.placed(row), scene.logs, sides.meeting(f"127.0.0.1:{port}", 4, index))
            agents.append(Started(scene, f"console{index}", command, row))
            jobs.wait_until(lambda: listening(port), "the first agent can be met", GUARD)
        code, seconds = scene.await_end(agents[0].process.poll, row)
        return Seen(agents[0].console, code, seconds)
    finally:
        for agent in agents:
            agent.close()


PLACES = {"local": local, "killed": killed, "stopped": stopped, "nodes": nodes, "crowd": crowd,
          "slurm": slurm_place.play}
