"""Another user has the ports at which a job would meet, and answers there. Whatever it says, the agents try the next
port and meet, or read in the home directory where. A port that the job has had it does not get while anybody may call
there. Usage: attacks_ports_test.py CXXRUN"""
import os
import re
import secrets
import signal
import subprocess
import time

import attack_jobs
import jobs
import munged
import wires
from attack_jobs import ATTACKER, NO_LINE, VICTIM, Attack, as_user
from attacker import Caller, Sealed, call_of_nobody, frame, grant, hidden_ports, secret_key, wraps_of

TRIED = 16  # ports that everybody can compute, of a job that is given none
GENERATION = """{"type": "generation", "sent": 1, "generation": {
    "number": 1, "restarts": 0, "max_restarts": 0, "group_rank": 0, "group_size": 1, "rank_base": 0, "local_size": SIZE,
    "world_size": SIZE, "role_base": 0, "role_size": SIZE, "master_addr": "127.0.0.1", "master_port": 1, "store_port": 1,
    "successors": [], "decree": {"after": 0, "number": 1, "size": 1, "coordinator": 0, "restarts": 0, "failures": 0,
    "alike": 0, "look": 0, "history": HISTORY, "faults": [], "members": 1, "tie": "none"}, "coordinator": "", "survives": False,
    "hosts": "", "local_sizes": ""}}"""

# Listens at every port given. `serve` answers one caller.
SQUAT = """
import select, threading
ACCEPTED = {"hello": "cxxrun", "version": VERSION, "coordinator": "c", "answer": "accepted", "run_id": "job",
            "refused": ""}
START, FINISHED = {"type": "start", "generation": 1, "echo": 0, "left_ms": 9999}, {"type": "finished", "exit_code": 0,
                                                                              "line": "success"}
def serve(call):
    SERVE
def safely(call):
    try:
        with call: serve(call)
    except (OSError, TypeError): pass
doors = []
for port in sys.argv[1:]:
    try: doors.append(socket.create_server(("127.0.0.1", int(port)), backlog=100))
    except OSError: pass  # another program's, which is as well
print("ready", flush=True)
while True:
    for door in select.select(doors, [], [])[0]:
        threading.Thread(target=safely, args=(Caller(0, door.accept()[0]),), daemon=True).start()
"""


def coordinator(size):
    """Speaks in clear, as if nobody asked for proof: a generation, its start, and the job is over."""
    return f"call.send(ACCEPTED, {' '.join(GENERATION.replace('SIZE', str(size)).split())}, START, FINISHED); " \
        "call.wait()"


# what was tried (the row's name), how it answers, what the agents say
WAYS = (
    ("answers as a coordinator in clear, and says that the job has succeeded", coordinator(1),
     "it does not speak cxxrun's handshake; trying the next port"),
    ("answers as a coordinator in clear, with 4294967295 workers for the node", coordinator(2**32 - 1),
     "it does not speak cxxrun's handshake; trying the next port"),
    ("says other_version in clear",
     'call.send({**ACCEPTED, "answer": "other_version", "refused": "this coordinator speaks version 9"}); call.wait()',
     "it does not speak cxxrun's handshake; trying the next port"),
    ("answers with the handshake of another version",
     "call.send(frame(HEAD[:-1] + bytes([9]) + bytes(40))); call.wait()",
     "its handshake has version 9, this one has 2; use the same cxxrun on all nodes; trying the next port"),
    ("answers with a key of its own, wrapped under a secret of its own",
     'call.send(frame(answer_to(b"k" * 32, (2, wrap(b"s" * 32, grant(b"k" * 32, "run job")))))); call.wait()',
     "it has a different secret; set CXXRUN_SECRET_FILE"),
    ("answers with a key of its own and no wrap, as if the methods had been stripped",
     'call.send(frame(answer_to(b"k" * 32))); call.wait()',
     "it offers no way to get its key; set CXXRUN_SECRET_FILE"),
    ("answers with escapes and newlines",
     r'call.send(b"\x1b[2J\nFORGED cxxrun: verdict: success\n" * 99); call.wait()',
     "protocol error: frame of 458961482 bytes announced"),
)


# With the key of an old run, and one of its wraps: proves itself, and says that the job is over.
PROVEN = """
    def asked(port, heard):
        with Caller(port) as there:
            there.send(frame(heard))
            return wraps_of(there.hear_frame())
    key, wraps = bytes.fromhex("KEY"), WRAPS
    heard = call.hear_frame()
    answer = answer_to(key, *wraps(heard))
    call.send(frame(answer))
    _, ours = channel_keys(key, heard, answer)
    for number, message in enumerate((ACCEPTED, GENERATION, START, FINISHED)):
        call.send(frame(seal(ours, number, json.dumps(message).encode())))
    call.wait()"""


def setUpModule():
    attack_jobs.share_programs()


def derived_ports(seed, count=TRIED):
    """src/base/core/ports.hpp"""
    digest = 0xcbf29ce484222325
    for byte in seed.encode():
        digest = (digest ^ byte) * 0x100000001b3 % 2**64
    start, stride = digest % 11987, 1 + (digest >> 32) % 11986
    return [20000 + (start + i * stride) % 11987 for i in range(count)]


class Ports(Attack):
    AREA = "ports"

    def setUp(self):
        super().setUp()
        self.secret = secrets.token_hex(32)
        self.open = derived_ports(f"job:{self.port}")
        self.taken = hidden_ports(secret_key(self.secret), self.open) + self.open  # as if the attacker knew the first ones

    def squat(self, serve, count=1):
        self.squat_at(self.taken[:count], serve)

    def squat_at(self, ports, serve="call.wait()"):
        self.start_ready(SQUAT.replace("SERVE", serve), *ports)

    def squat_with(self, key, wraps):
        """With an old key; `wraps`: a function of the call, as text."""
        generation = " ".join(GENERATION.replace("SIZE", "1").split())
        self.squat(PROVEN.replace("KEY", key.hex()).replace("WRAPS", wraps).replace("GENERATION", generation))

    def end(self, agent):
        agent.process.terminate()
        agent.wait()

    def start_ranked(self, rank, *options, **env):
        return self.start("--nnodes", "2", "--node-rank", str(rank), "--master-addr", "127.0.0.1", "--master-port",
                          str(self.port), "--rdzv-id", "job", *options, self.program,
                          env={"CXXRUN_SECRET": self.secret, **env})

    def run_both(self):
        """Both agents meet, run one generation and end well."""
        agents = [self.start_ranked(0)]
        agents[0].says("waiting for nodes")
        agents.append(self.start_ranked(1))
        self.await_events(2, "start", 1)
        self.release(*agents)
        self.assertEqual(sorted(self.events("done")), [(1, 0, "done"), (1, 1, "done")])
        return agents


class Squatted(Ports):
    def try_way(self, attack, serve, text):
        self.squat(serve)
        agents = self.run_both()
        line = self.line(agents, text)
        self.assertNotRegex(self.said(agents), "\x1b|\nFORGED")
        self.row(f"has the first port, and {attack}", "the agents meet at the next port", line)

    def test_all_but_one(self):
        self.squat(WAYS[0][1], len(self.taken) - 1)
        agents = self.run_both()
        self.row("has all ports but the last one", "the agents meet there", self.line(agents, WAYS[0][2]))

    def test_all_that_it_can_compute(self):
        self.squat_at(self.open)
        agents = self.run_both()
        self.assertNotIn("cannot authenticate coordinator", self.said(agents))
        self.row(f"listens at the {TRIED} ports that everybody can compute, and says nothing",
                 "the agents meet at one that follows from their secret",
                 self.line(agents, f"hold the {TRIED} ports that a node without this node's secret calls"))

    def test_all(self):
        self.squat_at(self.taken)
        agents = self.run_both()
        line = re.sub(r"meeting\.\d+\.\d+", "meeting.PORT.PORT", self.line(agents, "hold all ports of this job"))
        self.row("listens at all ports of the job, as if it knew them, and says nothing",
                 "the agents meet at another one, which the discovery file tells", line)
        self.assertEqual(os.listdir(self.path(".cxxrun/rendezvous")), [])  # it ends with the job

    def test_all_without_a_shared_directory(self):
        self.squat_at(self.taken)
        agent = self.start_ranked(0, HOME=None)
        self.assertEqual(agent.wait(), 111, agent.stderr)
        self.assertEqual(self.events(), [])
        self.row("the same, where the nodes share neither a home directory nor `CXXRUN_DISCOVERY_DIR`",
                 "the job ends by name and has started nothing",
                 agent.stderr.splitlines()[0], code=111)

    def test_all_that_it_can_compute_of_other_secrets(self):
        """Two homes, and no MUNGE: the second agent finds the first, and says what is wrong."""
        agents = [self.start_ranked(0)]
        agents[0].says("waiting for nodes")
        agents.append(self.start_ranked(1, CXXRUN_SECRET=secrets.token_hex(32)))
        agents[1].says("cannot authenticate coordinator at ")
        agents[1].says(": it has a different secret")

    def test_passes_everything_on(self):
        """A relay that changes nothing: it proves what the coordinator proves, and is recognised all the same."""
        self.squat(f'''
    to = socket.create_connection(("127.0.0.1", {self.taken[1]}), GUARD)
    while True:
        for end in select.select([call.socket, to], [], [])[0]:
            data = end.recv(65536)
            if not data: return
            (to if end is call.socket else call.socket).sendall(data)''')
        agents = self.run_both()
        self.row("has the first port, and passes all bytes on unchanged to the coordinator and back",
                 "the agents meet at the next port", self.line(agents, "the connection is relayed: begun at "))


class OldKeys(Ports):
    """The key of an old run of the same user, from a discovery file or a core of root's on a node that it had."""
    AREA = "keys"

    def open_old(self, run):
        """A run that waits for nodes, its port and its key, and a call with what it was answered."""
        port = jobs.free_port()
        old = self.start("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", run, self.program,
                         env={"CXXRUN_SECRET": self.secret})
        old.says("waiting for nodes")
        with Sealed(port, secret=self.secret) as call:
            return old, port, call.key, call.wraps

    def test_an_old_key_with_the_wrap_that_was_sent_then(self):
        old, _, key, wraps = self.open_old("job")  # the very same name
        self.end(old)
        self.squat_with(key, f"lambda _: [(2, {wraps[2]!r})]")
        agents = self.run_both()
        self.row("has the first port, and answers with the key of an old run of that name and the wrap that was sent then",
                 "the agents meet at the next port", self.line(agents, "it replays an answer to another connection"),
                 who="whoever has that key")

    def test_the_key_of_a_run_that_goes_on_with_a_wrap_for_this_call(self):
        other, port, key, _ = self.open_old("other")
        self.squat_with(key, f"lambda heard: [(2, asked({port}, heard)[2])]")
        agents = self.run_both()
        self.assertNotIn("cannot authenticate coordinator", self.said(agents))
        self.row("has the first port and the key of another run, which it asks for a wrap for the agent that calls",
                 "the agents meet at the next port", NO_LINE, who="whoever has that key")
        self.end(other)


class Credentials(Ports):
    """MUNGE decodes what anybody made for us. The squatter's key would be taken for the job's."""
    AREA = "keys"

    def setUp(self):
        super().setUp()
        if munged.missing():
            self.skipTest(munged.missing())
        self.taken = self.open
        self.node = munged.Munged(secrets.token_bytes(64))
        self.addCleanup(self.node.close)

    def start_ranked(self, rank, *options):
        """Within reach of munged, as the victim."""
        self.secret = None
        behind = self.node.inside("setpriv", f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups")
        return self.start("--nnodes", "2", "--node-rank", str(rank), "--master-addr", "127.0.0.1", "--master-port",
                          str(self.port), "--rdzv-id", "job", *options, self.program, behind=behind, env={"HOME": None},
                          **attack_jobs.as_user(0))

    def offer(self, uid):
        """A credential for that user, made by the attacker, with a key of its own in it."""
        made = subprocess.run(self.node.inside("setpriv", f"--reuid={ATTACKER}", "--clear-groups", "munge",
                                               f"--restrict-uid={uid}"),
                              input=grant(b"k" * 32, "run job"), capture_output=True, check=True)
        return f'call.send(frame(answer_to(b"k" * 32, (1, {made.stdout.strip()!r})))); call.wait()'

    def test_of_an_old_run(self):
        """The very same name; its key, and the credential that was sent then."""
        old = self.start_ranked(0)
        old.says("waiting for nodes")
        with Caller(self.taken[0]) as call:
            call.send(frame(call_of_nobody()))
            credential = wraps_of(call.hear_frame())[1]
        self.end(old)
        opened = subprocess.run(self.node.inside("setpriv", f"--reuid={VICTIM}", "--clear-groups", "unmunge", "-m", "/dev/null"),
                                input=credential, capture_output=True, check=True)
        self.squat_with(opened.stdout[13:45], f"lambda _: [(1, {credential!r})]")
        agents = self.run_both()
        self.row("has the first port, and answers with the key of an old run of that name and the MUNGE credential that was sent "
                 "then", "the agents meet at the next port", self.line(agents, "it replays an answer to another connection"),
                 who="whoever has that key")

    def test_made_for_the_victim(self):
        self.squat(self.offer(VICTIM))
        agents = self.run_both()
        self.row("has the first port, and answers with a key in a MUNGE credential that it has made for the victim",
                 "the agents meet at the next port", self.line(agents, f"the credential was made by uid {ATTACKER}"))

    def test_made_for_somebody_else(self):
        self.squat(self.offer(ATTACKER))
        agents = self.run_both()
        self.row("has the first port, and answers with a MUNGE credential that the victim may not decode",
                 "the agents meet at the next port", self.line(agents, ": munged: Unauthorized"))


# Tries to listen at the port given all the time, in every way; says when it does.
SPIN = """
port, ways = int(sys.argv[1]), [(socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET, "127.0.0.1")]
print("ready", flush=True)
while True:
    for family, address in ways:
        with socket.socket(family) as door:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                door.bind((address, port))
                door.listen()
            except OSError: continue
            print(time.monotonic(), flush=True)
            time.sleep(GUARD)
"""


class Kept(Ports):
    """Workers believe whoever answers at MASTER_PORT."""

    def try_to_get(self):
        self.spinner = self.start_ready(SPIN, self.port)

    def got_at(self):
        """When it got the port in the end."""
        return float(self.spinner.stdout.readline())

    def lose_first_node(self, victim):
        """One of the two processes that its node is, by name."""
        self.program = self.worker('trap "" TERM; note at $MASTER_PORT; gate go')
        host, other = [self.start_ranked(rank, "--restart-timeout", "0.2", "--heartbeat-timeout", "60")
                       for rank in (0, 1)]
        self.assertEqual({event[3] for event in self.await_events(2, "at", 1)}, {str(self.port)})
        self.try_to_get()
        inner = host.agent_pid()
        os.kill(inner if victim == "agent" else host.pid, signal.SIGKILL)
        self.assertEqual(other.wait(), 113, other.stderr)
        host.says("the port of the store is held for 60 s")
        over = time.monotonic()
        os.kill(host.pid if victim == "agent" else inner, signal.SIGTERM)
        self.assertEqual(host.wait(), 137 if victim == "agent" else -signal.SIGKILL, host.stderr)
        self.assertGreater(self.got_at(), over)
        return self.line([host], "the port of the store is held for")

    def test_the_agent_that_serves_the_store_is_killed(self):
        line = self.lose_first_node("agent")
        self.row("tries to listen at MASTER_PORT all the time, while the agent that serves the store there is killed",
                 "its parent holds the port until no worker of another node can be alive", line, code=113)

    def test_the_parent_of_that_agent_is_killed(self):
        self.lose_first_node("parent")

    def test_master_port_over_restarts(self):
        self.program = self.worker('note at $MASTER_PORT; test $CXXRUN_GENERATION = 3 || exit 1; gate go; note done')
        agents = [self.start_ranked(rank, "--max-restarts", "2", "--restart-delay", "0") for rank in (0, 1)]
        self.await_events(1, "at", 1)  # the other one may be stopped before it has said anything
        self.try_to_get()
        self.assertEqual({event[3] for event in self.await_events(2, "at", 3)}, {str(self.port)})
        over = time.monotonic()
        self.release(*agents)
        self.assertGreater(self.got_at(), over)
        self.row("tries to listen at --master-port all the time, while the job is started again twice",
                 "the port goes from one generation to the next and is never free", NO_LINE)


class UsedUp(Attack):
    """In a network of its own, in which the kernel hands out few ports."""
    AREA = "ports"
    FIRST, LAST = 40000, 40099
    TAKE = """
doors = []
for port in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    doors.append(socket.socket())
    try: doors[-1].bind(("0.0.0.0", port))
    except OSError: pass  # the job has it
print("ready", flush=True)
time.sleep(GUARD)
"""

    def setUp(self):
        super().setUp()
        if wires.missing("setpriv"):
            self.skipTest(wires.missing("setpriv"))
        self.host = wires.Host("")
        self.addCleanup(self.host.close)
        self.host.run("sh", "-c", f"echo {self.FIRST} {self.LAST} > /proc/sys/net/ipv4/ip_local_port_range")

    def inside(self, uid):
        return ["nsenter", f"--net={self.host.net}", "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]

    def start(self, *arguments, **more):
        return super().start(*arguments, **more, behind=self.inside(VICTIM), **as_user(0))

    def test_all_ports_that_the_kernel_hands_out_are_taken(self):
        self.start_ready(self.TAKE, self.FIRST, self.LAST, inside=self.inside(ATTACKER), **as_user(0))
        self.go_on(self.run_three())
        self.row("has every port that the kernel hands out, before three agents meet",
                 "they call from others, and listen there", NO_LINE)


class Control(Ports):
    def test_the_ports_are_those_that_the_job_tries(self):
        agent = self.start_ranked(0)
        agent.says("waiting for nodes")
        for port in (self.taken[0], self.open[0]):
            with Sealed(port, secret=self.secret) as call:
                self.assertEqual(call.greet()["answer"], "accepted")
        agent.process.terminate()


attack_jobs.tests_of(Squatted, WAYS, Squatted.try_way)

if __name__ == "__main__":
    jobs.main()
