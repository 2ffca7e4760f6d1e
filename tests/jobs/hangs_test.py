"""Workers that others wait for: named, killed, replaced; docs/use/hangs.md. Usage: hangs_test.py CXXRUN ASTRAY_WORKER

Most workers here register with their agent and write their pages themselves (src/base/worker/control_page.hpp), so that each
says exactly what the test means: `enter` and `leave` are a collective that needs no other rank. Those of Runtime are
programs with the library (tests/support/astray_worker.cpp)."""
import os
import re
import signal
import socket
import sys
import threading

import jobs
import wrappers
from jobs import JobCase, read, wait_until

PAGE = """
import array, mmap, socket, struct
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect(os.environ["CXXRUN_AGENT"])
link.send(b"CXXWORK\\1" + struct.pack("=BQIB", 1, int(GENERATION), int(os.environ["LOCAL_RANK"]), 0))
packet, fds, _, _ = socket.recv_fds(link, 100, 1)
assert packet == b"CXXWORK\\1" + bytes([65]), packet
page = mmap.mmap(fds[0], 4096)
def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
def put(offset, number):
    struct.pack_into("=Q", page, offset, number)
def ring(sequence):
    return 184 + 40 * (sequence % 64)
def enter(sequence):  # all_reduce of 25 f32, sum
    at = ring(sequence)
    put(at, 0)
    struct.pack_into("=QQQI", page, at + 8, now(), 0, 25, 0)
    put(at, sequence)
    put(168, sequence)
def leave(sequence):
    put(ring(sequence) + 16, now())
    put(176, sequence)
def collectives(first, last):
    for sequence in range(first, last + 1):
        enter(sequence)
        time.sleep(0.01)
        leave(sequence)
def together():  # from here on nobody is late who does not want to be
    note("here")
    while sum(line.startswith(GENERATION + " ") and line.endswith(" here\\n") for line in open(DIR + "/events")) < 4:
        time.sleep(0.01)
put(128, int(GENERATION))
note("begins")
"""

ASTRAY_WORKER = os.path.abspath(sys.argv.pop(2))

class Ras:
    """Stands in for the RAS service of NCCL (nccl src/ras/client_support.cc). `text`: its status; None: it never answers."""

    def __init__(self, text):
        self.text, self.asked, self.calls = text, [], []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"localhost:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            self.calls.append(connection)
            if self.text is not None:
                with connection, connection.makefile("r") as lines:
                    for line in lines:
                        self.asked.append(line)
                        connection.sendall(self.reply(line).encode())
                        if line == "VERBOSE STATUS\n":
                            break

    def reply(self, line):
        if line.startswith("CLIENT PROTOCOL "):
            return "SERVER PROTOCOL 2\n"
        if line.startswith("TIMEOUT "):
            return "OK\n"
        return self.text if line == "VERBOSE STATUS\n" else "ERROR: Unknown command\n"


LATE = "has not entered all_reduce #9 (25 f32) for "
CAUSE = "did not enter all_reduce #9 (25 f32) for "


class HangCase(JobCase):
    def debugger(self, text):
        """A gdb that says this; returns the environment in which it is found."""
        self.make_file("bin/gdb", "#!/bin/sh\n" + text, 0o755)
        return {"PATH": self.path("bin") + ":" + os.environ["PATH"]}

    def logs(self, name):
        """The texts of all files of that name under --log-dir, by their paths."""
        found = {}
        for folder, _, files in os.walk(self.path("logs")):
            found.update({os.path.join(folder, file): read(os.path.join(folder, file)) for file in files if file == name})
        return found


class Hangs(HangCase):
    def run_two(self, body, *arguments, env=None, nproc="2", wrapper=()):
        program = [*wrapper, *self.python_worker(PAGE + body)]
        return self.start_two("--nproc-per-node", nproc, "--watch", "off", "--log-dir", self.path("logs"), *arguments, *program, env=env)

    STUCK = """
collectives(1, 8)
together()
if GENERATION == "1" and RANK == "3":
    note("stuck", os.getpid())
    while True:
        time.sleep(1)
enter(9)
if GENERATION == "1":
    time.sleep(1000)
leave(9)
note("finished")
"""

    def test_a_rank_that_does_not_come_is_named_killed_and_replaced(self):
        env = self.debugger("""echo 'Thread 1 (LWP 7):'; echo "#0  spin () at loop.c:3 of $4"; echo "$*" > $DIR/asked\n""")
        first, second = self.run_two(self.STUCK, "--hang-timeout", "3", env=env)
        self.assert_codes([0, 0], first, second)
        self.assertEqual(len(self.events("finished", 2)), 4)
        pid = self.events("stuck")[0][3]
        self.assertIn("rank 3 on ", first.stderr)
        self.assertIn(LATE, first.stderr)
        self.assertIn("that 3 others wait in; it has done all_reduce #8 (25 f32)", first.stderr)
        self.assertIn("#8 all_reduce of 25 f32, sum: entered ", second.stderr)
        self.assertIn("#0  spin () at loop.c:3 of " + pid, second.stderr)
        self.assertIn("-p " + pid, read(self.path("asked")))
        self.assertRegex(first.stderr, re.escape(CAUSE) + rf"\S+ s that 3 others waited in; it stood at loop.c:3 of {pid} in spin\n")
        files = self.logs("hang.txt")
        self.assertEqual(len(files), 1, files)
        (path, text), = files.items()
        self.assertTrue(path.endswith("/attempt_1/1/hang.txt"), path)
        self.assertIn(CAUSE, text)
        self.assertEqual(text.count("all_reduce of 25 f32, sum: entered "), 8)
        self.assertIn("spin ()", text)

    def test_the_cause_is_in_the_report_and_in_the_verdict(self):
        first, second = self.run_two(self.STUCK, "--hang-timeout", "2", "--max-restarts", "0",
                                     env={"PATH": "/nonexistent"})
        self.assert_codes([137, 137], first, second)
        self.assertRegex(first.stderr, r"rank 3 on \S+ did not enter all_reduce #9 \(25 f32\) for \S+ s that 3 others waited in")
        self.assertIn("no stack: none: there is no gdb", second.stderr)
        verdict = self.verdict()
        self.assertIn(CAUSE, verdict["summary"])
        self.assertTrue(verdict["failures"][0]["hung"].startswith(CAUSE))
        self.assertEqual(verdict["failures"][0]["rank"], 3)

    def assert_stopped_rank_is_killed(self, *wrapper):
        first, second = self.run_two("""
collectives(1, 8)
enter(9)
if GENERATION == "1":
    if RANK == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)
leave(9)
""", "--hang-timeout", "2", env=self.debugger("exit 1\n"), wrapper=wrapper)
        self.assert_codes([0, 0], first, second)
        self.assertIn("rank 1 on ", first.stderr)
        self.assertIn("is stopped in all_reduce #9 (25 f32) for ", first.stderr)
        self.assertIn("was stopped in all_reduce #9 (25 f32) for ", first.stderr)

    def test_a_stopped_rank_is_named_and_killed(self):
        self.assert_stopped_rank_is_killed()

    def test_the_same_behind_a_shell_that_is_not_stopped(self):
        self.assert_stopped_rank_is_killed(*wrappers.SHELL)

    def test_a_rank_that_works_while_nobody_waits_is_left_alone(self):
        first, second = self.run_two("""
collectives(1, 8)
if RANK == "2":
    time.sleep(4)
""", "--hang-timeout", "1")
        self.assert_codes([0, 0], first, second)
        self.assertNotIn("entered", first.stderr + second.stderr)

    def test_nobody_is_killed_when_nobody_is_missing(self):
        first, second = self.run_two("""
collectives(1, 8)
together()
enter(9)
time.sleep(8)
leave(9)
""", "--hang-timeout", "2")
        self.assert_codes([0, 0], first, second)
        self.assertIn("all 4 ranks are in all_reduce #9 (25 f32) for ", first.stderr)
        self.assertEqual(self.logs("hang.txt"), {})

    def test_a_rank_that_moves_while_its_stack_is_taken_is_left_alone(self):
        env = self.debugger("touch $DIR/moves; until test -e $DIR/moved; do sleep 0.01; done\n")
        first, second = self.run_two("""
collectives(1, 8)
if RANK == "3":
    while not os.path.exists(DIR + "/moves"):
        time.sleep(0.01)
    enter(9)
    open(DIR + "/moved", "w").close()
else:
    enter(9)
while not os.path.exists(DIR + "/moved"):
    time.sleep(0.01)
time.sleep(0.5)
leave(9)
""", "--hang-timeout", "2", env=env)
        self.assert_codes([0, 0], first, second)
        self.assertEqual({generation for generation, *_ in self.events()}, {1})
        wait_until(lambda: "has moved meanwhile; not killing it" in second.stderr, "the agent says that it has moved")

    def test_a_debugger_that_hangs_delays_the_kill_by_ten_seconds_at_most(self):
        env = self.debugger("echo $$ > $DIR/debugger; exec sleep 1000\n")
        first, second = self.run_two(self.STUCK, "--hang-timeout", "2", env=env)
        self.assert_codes([0, 0], first, second)
        self.assertFalse(jobs.alive(int(read(self.path("debugger")))))
        self.assertIn("gdb took longer than 10 s", "".join(self.logs("hang.txt").values()))

    def test_a_debugger_at_work_does_not_keep_an_agent_that_is_told_to_end(self):
        env = self.debugger("echo $$ > $DIR/debugger; exec sleep 1000\n")
        first, second = self.run_two(self.STUCK, "--hang-timeout", "2", env=env)
        wait_until(lambda: read(self.path("debugger")).endswith("\n"), "the debugger runs")
        first.process.send_signal(signal.SIGTERM)
        self.assert_codes([143, 143], first, second)
        self.assertFalse(jobs.alive(int(read(self.path("debugger")))))

    def run_with(self, ras):
        """The stuck rank is killed and replaced; hang.txt of that rank, and that of the coordinator's agent."""
        env = {**self.debugger("echo '#0  spin () at loop.c:3'\n"), "NCCL_RAS_ADDR": ras.address}
        first, second = self.run_two(self.STUCK, "--hang-timeout", "2", env=env)
        self.assert_codes([0, 0], first, second)
        self.assertEqual(len(self.events("finished", 2)), 4)
        texts = {path[path.index("/attempt_"):]: text for path, text in self.logs("hang.txt").items()}
        self.assertEqual(set(texts), {"/attempt_1/1/hang.txt", "/attempt_1/hang.txt"})
        self.assertIn(LATE, texts["/attempt_1/hang.txt"])
        self.assertIn("#0  spin ()", texts["/attempt_1/1/hang.txt"])
        return texts.values()

    def test_what_nccl_says_is_beside_the_stack_of_the_rank_and_with_the_coordinator(self):
        ras = Ras("NCCL version 2.27.3\n\nCommunicators... \x1b[31m2 ranks\x1b[m \x07behind\n")
        for text in self.run_with(ras):
            self.assertIn(f"\nwhat NCCL says (RAS, {ras.address}):\n"
                          "NCCL version 2.27.3\n\nCommunicators... 2 ranks ?behind\n", text)
        self.assertEqual(ras.asked[:3], ["CLIENT PROTOCOL 2\n", "TIMEOUT 3\n", "VERBOSE STATUS\n"])

    def test_an_nccl_that_never_answers_delays_the_kill_by_five_seconds_at_most(self):
        ras = Ras(None)
        for text in self.run_with(ras):
            self.assertIn(f"\nwhat NCCL says (RAS, {ras.address}):\nnone: no answer within 5 s\n", text)
        self.assertGreater(len(ras.calls), 2)  # again: another process may listen at the same port


class Runtime(HangCase):
    def play(self, how, *wrapper):
        """Two nodes with two workers each, of which rank 3 goes astray; what is said, and its hang.txt."""
        env = self.debugger("""echo "#0  astray () at loop.c:3 of $4, $(readlink /proc/$4/exe)"\n""")

        def node(host):
            return self.start_node("--nproc-per-node", "2", "--watch", "off", "--log-dir", self.path("logs"), "--hang-timeout", "3",
                                   "--no-python", *wrapper, ASTRAY_WORKER, how, env={**env, "CXXRUN_HOST_ID": host})
        first = node("a")
        first.says("waiting for nodes")
        second = node("b")
        self.assert_codes([0, 0], first, second)
        (_, rank, _, pid), = self.events("astray")
        self.assertEqual(rank, 3)
        finished = self.events("finished", generation=2)
        self.assertEqual([sum for *_, sum in finished], ["200"] * 4)  # each step once
        self.assertIn(", " + ASTRAY_WORKER, second.stderr)
        if list(wrapper) != wrappers.OWN_PIDS:  # where each has the number 1
            survivors = {found for *_, found in self.events("begins")} - {pid}
            self.assertEqual(len({found for *_, found, _ in finished} & survivors), 3)
            self.assertIn(f"of {pid}, ", second.stderr)
        (path, text), = self.logs("hang.txt").items()
        self.assertTrue(path.endswith("/attempt_1/1/hang.txt"), path)
        self.assertEqual(text.count("all_reduce of 25 f32, sum: entered "), 8)
        return first.stderr, text

    def test_a_rank_that_stays_away_is_named_by_what_it_did_killed_and_replaced(self):
        said, text = self.play("astray")
        late = re.search(r"rank 3 on \S+ has not entered all_reduce #(\d+) \(25 f32\) for [0-9.]+ s that 3 others wait in; "
                         r"it has done all_reduce #(\d+) \(25 f32\)", said)
        self.assertTrue(late, said)
        self.assertEqual(int(late[1]), int(late[2]) + 1)
        self.assertIn(f"#{late[2]} all_reduce of 25 f32, sum: entered ", text)
        self.assertIn(f"did not enter all_reduce #{late[1]} (25 f32) for ", text)
        self.assertIn(f"did not enter all_reduce #{late[1]} (25 f32) for ", said)

    def test_the_same_behind_a_shell_whose_stack_nobody_wants(self):
        self.play("astray", *wrappers.SHELL)

    def test_the_same_in_pid_namespaces_of_their_own(self):
        self.play("astray", *wrappers.OWN_PIDS)

    def test_the_same_when_it_is_stopped_there(self):
        said, text = self.play("stopped")
        self.assertRegex(said, r"rank 3 on \S+ has not entered all_reduce #\d+ \(25 f32\) for ")
        self.assertIn("did not enter all_reduce #", text)


if __name__ == "__main__":
    jobs.main()
