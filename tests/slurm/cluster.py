#!/usr/bin/env python3
"""A real Slurm cluster on one machine, for the tests: Debian's slurmctld, slurmd and munged, one set of Linux
namespaces per node. By hand:

  cluster.py up [--nodes N] [--gpus N[,N…]] [--cgroup] [KEY=VALUE…]    start one; prints its directory
  cluster.py down                         remove it
  cluster.py status                       its machines, and sinfo
  cluster.py exec MACHINE COMMAND…        run COMMAND in node1… or login (srun, sbatch, scancel…)
  cluster.py kill [--fin] NODE            power loss: everything in NODE dies. Its cable is cut first, so that its
                                          peers see silence; with --fin they see connections end
  cluster.py partition NODE               cut NODE's cable; its processes go on
  cluster.py blackhole NODE               the switch drops NODE's frames, but the link stays up
  cluster.py heal NODE                    undo partition or blackhole
  cluster.py stop-slurmd NODE             kill slurmd alone; the tasks go on
  cluster.py revive NODE                  boot a killed NODE, or start its slurmd again

KEY=VALUE are lines of slurm.conf. With several clusters, CXXRUN_SLURM_DIR chooses one. Needs root and the packages
that scripts/install-deps --tests installs. The host's network is not touched, and nothing is left after `down`."""
import argparse
import atexit
import fcntl
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import namespaces
import slurm_conf
from machine import PATH, tail
from slurm_conf import LOGIN, node_names

ROOM = "/var/lib"  # not /tmp: every node has a /tmp of its own
PREFIX = "cxxrun-slurm-"
HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
READY_GUARD = 60  # seconds
TRACK = "cgroup" if namespaces.unified() else "linuxproc"  # with version 2 alone as sites have it
PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge",
            "ip": "iproute2", "bridge": "iproute2", "nsenter": "util-linux", "setpriv": "util-linux"}


def why_not(proctrack=TRACK):
    """Why no cluster can run here, in one line, or None."""
    if os.geteuid() != 0:
        return "not root"
    packages = sorted({package for program, package in PACKAGES.items() if not shutil.which(program, path=PATH)})
    if packages:
        return f"packages missing: {' '.join(packages)} (scripts/install-deps --tests)"
    if not os.path.isdir("/etc/slurm"):
        return "no directory /etc/slurm"
    lacking = namespaces.missing(freezer=proctrack == "cgroup")
    return f"this machine does not let us make {lacking}" if lacking else None


class ClusterError(RuntimeError):
    pass


class Done:
    """A finished command."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"code {self.code}\nstdout:\n{self.out}\nstderr:\n{self.err}"


class Cluster:
    """One cluster; several may exist at once. gpus: a number, or one per node. Not thread-safe.

    It lives no longer than this process, however that ends, unless detached."""

    def __init__(self, nodes=4, proctrack=TRACK, gpus=4, cpus=None, config=None, visible=(), detached=False):
        self.gpus = list(gpus) if isinstance(gpus, (list, tuple)) else [gpus] * nodes
        self.nodes = node_names(len(self.gpus))
        self.plan = {"proctrack": proctrack, "detached": detached, "nodes": self.nodes,
                     "visible": outermost({REPOSITORY, *visible})}
        self.cpus = cpus or max(4, *self.gpus)
        self.config = config or {}
        self.base = None
        self.keeper = None
        self.pids = {}
        self.ill = set()  # machines killed, cut or without slurmd

    @classmethod
    def of(cls, base):
        """One that runs, from its directory."""
        with open(base + "/plan.json") as f:
            plan = json.load(f)
        self = cls(len(plan["nodes"]))
        self.base, self.plan, self.nodes = base, plan, plan["nodes"]
        self.pids = self.ask("pids")
        return self

    # ---- life

    def up(self):
        reason = why_not(self.plan["proctrack"])
        if reason:
            raise ClusterError(f"no Slurm cluster here: {reason}")
        held = self.make_directory()
        try:
            self.write_files()
            with open(self.base + "/keeper.log", "w") as log:
                self.keeper = subprocess.Popen(
                    ["/usr/bin/python3", "-B", HERE + "/keeper.py", self.base], cwd="/", pass_fds=[held],
                    stdin=subprocess.DEVNULL if self.plan["detached"] else subprocess.PIPE,
                    stdout=log, stderr=log, start_new_session=True)
        finally:
            os.close(held)
        atexit.register(self.down)
        try:
            self.boot(LOGIN)
            self.boot(*self.nodes)
            self.await_nodes()
        except BaseException:
            self.down()
            raise
        if self.plan["detached"]:
            atexit.unregister(self.down)
        return self

    def make_directory(self):
        """Returns a descriptor whose lock says that the directory is in use; removes those that nobody uses."""
        room = os.open(ROOM, os.O_RDONLY)
        try:
            fcntl.flock(room, fcntl.LOCK_EX)
            for name in os.listdir(ROOM):
                if name.startswith(PREFIX):
                    remove_if_dead(os.path.join(ROOM, name))
            self.base = tempfile.mkdtemp(prefix=PREFIX, dir=ROOM)
            os.chmod(self.base, 0o755)
            held = os.open(self.base, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            return held
        finally:
            os.close(room)

    def write_files(self):
        base, proctrack = self.base, self.plan["proctrack"]
        os.makedirs(base + "/etc/slurm")
        os.mkdir(base + "/dev")
        for number in range(max(self.gpus)):  # of NVIDIA's number, without a device: Slurm only looks whether it is there
            os.mknod(f"{base}/dev/gpu{number}", 0o20666, os.makedev(195, number))
            os.chmod(f"{base}/dev/gpu{number}", 0o666)
        with open(os.open(base + "/etc/munge.key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(128))
        files = {"etc/hosts": slurm_conf.hosts(len(self.nodes)),
                 "etc/slurm/slurm.conf": slurm_conf.slurm_conf(base, self.gpus, self.cpus, proctrack, namespaces.unified(),
                                                               self.config),
                 "etc/slurm/gres.conf": slurm_conf.gres_conf(base, self.gpus),
                 "etc/slurm/cgroup.conf": slurm_conf.cgroup_conf(proctrack, namespaces.unified()),
                 "plan.json": json.dumps(self.plan)}
        for name, text in files.items():
            if text is not None:
                with open(f"{base}/{name}", "w") as f:
                    f.write(text)

    def down(self):
        """Removes every trace. May be called twice."""
        if self.base is None:
            return
        try:
            self.ask("down")
        except (OSError, ClusterError):
            pass  # it is not there any more, or closing the lifeline tells it
        if self.keeper:
            if self.keeper.stdin:
                self.keeper.stdin.close()
            try:
                self.keeper.wait(60)
            except subprocess.TimeoutExpired:
                self.keeper.kill()  # the machines die with it
                self.keeper.wait()
        remove_if_dead(self.base)
        self.base = self.keeper = None
        self.pids = {}
        atexit.unregister(self.down)

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()

    def ask(self, verb, *names):
        deadline = time.monotonic() + 10
        with socket.socket(socket.AF_UNIX) as s:
            while True:
                try:
                    s.connect(self.base + "/keeper.socket")
                    break
                except OSError:  # it has just been started
                    if self.keeper is None or self.keeper.poll() is not None or time.monotonic() > deadline:
                        raise ClusterError(f"the cluster {self.base} is gone: {tail(self.base + '/keeper.log')}")
                    time.sleep(0.01)
            with s.makefile("rw") as lines:
                lines.write(json.dumps({"verb": verb, "names": names}) + "\n")
                lines.flush()
                reply = json.loads(lines.readline() or '{"error": "the keeper ended"}')
        if "error" in reply:
            raise ClusterError(reply["error"])
        return reply["value"]

    def boot(self, *names):
        self.pids = self.ask("boot", *names)

    def await_nodes(self, *names, states=("idle",), guard=READY_GUARD):
        """Until each of the nodes (all if none is named) is in one of the states, in sinfo's words."""
        wanted = names or self.nodes
        deadline = time.monotonic() + guard
        while True:
            seen = self.states()
            if all(seen.get(name) in states for name in wanted):
                return
            if time.monotonic() > deadline:
                logs = [f"{self.base}/{LOGIN}/slurmctld.log", *(f"{self.base}/{n}/slurmd.log" for n in wanted)]
                raise ClusterError(f"not {'/'.join(states)} within {guard} s: {seen}\n" +
                                   "\n".join(f"{log}:\n{tail(log)}" for log in logs))
            time.sleep(0.1)

    def states(self):
        """What sinfo says of each node."""
        lines = self.run(LOGIN, ["sinfo", "-h", "-N", "-o", "%N %T"]).out.splitlines()
        return dict(line.split() for line in lines)

    # ---- commands

    def command(self, machine, argv, cwd="/", user=None):
        if machine not in self.pids:
            raise ClusterError(f"{machine} does not run")
        drop = []
        if user:
            entry = pwd.getpwnam(user)
            drop = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        return ["/usr/bin/nsenter", "-t", str(self.pids[machine]), "-n", "-u", "-i", "-m", "-p", "--wdns=" + cwd, "--",
                "/usr/bin/setpriv", "--pdeathsig", "KILL", *drop, *argv]

    def popen(self, machine, argv, cwd="/", user=None, env=None, **more):
        """A Popen whose child is the command; killing it kills the command."""
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(self.command(machine, argv, cwd, user), env={"PATH": PATH, **(env or {})}, **more)

    def run(self, machine, argv, guard=60, **more):
        process = self.popen(machine, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             errors="replace", **more)
        try:
            out, err = process.communicate(timeout=guard)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise ClusterError(f"on {machine}, still running after {guard} s: {argv}\n{out}\n{err}") from None
        return Done(process.returncode, out, err)

    def unread(self, node):
        """Bytes that have come in on the node's TCP connections and that no process of the node has read yet."""
        total = 0
        for version in ("tcp", "tcp6"):
            with open(f"/proc/{self.pids[node]}/net/{version}") as f:
                rows = [line.split() for line in f.readlines()[1:]]
            total += sum(int(row[4].split(":")[1], 16) for row in rows if row[3] == "01")
        return total

    # ---- failures

    def kill(self, node, fin=False):
        """Power loss. With fin, connections of its processes end in order, as when only the software dies."""
        if not fin:
            self.ask("cut", node)
        self.ask("kill", node)
        self.pids.pop(node)
        self.ill.add(node)

    def partition(self, node):
        self.ask("cut", node)
        self.ill.add(node)

    def blackhole(self, node):
        self.ask("drop", node)
        self.ill.add(node)

    def heal(self, node):
        self.ask("heal", node)

    def stop_slurmd(self, node):
        self.run(node, ["sh", "-c", "kill -9 $(cat /run/slurmd.pid)"])
        self.ill.add(node)

    def revive(self, node):
        """Boots a killed node, or starts its slurmd again."""
        if node not in self.pids:
            self.boot(node)
        else:
            self.run(node, ["slurmd"])

    def mend(self):
        """Makes everything whole again, whatever was done to it."""
        for node in sorted(self.ill):
            if node not in self.pids:
                self.boot(node)
            else:
                self.heal(node)
                if self.run(node, ["sh", "-c", "kill -0 $(cat /run/slurmd.pid)"]).code != 0:
                    self.run(node, ["slurmd"])
        self.ill.clear()


def outermost(paths):
    return [path for path in sorted(paths) if not any(path.startswith(other + "/") for other in paths)]


def remove_if_dead(base):
    """Removes a cluster's directory that no keeper uses any more."""
    try:
        held = os.open(base, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(base, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(held)


def the_running_one():
    chosen = os.environ.get("CXXRUN_SLURM_DIR")
    found = [chosen] if chosen else [os.path.join(ROOM, n) for n in os.listdir(ROOM) if n.startswith(PREFIX)]
    if len(found) != 1:
        sys.exit(f"cluster.py: {len(found)} clusters run: {' '.join(found) or 'start one with: cluster.py up'}"
                 + (" (choose one with CXXRUN_SLURM_DIR)" if found else ""))
    return Cluster.of(found[0])


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up")
    up.add_argument("--nodes", type=int, default=4)
    up.add_argument("--gpus", default="4")
    up.add_argument("--cgroup", action="store_true")
    up.add_argument("config", nargs="*")
    for verb in ("down", "status"):
        verbs.add_parser(verb)
    for verb in ("kill", "partition", "blackhole", "heal", "stop-slurmd", "revive"):
        verbs.add_parser(verb).add_argument("node")
    verbs.choices["kill"].add_argument("--fin", action="store_true")
    run = verbs.add_parser("exec")
    run.add_argument("machine")
    run.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    given = arguments()
    if given.verb == "up":
        gpus = [int(word) for word in given.gpus.split(",")]
        cluster = Cluster(given.nodes, "cgroup" if given.cgroup else TRACK,
                          gpus if len(gpus) > 1 else gpus[0], detached=True,
                          config=dict(line.split("=", 1) for line in given.config))
        print(cluster.up().base)
        return
    cluster = the_running_one()
    if given.verb == "status":
        print("\n".join(f"{name} {pid}" for name, pid in cluster.pids.items()))
        print(cluster.run(LOGIN, ["sinfo", "-N"]).out, end="")
    elif given.verb == "exec":
        command = cluster.command(given.machine, given.command, cwd=os.getcwd())
        os.execvp(command[0], command)
    elif given.verb == "down":
        cluster.down()
    elif given.verb == "kill":
        cluster.kill(given.node, given.fin)
    else:
        getattr(cluster, given.verb.replace("-", "_"))(given.node)


if __name__ == "__main__":
    try:
        main()
    except ClusterError as failure:
        sys.exit(f"cluster.py: {failure}")
