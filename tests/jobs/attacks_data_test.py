"""Another user at the store of a job, and at the ports where its ranks wait for each other.
Usage: attacks_data_test.py CXXRUN TRAIN"""
import os
import subprocess
import sys

import attack_jobs
import jobs
from attack_jobs import ATTACKER, NO_LINE, VICTIM, Attack
from jobs import wait_until
from stranger_jobs import listening
from train_jobs import FINAL

TRAIN = ""
STEPS = "30"


def setUpModule():
    global TRAIN
    [TRAIN] = attack_jobs.share_programs(TRAIN)


class Training(Attack):
    def train_pair(self, *options):
        """Two agents with two workers each that take each other for another host's, and so use TCP; they wait for each
        other when this returns."""
        agents = []
        for host in ("a", "b"):
            agents.append(self.start_node("--nproc-per-node", "2", *options, TRAIN, "--steps", STEPS, "--batch", "2", "--quiet",
                                          env={"CXXRUN_HOST_ID": host}))
            agents[0].says("waiting for nodes")
        return agents

    def gate_of_health(self):
        """For --health-check: no worker is started before the gate is opened."""
        return self.worker('echo "1 0 healthy" >> $DIR/events; gate go', "health")

    def figures(self, agents):
        self.assert_codes([0, 0], *agents)
        self.assertNotIn("restart", "".join(agent.stderr for agent in agents))
        return FINAL.findall(agents[0].stdout + agents[1].stdout)


class Ranks(Training):
    AREA = "ranks"

    # Greets as each rank, at each port at which a process of the victim's listens, as fast as it can.
    GREET = """
victim, heard, greeted = sys.argv[1], set(), 0
def ports():
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in open(table).readlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[7] == victim: yield int(words[1].rsplit(":", 1)[1], 16)
print("ready", flush=True)
while os.getppid() == int(sys.argv[2]):
    for port in set(ports()):
        for rank in range(4):
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as call:
                    call.settimeout(0.01)
                    head = struct.pack("=QIIiiQQ", 0x6c69617278786301, 1, rank % 2, rank, (rank + 2) % 4, 1, 7)
                    call.sendall(head + bytes(72))
                    greeted += 1
                    heard.add(len(call.recv(1 << 20)))
            except OSError: pass
    with open(sys.argv[3] + ".new", "w") as report: report.write(f"{greeted} {max(heard, default=0)}")
    os.replace(sys.argv[3] + ".new", sys.argv[3])
"""

    def test_greets_as_each_of_them(self):
        undisturbed = self.figures(self.train_pair())
        report = self.shared("report", 0o777) + "/report"
        self.start_ready(self.GREET, VICTIM, os.getpid(), report)
        self.port = jobs.free_port()
        agents = self.train_pair("--health-check", self.gate_of_health())
        wait_until(lambda: int((jobs.read(report).split() or [0])[0]) > 10, "the attacker is at it")
        self.open_gate("go")
        self.assertEqual(self.figures(agents), undisturbed)
        heard = int(jobs.read(report).split()[1])
        self.assertLessEqual(heard, 112)  # a greeting, and nothing behind it
        self.row("greets as each rank at each port where ranks and agents listen, all the time while they meet and train",
                 "it hears a greeting at most; the figures are those of an undisturbed run", NO_LINE)


class Store(Training):
    AREA = "store"

    TOUCH = """
text = lambda data: struct.pack("<Q", len(data)) + data
greet = bytes.fromhex("00cef7853c")
for said in (bytes([1]) + text(b"/k") + text(b"forged"), bytes([3]) + text(b"/k"), bytes([8]) + text(b"/k"),
             bytes([10]) + struct.pack("<Q", 4) + text(b"/k") * 4, bytes([7])):
    print(len(told(int(sys.argv[1]), greet + said)))
"""

    def setUp(self):
        super().setUp()
        if "--store-access" not in subprocess.run([jobs.CXXRUN, "--help"], capture_output=True, text=True).stdout:
            self.skipTest("this version lets everybody into the store")

    def test_reads_and_writes(self):
        job = self.start("--standalone", self.worker("note at $CXXRUN_STORE_PORT; gate go; note done"))
        port = self.await_events(1, "at", 1)[0][3]
        self.assertEqual(self.as_other(self.TOUCH, port), ["0"] * 5)
        line = self.line([job], f"it belongs to uid {ATTACKER}, not {VICTIM}")
        self.release(job)
        self.row("reads, overwrites and deletes keys, and asks for one many times", "each connection is closed unread", line)

    CROWD = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
calls = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(2000)]
print("ready", flush=True)
sys.stdin.read()
"""

    def test_keeps_connections(self):
        undisturbed = self.figures(self.train_pair())
        master = jobs.free_port()
        self.port = jobs.free_port()
        agents = self.train_pair("--master-port", str(master), "--health-check", self.gate_of_health())
        self.await_events(2, "healthy")
        wait_until(lambda: listening(agents[0].agent_pid()) & {master}, "the store listens")
        self.start_ready(self.CROWD, master)
        self.open_gate("go")
        self.assertEqual(self.figures(agents), undisturbed)
        self.row("keeps 2000 connections open and says nothing, before the ranks meet", "they meet; the figures are those of "
                 "an undisturbed run", self.line(agents, f"it belongs to uid {ATTACKER}, not {VICTIM}"))


if __name__ == "__main__":
    TRAIN = os.path.abspath(sys.argv.pop(2))
    jobs.main()
