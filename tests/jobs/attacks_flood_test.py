"""Floods: what another user costs a job that sends much, or calls often. Takes a minute; labelled slow.
Usage: attacks_flood_test.py CXXRUN"""
import re
import resource
import signal
import subprocess
import sys
import unittest

import attack_jobs
import jobs
from attack_jobs import ATTACKER, NO_LINE, PROGRAM, VICTIM, Attack, SocketAttack, as_user
from jobs import read, wait_until
from stranger_jobs import listening

sys.path[:0] = [str(attack_jobs.HERE.parent / "faults"), str(attack_jobs.HERE.parent / "support")]
import machines
import wires

SILENT = 10_000
STORE_CAP = (1 << 30) + (256 << 20)  # docs/design/store_protocol.md: what it keeps, and replies that nobody takes
SLACK = 256 << 20  # of the program itself, and one request of each connection


def setUpModule():
    attack_jobs.share_programs()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))


class Floods(Attack):
    AREA = "floods"

    # Connections that say nothing; whoever is closed calls again.
    CROWD = """
import resource, select
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
port, count = int(sys.argv[1]), int(sys.argv[2])
poll, calls = select.epoll(), {}
def call():
    there = socket.socket()
    there.setblocking(False)
    there.connect_ex(("127.0.0.1", port))
    calls[there.fileno()] = there
    poll.register(there, select.EPOLLIN | select.EPOLLRDHUP)
for _ in range(count): call()
print("ready", flush=True)
while True:
    for fd, _ in poll.poll():
        poll.unregister(fd)
        calls.pop(fd).close()
        call()
"""

    def test_silent_connections_while_an_agent_joins(self):
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < SILENT + 100:
            self.skipTest(f"needs {SILENT + 100} descriptors (ulimit -Hn)")
        agents = self.form()
        self.start_ready(self.CROWD, self.port, SILENT)
        self.finish(agents)
        self.row(f"keeps {SILENT} connections open and says nothing, while the third of three agents joins",
                 "it joins", NO_LINE)

    # 4 GB of values, and as much asked for and not taken, on as many connections as it likes.
    FILL = """
text = lambda data: struct.pack("<Q", len(data)) + data
closed, calls = 0, []
for i in range(64):
    call = socket.create_connection(("127.0.0.1", int(sys.argv[1])), GUARD)
    call.settimeout(1)
    calls.append(call)
    try:
        call.sendall(bytes.fromhex("00cef7853c"))
        for j in range(2): call.sendall(bytes([1]) + text(b"/%d.%d" % (i, j)) + text(bytes(32 << 20)))
        call.sendall(bytes([10]) + struct.pack("<Q", 7) + text(b"/%d.0" % i) * 7)
    except OSError: closed += 1
print("ready", closed, flush=True)
time.sleep(GUARD)
"""

    def test_four_gigabytes_of_values_and_replies(self):
        """By who is let in: another user's connection is not served."""
        job = self.start("--standalone", self.worker("note at $CXXRUN_STORE_PORT; gate go; note done"))
        port = self.await_events(1, "at", 1)[0][3]
        other = self.start_other(self.FILL, port, **as_user(VICTIM))
        closed = int(other.stdout.readline().split()[1])
        self.assertGreater(closed, 30)
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", read(f"/proc/{job.agent_pid()}/status")).group(1)) << 10
        self.assertLess(peak, STORE_CAP + SLACK)
        self.release(job)
        self.assertEqual(self.events("done"), [(1, 0, "done")])
        self.row("sends the store 4 GB of values and asks for as many, on 64 connections",
                 "what goes beyond 1 GiB is closed; the agent's memory stays below 1.5 GiB and the job goes on",
                 self.line([job], "the store would hold more than"), who="a process of the same user")


@unittest.skipIf(wires.missing("setpriv"), wires.missing("setpriv"))
class Election(Attack):
    """Three nodes, each a network namespace; the first one is lost while the others' standby ports are flooded."""
    AREA = "floods"
    CALLS = 8000  # of each flooder

    # Calls as an agent does and proves nothing; whoever is closed calls again.
    CALL = """
import resource, select
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
poll, calls, word = select.epoll(), {}, frame(call_of_nobody())
def call():
    there = socket.socket()
    there.setblocking(False)
    there.connect_ex((sys.argv[1], int(sys.argv[2])))
    calls[there.fileno()] = there
    poll.register(there, select.EPOLLOUT | select.EPOLLRDHUP)
for _ in range(int(sys.argv[3])): call()
print("ready", flush=True)
while True:
    for fd, happened in poll.poll():
        if happened & (select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP):
            poll.unregister(fd)
            calls.pop(fd).close()
            call()
        else:
            calls[fd].send(word)
            poll.modify(fd, select.EPOLLRDHUP)
"""

    def flood(self, net, address, port):
        process = subprocess.Popen(
            ["nsenter", f"--net={net}", "setpriv", f"--reuid={ATTACKER}", "--clear-groups", "/usr/bin/python3", "-c",
             PROGRAM + "import sys\n" + self.CALL, address, str(port), str(self.CALLS)], stdout=subprocess.PIPE, cwd="/",
            preexec_fn=machines.die_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def test_flooded_standby_ports(self):
        with wires.Wires(3) as wired, machines.Cluster(wired, self.dir) as cluster:
            cluster.start(jobs.CXXRUN, ["--nnodes", "2:3", "--log-dir", "/dev/null"], ["sleep", "1000"], {"HOME": self.dir},
                          derived=True)
            said = lambda: "".join(machine.said for machine in cluster.machines)
            wait_until(lambda: "generation 1 runs: 3 nodes" in said(), "they run")
            flooders = []
            for called in (1, 2):
                [agent] = cluster.machines[called].agent()
                for port in listening(agent, f"/proc/{agent}/net"):
                    flooders += [self.flood(wired.hosts[caller].net, wired.hosts[called].address, port) for caller in (1, 2)]
            for each in flooders:
                each.stdout.readline()
            wait_until(lambda: "one of many" in said(), "it is crowded")
            machines.send(cluster.machines[0].all(), signal.SIGKILL)
            wait_until(lambda: re.search(r"generation \d+ runs: 2 nodes", said()), "the others go on: " + said())
            line = next(line for line in said().splitlines() if "one of many" in line)
        self.row(f"calls the standby ports of two nodes on {2 * self.CALLS} connections each, from both of them, while the "
                 "first node is lost", "the others elect a coordinator and go on",
                 re.sub(r"connection from [\d.]+", "connection from ADDRESS", line), who=f"uid {ATTACKER} on the same nodes")


class Sockets(SocketAttack):
    AREA = "floods"

    def test_six_flooders_for_15_seconds(self):
        job, names = self.job_with_sockets()
        others = [self.start_other(self.CALL, 15, *names) for _ in range(6)]
        for other in others:
            self.assertEqual(other.communicate(timeout=jobs.GUARD)[0].split(), ["PermissionError"])
        self.row("calls the sockets at which workers meet their agent, from six processes for 15 s without a pause",
                 "none of them gets there", NO_LINE)
        self.end(job)


if __name__ == "__main__":
    jobs.main()
