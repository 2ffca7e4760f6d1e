"""Another user at the ports of a job: it speaks as agents, parents, voters and coordinators do, in clear and with proofs
under a key of its own. The job ends well, and says in one line who was there. Usage: attacks_test.py CXXRUN"""
import json
import os
import secrets

import attack_jobs
import jobs
from attack_jobs import KEYLESS, UNPROVEN, Attack
from attacker import HISTORY, Sealed, frame, hello, join, note, told

GONE = {"type": "gone", "generation": 1, "group_rank": 1}
FAILED = {"type": "worker_failed", "generation": 1, "exit": {
    "rank": 0, "local_rank": 0, "pid": 1, "end": "exited", "value": 1, "core": False, "ours": False, "wall_ms": 0}}
LATER = {"after": 98, "number": 99, "size": 3, "coordinator": 0, "restarts": 0, "failures": 0, "alike": 0, "look": 0,
         "history": HISTORY, "members": 1, "tie": "rank"}
FOLLOWS = {"type": "follower_info", "node": join()["node"], "decided": LATER, "prepared": 99, "seen": 99, "workers": 1}

# what was tried (the row's name), and the messages of one connection
WORDS = (
    ("says in the name of a parent that its agent is dead", [hello(purpose="death_notice"), GONE]),
    ("joins as an agent and reports failures", [hello(), join(), FAILED, FAILED, FAILED]),
    ("takes the seat of rank 0, as the agent that coordinates", [hello(asks="open"), join(coordinates=True)]),
    ("follows, with a decision from the future", [hello(asks="follow"), FOLLOWS]),
    ("votes in the name of a dead member", [hello(asks="follow"), FOLLOWS,
     {"type": "vote", "after": 1, "ballot": [1, 1], "promised": [1, 1], "silent_for_ms": 9999},
     {"type": "accepted", "after": 1, "ballot": [1, 1], "promised": [1, 1]}]),
    ("beats as an agent does", [hello(purpose="beat"), [1, 0, 1]]),
    ("says that its workers have succeeded, a thousand times", [hello(), join()] + [{"type": "succeeded", "generation": 7, "steps": {}}] * 1000),
)

# to every port given: in clear, sealed under a key of one's own, and as a note of the dead under that key
SAY = """
words = json.loads(sys.argv[1])
for port in map(int, sys.argv[2:]):
    print("clear", told(port, *words).hex() or "nothing")
    try:
        with Sealed(port, key=b"k" * 32) as call:
            call.send(*words)
            print("sealed", call.hear_frame())
    except ConnectionError:
        print("sealed", None)
    print("note", told(port, frame(note(b"k" * 32, *words))).hex() or "nothing")
"""

# the same with every question, and what a handshake is answered
ASK = """
for port in map(int, sys.argv[2:]):
    for each in json.loads(sys.argv[1]):
        print(len(told(port, each)))
    with Caller(port) as call:
        call.send(frame(call_of_nobody()))
        print((call.hear_frame() or b"closed").hex())
"""


def setUpModule():
    attack_jobs.share_programs()


class Words(Attack):
    def test_asks_for_anything(self):
        agents = self.run_three()
        asked = [hello(purpose=purpose, asks=asks) for purpose in ("agent", "beat", "death_notice")
                 for asks in ("meet", "open", "reopen", "enter", "follow")]
        said = self.as_other(ASK, json.dumps(asked), *self.ports(agents))
        ports = len(self.ports(agents))
        self.assertGreaterEqual(ports, 3)
        self.assertEqual([each for each in said if len(each) < 10], ["0"] * len(asked) * ports)
        for answer in (bytes.fromhex(each) for each in said if len(each) >= 10):
            for told in (b"job", os.uname().nodename.encode(), b"generation", b"nonce"):
                self.assertNotIn(told, answer[48:])
        self.row("asks every port for anything", "no answer in clear; to a handshake random bytes and a wrapped key",
                 self.line(agents, UNPROVEN))
        self.go_on(agents)

    def try_words(self, attack, words):
        agents = self.run_three()
        ports = self.ports(agents)
        heard = self.as_other(SAY, json.dumps(words), *ports)
        self.assertEqual(heard, ["clear", "nothing", "sealed", "None", "note", "nothing"] * len(ports))
        self.row(attack, "each port closes the connection unheard: in clear, sealed and as a note of the dead",
                 self.line(agents, UNPROVEN))
        self.line(agents, KEYLESS)
        self.assertLess(len(self.said(agents).splitlines()), 60)
        self.go_on(agents)

    def test_takes_a_seat_while_the_job_forms(self):
        agents = self.form()
        heard = self.as_other(SAY, json.dumps([hello(asks="open"), join()]), self.port)
        self.assertEqual(heard[1::2], ["nothing", "None", "nothing"])
        self.row("takes the third of three seats while the job waits for it", "it gets none; the real agent does",
                 self.line(agents, KEYLESS))
        self.finish(agents)

    def test_malformed_frames(self):
        agents = self.run_three()
        heard = self.as_other("""
import random
rng = random.Random(1)
for port in map(int, sys.argv[1:]):
    for i in range(300):
        head = rng.choice((b"", HEAD, NOTE, HEAD[:-1] + bytes([rng.randrange(256)]), b"{", b"GET / HTTP/1.1"))
        body = head + rng.randbytes(rng.choice((0, 1, 31, 32, 33, 200, 5000)))
        size = rng.choice((len(body), 0, 1 << 31, 0xffffffff, len(body) + 1))
        with Caller(port) as call:
            try:
                call.send(struct.pack(">I", size) + body)
                call.socket.shutdown(socket.SHUT_WR)
                while call.socket.recv(65536): pass
            except OSError: pass
print("done")
""", *self.ports(agents))
        self.assertEqual(heard, ["done"])
        self.assertLess(len(self.said(agents).splitlines()), 200)
        self.row("sends malformed frames of every kind, 300 to each port", "each closes its connection",
                 self.line(agents, "end of file in the middle of a frame"))
        self.go_on(agents)

    def test_escapes_and_newlines_as_every_text(self):
        forged = "x\nFORGED cxxrun: verdict: success\x1b[2J\x9b31m"
        agents = self.run_three()
        words = [hello(run_id=forged, nonce=forged, purpose=forged, asks=forged, coordinator=forged,
                       local_addr=forged, **{"from": forged}), join(host=forged, role=forged, announce=forged)]
        self.as_other(SAY, json.dumps(words), *self.ports(agents))
        line = self.line(agents, UNPROVEN)
        self.go_on(agents)
        self.assertNotIn("FORGED", self.said(agents))
        self.row("calls itself escapes, newlines and a verdict", "nothing of it is printed", line)


attack_jobs.tests_of(Words, WORDS, Words.try_words)


class Control(Attack):
    """The attacker's tools work: under the job's own secret the same words are taken, and do the harm."""

    def start_one(self, *options):
        return self.start("--nnodes", "3", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-id", "job", "--max-restarts",
                          "0", *options, self.program, env={"CXXRUN_SECRET": self.secret})

    def setUp(self):
        super().setUp()
        self.secret = secrets.token_hex(32)

    def test_who_knows_the_secret_is_answered(self):
        agents = self.form()
        with Sealed(self.port, secret=self.secret) as call:
            self.assertEqual(call.greet(run_id="other")["answer"], "other_job")
        with Sealed(self.port, secret=self.secret) as call:
            self.assertEqual(call.greet()["answer"], "accepted")
        self.finish(agents)

    def test_and_his_death_notice_is_believed(self):
        agents = self.run_three()
        with Sealed(self.port, secret=self.secret) as call:
            key = call.key
        jobs_note = note(key, hello(purpose="death_notice"), GONE)
        told(self.port, frame(jobs_note))
        self.await_line(agents, r"lost \S+ \(its parent says that it is dead\)")
        self.open_gate("go")
        for agent in agents:
            agent.wait()

    def test_a_key_of_another_run_opens_nothing(self):
        """Of the same user, with the same secret: K is of one run alone."""
        agents = self.form()
        other = self.start("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{(port := jobs.free_port())}",
                           self.program, env={"CXXRUN_SECRET": self.secret})
        other.says("waiting for nodes")
        with Sealed(port, secret=self.secret) as call:
            key = call.key
        with Sealed(self.port, key=key) as call:
            self.assertIsNone(call.greet())
        self.AREA = "keys"
        self.row("speaks with the key of another run of the same user", "nothing opens", self.line(agents, KEYLESS),
                 who="whoever has that key")
        other.process.terminate()
        self.finish(agents)


if __name__ == "__main__":
    jobs.main()
