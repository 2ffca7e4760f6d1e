"""Strangers at the doors of a job: whatever they send, each kind is refused by name, a flood of them is neither a flood
of lines nor of memory, and the job forms and finishes all the same. Usage: strangers_test.py CXXRUN"""
import os
import re
import socket
import struct
import time

import jobs
from attacker import VERSION, Caller, frame, hello, join
from jobs import children, read
from stranger_jobs import FORGED, Strangers, listening

CROWD = 300
MOST_LINES = 60  # that a crowd may cost; one line each would be 300
MOST_MEMORY = 64 << 20  # that a crowd may cost; a frame of the largest size each would be 300 MiB
HELLO_TIME = 10  # seconds that a caller has to say hello


def memory(pid):
    found = re.search(r"VmRSS:\s+(\d+) kB", read(f"/proc/{pid}/status"))
    return int(found.group(1)) << 10 if found else 0


class Kinds(Strangers):
    """One of each, while the job forms and again while it runs."""

    # what is sent, and what the log says of it
    FIRST = (
        (b"GET / HTTP/1.1\r\n\r\n", r"unauthenticated connection from 127\.0\.0\.1: protocol error: frame of 1195725856 bytes announced; at most \d+"),
        (struct.pack(">I", 0xFFFFFFFF), r"unauthenticated connection from 127\.0\.0\.1: protocol error: frame of 4294967295 bytes announced"),
        (frame(b"not json"), r"unauthenticated connection from 127\.0\.0\.1: message is not JSON"),
        (frame({"type": "ack", "generation": 1}), r"unauthenticated connection from 127\.0\.0\.1: message lacks hello"),
        (frame([]), r"unauthenticated connection from 127\.0\.0\.1: message lacks an object"),
        (frame(hello(purpose="dance")), r"unauthenticated connection from 127\.0\.0\.1: message lacks purpose"),
    )

    def each(self, agents):
        for sent, line in self.FIRST:
            with self.subTest(line), Caller(self.port) as caller:
                caller.send(sent)
                self.assertIsNone(caller.hear())
                self.await_line(agents, line)
        with self.subTest("truncated"), Caller(self.port) as caller:
            caller.send(frame(hello())[:20])
            caller.socket.shutdown(socket.SHUT_WR)
            self.assertIsNone(caller.hear())
            self.await_line(agents, r"unauthenticated connection from 127\.0\.0\.1: end of file in the middle of a frame")
        with self.subTest("another version"), Caller(self.port) as caller:
            caller.send(hello(version=VERSION - 1))
            reply = caller.hear()
            self.assertEqual((reply["answer"], reply["version"]), ("other_version", VERSION))
            self.assertIsNone(caller.hear())
            self.await_line(agents, "refused connection from 127.0.0.1: this coordinator speaks protocol version "
                                    f"{VERSION}, the agent version {VERSION - 1}")
        with self.subTest("another run"), Caller(self.port) as caller:
            caller.send(hello(run_id="other"))
            self.assertEqual(caller.hear()["answer"], "other_job")
            self.assertIsNone(caller.hear())
            self.await_line(agents, "refused connection from 127.0.0.1: this is job job, not other")
        with self.subTest("out of order"), Caller(self.port) as caller:
            caller.send(hello(), {"type": "succeeded", "generation": 1, "steps": {}})
            caller.hear()
            self.assertIsNone(caller.hear())
            self.await_line(agents, r"connection from 127\.0\.0\.1 did not join: another message came")

    def test_while_the_job_forms(self):
        agents = self.form()
        self.each(agents)
        self.finish(agents)

    def test_while_the_job_runs(self):
        agents = self.run_three()
        self.each(agents)
        self.go_on(agents)

    def test_a_spare_that_speaks_out_of_turn_is_named_and_changes_nothing(self):
        agents = self.run_three("--log-level", "debug")  # what is ignored is routine
        with Caller(self.port) as spare:
            spare.send(hello(), join())
            self.assertEqual(spare.hear()["answer"], "accepted")
            spare.send({"type": "stopped", "generation": 7, "exits": [], "unkillable": [], "steps": {}, "lacks": False})
            self.await_line(agents, "ignored: message of generation 7 during generation 1")
            spare.send(join("twice"))
            self.await_line(agents, "ignored: a second join from stranger")
            for message in ({"type": "succeeded", "generation": 1, "steps": {}}, {"type": "ack", "generation": 1, "echo": 0,
                                                                      "sent": 0}):
                spare.send(message, message)
            spare.send(hello())
            self.assertIsNone(spare.hear_until("nothing"))
            self.await_line(agents, "message from stranger not understood: message lacks type")
        self.go_on(agents)

    def test_what_one_says_in_a_loop_is_told_a_few_times_and_counted(self):
        agents = self.run_three("--log-level", "debug")
        with Caller(self.port) as spare:
            spare.send(hello(), join())
            spare.send(*[{"type": "succeeded", "generation": 7, "steps": {}}] * 5000)
            spare.send(hello())
            self.assertIsNone(spare.hear_until("nothing"))
        self.await_line(agents, "message from stranger not understood")
        self.assertLessEqual(self.said(agents).count("ignored: message of generation 7"), 8)
        self.assertIn("(more like it are only counted for now)", self.said(agents))
        self.go_on(agents)

    def test_what_a_stranger_calls_itself_forges_no_line_and_no_escape(self):
        agents = self.form()
        with Caller(self.port) as caller:
            caller.send(hello(run_id=FORGED))
            self.assertIsNone(caller.hear_until("nothing"))
        self.await_line(agents, r"this is job job, not x\?FORGED cxxrun")
        self.complete(agents)
        with Caller(self.port) as spare:
            spare.send(hello(), join(host=FORGED))
            spare.send(hello())
            self.assertIsNone(spare.hear_until("nothing"))
        self.await_line(agents, r"message from x\?FORGED cxxrun.* not understood")
        self.go_on(agents)
        self.assert_no_forgery(self.said(agents))

    def test_nor_does_any_other_text_that_an_agent_sends(self):
        agents = self.run_three("--log-level", "debug")
        exit_ = {"rank": 0, "local_rank": 0, "pid": 1, "end": "exited", "value": 1, "core": False, "ours": False, "wall_ms": 0,
                 "hung": FORGED, "stderr": FORGED, "error_file": FORGED}
        said = ({"type": "unfit", "generation": 1, "why": FORGED}, {"type": "worker_failed", "generation": 1, "exit": exit_},
                {"type": "stopped", "generation": 1, "exits": [exit_], "unkillable": [FORGED], "steps": {}, "lacks": False},
                {"type": FORGED}, {"type": "progress", "generation": 1, "workers": [{"what": FORGED}]}, {FORGED: FORGED})
        for message in said:
            for field in ("host", "role", "announce", "incarnation"):
                with Caller(self.port) as spare:
                    spare.send(hello(nonce=FORGED, coordinator=FORGED), join(**{field: FORGED}), message, hello())
                    self.assertIsNone(spare.hear_until("nothing"))
        for field in ("purpose", "asks", "nonce", "run_id", "from", "local_addr", "hello"):
            with Caller(self.port) as caller:
                caller.send(hello(**{field: FORGED}), hello())
                self.assertIsNone(caller.hear_until("nothing"))
        self.go_on(agents)
        self.assert_no_forgery(self.said(agents))

    def assert_no_forgery(self, said):
        self.assertIn("FORGED", said)  # it is told of, as text
        self.assertEqual([line for line in said.splitlines() if line.startswith("FORGED")], [])
        self.assertNotRegex(said, "[\x1b\x9b]")

    def test_what_an_agent_says_is_no_beat(self):
        agents = self.form()
        with Caller(self.port) as caller:
            caller.send(hello(purpose="beat"))
            self.assertEqual(caller.hear()["answer"], "accepted")
            caller.send({"type": "ack", "generation": 1})
            self.assertIsNone(caller.hear())
        self.await_line(agents, "a beat from 127.0.0.1 was not understood: beat is no array")
        self.finish(agents)


class Crowds(Strangers):
    def crowd(self, port, opening):
        callers = []
        for _ in range(CROWD):
            caller = Caller(port)
            self.addCleanup(caller.socket.close)
            callers.append(caller)
        for caller in callers:
            try:
                caller.send(opening)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was refused while it spoke
        return callers

    def grown(self, opening):
        """Growth of the coordinator and lines that a crowd costs; the job then forms and ends well."""
        agents = self.form()
        pid = self.coordinator(agents)
        before, lines = memory(pid), len(self.said(agents).splitlines())
        self.crowd(self.port, opening)
        self.heard_all(agents)
        growth = memory(pid) - before
        self.finish(agents)
        return growth, len(self.said(agents).splitlines()) - lines, self.said(agents)

    def heard_all(self, agents):
        """Everything the crowd sent has been read: a caller after it gets its answer."""
        with Caller(self.port) as caller:
            caller.send(hello(run_id="other"))
            self.assertEqual(caller.hear()["answer"], "other_job")

    def check(self, opening):
        growth, lines, said = self.grown(opening)
        self.assertLess(growth, MOST_MEMORY)
        self.assertLess(lines, MOST_LINES, said)

    def test_that_say_nothing(self):
        self.check(b"")

    def test_that_send_garbage(self):
        self.check(os.urandom(4096))

    def test_that_say_half_a_hello(self):
        self.check(frame(hello())[:30])

    def test_that_announce_much_and_send_most_of_it(self):
        self.check(struct.pack(">I", 1 << 20) + b"x" * ((1 << 20) - 1))

    def test_that_want_another_run(self):
        self.check(frame(hello(run_id="other")))

    def test_at_the_doors_of_those_who_may_take_over(self):
        agents = self.run_three()
        host = self.coordinator(agents)
        others = [pid for agent in agents for pid in children(agent.pid) if pid != host and listening(pid)]
        self.assertEqual(len(others), 2)
        before, lines = {pid: memory(pid) for pid in others}, len(self.said(agents).splitlines())
        for pid in others:
            for port in listening(pid):
                self.crowd(port, frame(hello(asks="follow")) + frame(join()))  # who follows does not join
                self.crowd(port, struct.pack(">I", 1 << 20) + b"x" * (1 << 16))
                self.crowd(port, b"")
                with Caller(port) as caller:
                    caller.send(frame(b"not json"))
                    self.assertIsNone(caller.hear())
        for pid in others:
            self.assertLess(memory(pid) - before[pid], MOST_MEMORY)
        self.await_line(agents, "did not send its follower info: another message came")
        self.assertLess(len(self.said(agents).splitlines()) - lines, 2 * MOST_LINES, self.said(agents))
        self.go_on(agents)

    def test_nobody_who_says_nothing_stays_for_long(self):
        agents = self.form()
        callers = self.crowd(self.port, frame(hello())[:30])
        began = time.monotonic()
        for caller in callers:
            self.assertIsNone(caller.hear())
        self.assertGreater(time.monotonic() - began, HELLO_TIME / 2)
        self.await_line(agents, rf"unauthenticated connection from 127\.0\.0\.1: no hello within {HELLO_TIME} s")
        self.finish(agents)


class Guarded(Crowds):
    """With proofs asked for, which is the default: nothing that a stranger says is even read."""
    AUTH = ()
    UNPROVEN = r"unauthenticated connection from 127\.0\.0\.1: it does not speak cxxrun's handshake"

    def heard_all(self, agents):
        with Caller(self.port) as caller:
            caller.send(b"\0\0\0\1x")
            self.assertIsNone(caller.hear())

    def test_at_the_doors_of_those_who_may_take_over(self):
        agents = self.run_three()
        for agent in agents:
            for pid in children(agent.pid):
                for port in listening(pid):
                    with Caller(port) as caller:
                        caller.send(hello(asks="follow"), join())
                        self.assertIsNone(caller.hear())
        self.await_line(agents, self.UNPROVEN)
        self.go_on(agents)

    def test_that_speak_as_agents_do(self):
        """Each of these did harm where everybody is let in."""
        agents = self.run_three()
        gone = {"type": "gone", "generation": 1, "group_rank": 1}
        failed = {"type": "worker_failed", "generation": 1, "exit": {}}
        for said in ((hello(), join()), (hello(purpose="death_notice"), gone), (hello(), join(), failed),
                     (hello(purpose="beat"), [1, 0, 1]), (hello(asks="follow"), {"type": "follower_info"})):
            with self.subTest(said), Caller(self.port) as caller:
                caller.send(*said)
                self.assertIsNone(caller.hear())
        self.await_line(agents, self.UNPROVEN)
        self.go_on(agents)


if __name__ == "__main__":
    jobs.main()
