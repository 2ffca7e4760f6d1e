"""What tests share in which coordinators are lost: jobs of named nodes, what befalls them, what they write of it."""
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess

from jobs import Hang, JobCase, children, read, wait_until
from stranger_jobs import sockets_of

WAITS = "waits until no older worker can be alive"  # and so for a whole lease


class LossCase(JobCase):
    """Nodes with one worker each, called a, b, c in the order of their ranks. Workers run until the gate is opened."""

    def setUp(self):
        super().setUp()
        self.program = self.worker('note start "$NODE" "$WORLD_SIZE" $$ "$MASTER_ADDR"\ngate go')
        self.nodes = {}
        self.stopped = set()

    def tearDown(self):
        self.go_on(*self.stopped)
        super().tearDown()

    # ---- the job

    def add(self, name, *arguments, env=None, start=None):
        start = start or self.start_node
        self.nodes[name] = start(*arguments, "--log-level", "debug", self.program, env={"NODE": name, **(env or {})})
        return self.nodes[name]

    def start_nodes(self, names, nnodes, *arguments, each=None):
        """The first one coordinates. `each`: what is given to one alone."""
        for rank, name in enumerate(names):
            self.add(name, "--nnodes", nnodes, "--node-rank", str(rank), *arguments, *(each or {}).get(name, ()))
            if rank == 0:
                self.nodes[name].says("waiting for ")  # on one machine whoever is first hosts

    def start_step(self, names, nnodes, *arguments, each=None, missing=""):
        """The same as tasks of a step of Slurm's, which knows how many nodes there are. `missing`: those never come."""
        count = len(names)
        self.job = str(random.randrange(10**6, 10**9))  # the ports follow from it
        for index, name in enumerate(names):
            if name in missing:
                continue
            step = {"JOB_ID": self.job, "STEP_ID": "0", "CLUSTER_NAME": "lab", "NO_KILL": "set", "LOCALID": "0",
                    "STEP_NODELIST": f"127.0.0.[1-{count}]", "STEP_TASKS_PER_NODE": f"1(x{count})",
                    "STEP_NUM_NODES": str(count), "STEP_NUM_TASKS": str(count), "NODEID": str(index),
                    "PROCID": str(index)}
            self.add(name, "--nnodes", nnodes, *arguments, *(each or {}).get(name, ()), start=self.start,
                     env={f"SLURM_{variable}": value for variable, value in step.items()})

    def generation_of(self, names, after=0):
        """(generation, {node: pid of its worker}) of a later generation of just these nodes; None: there is none."""
        for generation in sorted({event[0] for event in self.events("start")}, reverse=True):
            events = self.events("start", generation)
            workers = {event[3]: int(event[5]) for event in events}
            whole = {event[4] for event in events} == {str(len(names))}
            if generation > after and whole and workers.keys() == set(names):
                return generation, workers
        return None

    def formed(self, names, after=0):
        """Waits for it, and returns it. None of these nodes ends meanwhile."""
        def found():
            ended = {name: self.nodes[name].process.poll() for name in names}
            self.assertEqual(set(ended.values()), {None}, f"{ended}{self.said()}")
            return self.generation_of(names, after)
        try:
            return wait_until(found, f"a generation of {', '.join(names)} after {after}")
        except Hang as hang:
            raise Hang(f"{hang}\nevents: {self.events()}{self.said()}") from None

    def said(self):
        return "".join(f"\n{name}:\n{agent.stderr}" for name, agent in self.nodes.items())

    def leader(self, generation):
        """Whoever has started it."""
        def found():
            return [name for name, agent in self.nodes.items() if f": generation {generation} runs: " in agent.stderr]
        [name] = wait_until(found, f"who leads generation {generation}")
        return name

    def finish(self, *names):
        self.release(*(self.nodes[name] for name in names))

    # ---- what happens to it

    def pids(self, name):
        """Of its worker, the agent and the parent: none of them ends because another one was killed before."""
        agent = self.nodes[name].agent_pid()
        return [*children(agent), agent, self.nodes[name].pid]

    def kill(self, *pids):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.stopped -= set(pids)

    def stop(self, *pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            self.stopped.add(pid)

    def go_on(self, *pids):
        for pid in set(pids) & self.stopped:
            if os.path.exists(f"/proc/{pid}"):
                os.kill(pid, signal.SIGCONT)
        self.stopped -= set(pids)

    def lose_agent(self, name):
        """Its parent tells of its death, when it is over."""
        self.kill(self.nodes[name].agent_pid())

    def lose_leader(self, names, after):
        """Of the next generation, which these nodes form; the others go on, and end well."""
        generation, _ = self.formed(names, after)
        leader = self.leader(generation)
        self.lose_agent(leader)
        left = sorted(set(names) - {leader})
        self.formed(left, generation)
        self.finish(*left)

    def lose_node(self, name):
        """Nobody of it can tell of its death."""
        pids = self.pids(name)
        self.stop(*pids)
        self.kill(*pids)

    def end_worker(self, name, pid, generation):
        """The agent knows of it when this returns."""
        self.kill(pid)
        self.nodes[name].says(f"generation {generation}: every worker has ended")

    # ---- its records

    def record(self, name):
        """The events that this node has written as the coordinator."""
        text = "".join(map(read, glob.glob(f"{self.path(name)}/*/events.jsonl")))
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()][1:]

    def await_record(self, name, kind, **fields):
        """All that it has written up to the first such event, with it."""
        def found():
            events = self.record(name)
            for at, event in enumerate(events):
                if event["kind"] == kind and fields.items() <= event.items():
                    return events[:at + 1]
            return None
        return wait_until(found, f"{kind} {fields} in the record of {name}")

    def assert_concludes_nothing(self, name, names, after):
        """It comes back instead, and all run."""
        agent = self.nodes[name]
        wait_until(lambda: "verdict: " in agent.stderr or self.generation_of(names, after), "all run, or a verdict")
        self.assertNotIn("verdict: ", agent.stderr)
        self.formed(names, after)
        self.assertEqual(glob.glob(f"{self.path(name)}/*/verdict.json"), [])


def connections(pid):
    """(local port, port of the other end) of its TCP connections."""
    inodes, found = sockets_of(pid), set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "01" and fields[9] in inodes:
                found.add(tuple(int(end.rsplit(":", 1)[1], 16) for end in fields[1:3]))
    return found


def reset(which):
    """Both ends of these connections hear of a reset, as from a firewall that has forgotten them."""
    ends = {*which, *((far, near) for near, far in which)}
    words = " or ".join(f"( sport = :{near} and dport = :{far} )" for near, far in ends)
    subprocess.run(["ss", "-K", "-t", "state", "established", f"( {words} )"], capture_output=True, check=True)


def why_no_resets():
    """None: connections can be reset here."""
    if os.geteuid() != 0 or shutil.which("ss") is None:
        return "needs root and ss (Debian: iproute2), to reset connections"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            far.settimeout(0)
            try:
                reset([(near.getsockname()[1], server.getsockname()[1])])
                far.recv(1)
            except (subprocess.CalledProcessError, BlockingIOError):
                return "the kernel lets nobody reset connections (CONFIG_INET_DIAG_DESTROY)"
            except OSError:
                pass
    return None
