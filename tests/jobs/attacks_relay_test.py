"""Another user has the first port of a job and passes on what an agent says there to the coordinator, from a process on the
agent's host that has the agent's own source port. It ends that connection when it likes. Hosts are network namespaces.
Usage: attacks_relay_test.py CXXRUN. Exit code 77: skipped, with the reason."""
import secrets

import attack_jobs
import jobs
import wires
from attack_jobs import ATTACKER, VICTIM, Attack
from attacker import hidden_ports, secret_key
from attacks_ports_test import derived_ports

PASS = """
import select, threading
silent = False
def pass_on(one, other):
    while True:
        for end in select.select([one, other], [], [])[0]:
            data = end.recv(65536)
            if silent: time.sleep(999)
            if not data: one.close(); other.close(); return
            (other if end is one else one).sendall(data)
"""

# On the agent's host: told of a source port, it calls the coordinator from there.
CALLER = PASS + """
def from_port(port, to):
    call = socket.socket()
    try: call.setsockopt(socket.IPPROTO_IP, 51, struct.pack("HH", port, port))  # IP_LOCAL_PORT_RANGE, Linux 6.3
    except OSError: pass
    for _ in range(200000):
        call.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        call.connect(to)
        if not port or call.getsockname()[1] == port: return call
        call.close()
        call = socket.socket()
door = socket.create_server((sys.argv[1], 0))
print(door.getsockname()[1], flush=True)
while True:
    back, _ = door.accept()
    port, host, to = back.recv(99).decode().split()
    call = from_port(int(port), (host, int(to)))
    back.sendall(b"!")
    threading.Thread(target=pass_on, args=(back, call), daemon=True).start()
"""

# On the coordinator's host: HOST PORT-IT-HAS PORT-OF-THE-COORDINATOR HOST PORT-OF-CALLER; "any" or "same" source port.
RELAY = PASS + """
def serve():
    while True:
        call, (_, port) = door.accept()
        try:
            other = socket.create_connection((sys.argv[4], int(sys.argv[5])))
            other.sendall(f"{port if sys.argv[6] == 'same' else 0} {sys.argv[1]} {sys.argv[3]}".encode())
            other.recv(1)
        except OSError: continue
        passed.append(call)
        threading.Thread(target=pass_on, args=(call, other), daemon=True).start()
passed, door = [], socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=100)
print("ready", flush=True)
threading.Thread(target=serve, daemon=True).start()
for how in sys.stdin:
    silent = how.strip() == "silence"
    for call in passed if not silent else []:
        try: call.shutdown(socket.SHUT_RDWR)
        except OSError: pass
    print("done", len(passed), flush=True)
"""


def setUpModule():
    attack_jobs.share_programs()


class Relays(Attack):
    AREA = "ports"

    def setUp(self):
        super().setUp()
        self.net = wires.Wires(2)
        self.addCleanup(self.net.close)
        self.first = self.net.hosts[0].address
        self.secret = secrets.token_hex(32)
        self.taken = hidden_ports(secret_key(self.secret), derived_ports(f"job:{self.port}"))  # as if it knew them

    def inside(self, host, uid):
        return ("nsenter", f"--net={self.net.hosts[host].net}", "setpriv", f"--reuid={uid}", f"--regid={uid}",
                "--clear-groups")

    def start_on(self, host, rank, *options):
        return self.start("--nnodes", "2", "--node-rank", str(rank), "--master-addr", self.first, "--master-port",
                          str(self.port), "--rdzv-id", "job", *options, self.program, behind=self.inside(host, VICTIM),
                          env={"CXXRUN_SECRET": self.secret}, **attack_jobs.as_user(0))

    def attack_on(self, host, body, *arguments):
        """Returns it and what it says first."""
        process = self.start_other(body, *arguments, inside=self.inside(host, ATTACKER), **attack_jobs.as_user(0))
        return process, process.stdout.readline().strip()

    def try_relay(self, attack, host, source, how, *options):
        """`host`: where the second agent runs."""
        self.caller, port = self.attack_on(host, CALLER, self.net.hosts[host].address)
        relay, _ = self.attack_on(0, RELAY, self.first, self.taken[0], self.taken[1], self.net.hosts[host].address, port,
                                  source)
        agents = [self.start_on(0, 0)]
        agents[0].says("waiting for nodes")
        agents.append(self.start_on(host, 1, *[each.format(self.net.hosts[host].address) for each in options]))
        self.await_events(2, "start", 1)
        relay.stdin.write(how + "\n")
        relay.stdin.flush()
        self.assertRegex(relay.stdout.readline(), "done [1-9]")  # it was called
        line = self.line(agents, "the connection is relayed: begun ")
        self.release(*agents)
        self.assertEqual(sorted(self.events("done")), [(1, 0, "done"), (1, 1, "done")])
        self.assertEqual(len(self.events("start")), 2)
        self.row("has the first port, and passes all bytes on unchanged from " + attack, "the agents meet at the next port",
                 line, who=f"uid {ATTACKER} on both nodes" if host else f"uid {ATTACKER} on the same node")


# from where (the row's name), host of the second agent, source port, how it ends, options of the second agent
WAYS = (
    ("the agent's own source port, on its host, and hangs up", 1, "same", "end"),
    ("the agent's own source port, on its host, and falls silent", 1, "same", "silence"),
    ("the agent's own source port, with several tasks on the node, and hangs up", 0, "same", "end"),
    ("any port of the agent's host, where that was given --local-addr, and hangs up", 1, "any", "end", "--local-addr", "{}"),
    ("the agent's own source port, where that was given --local-addr, and falls silent", 1, "same", "silence",
     "--local-addr", "{}"),
)
attack_jobs.tests_of(Relays, WAYS, Relays.try_relay)


if __name__ == "__main__":
    jobs.main(wires.missing("setpriv"))
