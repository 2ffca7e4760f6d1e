"""What cxxrunctl shows of jobs as it happens: logs -f, events -f; and of jobs that write or do too much. Usage: following_test.py CXXRUN CXXRUNCTL"""
import collections
import json
import os
import re
import signal
import subprocess

import jobs
from jobs import GUARD, wait_until
from live_jobs import CTL, PACKAGE, TRAINER, LiveCase

WRITER = """
note up
echo "generation $CXXRUN_GENERATION"
gate many
i=0
while [ $i -lt 150 ]; do echo "line $i, which is long enough that so many of them fill some files"; i=$((i + 1)); done
[ $CXXRUN_GENERATION = 2 ] || { echo "last words"; exit 3; }
gate end
printf "the end"
"""

LONG = 300  # seconds; against hanging only
PIECE = "<script>\x1b[31mxyz"  # 16 bytes
LINES = """
note("up")
if RANK == "0":  # 10,000 lines a second
    number = 0
    while not os.path.exists(DIR + "/stop"):
        for number in range(number + 1, number + 101):
            print("line", number)
        sys.stdout.flush()
        time.sleep(0.01)
    note("wrote", number)
else:  # one of 16 MiB
    for _ in range(1 << 8):
        sys.stdout.write("<script>\\x1b[31mxyz" * (1 << 12))
    sys.stdout.flush()
    note("written")
    while not os.path.exists(DIR + "/stop"):
        time.sleep(0.01)
    print(flush=True)
    while " 0 wrote " not in open(DIR + "/events").read():
        time.sleep(0.01)
    sys.exit(3)
"""
# As cxxrunctl checkpoint does: each one is an event.
WANTER = """
import socket
note("up")
gate("flood")
question = b"checkpoint 1"
for _ in range(1500):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.connect(os.environ["CXXRUN_AGENT"])
        agent.send(b"CXXWORK\\x01\\x04" + len(question).to_bytes(4, "little") + question)
        while agent.recv(65536):
            pass
note("done")
gate("end")
"""


class Following(LiveCase):
    def follow(self, *arguments):
        """Its lines come out of stdout as it prints them."""
        return subprocess.Popen([CTL, *arguments, "-f", self.run_id()], env=self.environment({"LANG": "C"}),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, follow, code=0):
        told, said = follow.communicate(timeout=GUARD)
        self.assertEqual(follow.returncode, code, said)
        return told.splitlines(), said

    def kept(self, logs="logs"):
        """Of each coordinator, by its host's directory: the events that it has written."""
        files = collections.defaultdict(list)
        for root, _, names in os.walk(self.path(logs)):
            for line in jobs.read(os.path.join(root, "events.jsonl")).splitlines()[1:] if "events.jsonl" in names else []:
                files[root].append(line)
        return files


class Logs(Following):
    def test_each_line_of_a_worker_is_shown_once_over_full_files_and_generations(self):
        job = self.start_node("--nproc-per-node=1", "--rdzv-id", self.run_id(), "--max-restarts=1", "--log-dir",
                              self.path("logs"), "--redirects", "3", "--log-rotate", "4K", self.worker(WRITER), nnodes="1")
        self.await_events(1, "up")
        self.await_table(self.run_id(), lambda table: table["workers"], "its worker is told of")
        follow = self.follow("logs", "0")
        first = next(line for line in follow.stdout if line.startswith("generation"))
        self.open_gate("many")
        told = [first.strip()]
        for line in follow.stdout:
            told.append(line.strip())
            if line.startswith("line 149") and "generation 2" in told:
                break
        self.open_gate("end")
        job.wait()
        rest, said = self.finish(follow)
        lines = [line for line in told + rest if not line.startswith("==>")]
        written = [f"line {i}, which is long enough that so many of them fill some files" for i in range(150)]
        self.assertEqual(lines, ["generation 1", *written, "last words", "generation 2", *written, "the end"])
        self.assertIn("the agent that was asked has ended\n", said)
        self.assertNotIn("left out", said)

    def test_of_a_worker_that_writes_too_much_whole_lines_are_shown_in_order_and_the_last_ones(self):
        job = self.start_node("--nproc-per-node=1", "--rdzv-id", self.run_id(), "--log-dir", self.path("logs"), "--redirects", "3",
                              "--log-rotate", "1M", *self.python_worker("""
note("up")
number = 0
while not os.path.exists(DIR + "/stop"):
    for number in range(number + 1, number + 2001):
        print("line", number, "-" * 80)
    sys.stdout.flush()
    time.sleep(0.1)
note("wrote", number)
"""), nnodes="1")
        self.await_events(1, "up")
        self.await_table(self.run_id(), lambda table: table["workers"], "its worker is told of")
        with open(self.path("told"), "w") as told, open(self.path("said"), "w") as said:
            follow = subprocess.Popen([CTL, "logs", "-f", "0", self.run_id()], env=self.environment(), stdout=told, stderr=said)
        wait_until(lambda: re.search(r"\d bytes of \S+ left out", jobs.read(said.name)), "it says that it leaves some out")
        self.make_file("stop")
        self.assertEqual((job.wait(), follow.wait(GUARD)), (0, 0))
        lines = [line for line in jobs.read(told.name).splitlines() if not line.startswith("==>")]
        numbers = [int(re.fullmatch("line (\\d+) -{80}", line)[1]) for line in lines]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(numbers[-1], int(self.events("wrote")[0][3]))

    def test_what_cannot_be_followed_is_said_at_once(self):
        job = self.start_node("--nproc-per-node=1", "--rdzv-id", self.run_id(), self.worker("note up; exec sleep 1000"), nnodes="1")
        self.await_events(1, "up")
        self.await_table(self.run_id(), lambda table: table["workers"], "its worker is told of")
        self.ctl("logs", "0", self.run_id(), "-f", code=111)
        self.assertIn("writes only to the console", self.said)
        self.ctl("logs", "1", self.run_id(), "-f", code=111)
        self.assertIn("there is no rank 1", self.said)
        self.ctl("status", self.run_id(), "-f", code=100)
        self.end(job)


class Events(Following):
    def start_apart(self, *arguments, **more):
        """An agent that cxxrunctl does not find by itself, so that it asks another one of this machine."""
        real, jobs.CXXRUN = jobs.CXXRUN, self.path("apart")
        if not os.path.exists(jobs.CXXRUN):
            os.symlink(real, jobs.CXXRUN)
        try:
            return self.start_node(*arguments, **more)
        finally:
            jobs.CXXRUN = real

    def test_the_end_is_told_on_each_node_and_waits_for_nobody(self):
        for name, nnodes, asks_first in (("a", "2", True), ("b", "2", False), ("c", "1:2", True), ("d", "1:2", False)):
            with self.subTest(nnodes=nnodes, asks_first=asks_first):
                self.follow_to_the_end(name, nnodes, asks_first)

    def follow_to_the_end(self, name, nnodes, asks_first):
        """Whoever follows stands still from before a restart to the end of both agents, and asks nothing meanwhile."""
        self.make_gate("fail" + name)
        self.make_gate("end" + name)
        script = self.worker(f"note up{name}; gate fail{name}; [ $CXXRUN_GENERATION$RANK != 10 ] || exit 3; gate end{name}",
                             "worker" + name)
        def start(which, asked):
            begin = self.start_node if asked else self.start_apart
            return begin("--rdzv-id", self.run_id(), "--nproc-per-node=1", "--max-restarts=1", "--log-dir",
                         self.path(f"logs{name}/{which}"), *([] if nnodes == "2" else ["--join-window=60"]), script, nnodes=nnodes)
        first = start("first", asks_first)  # it coordinates
        first.says("waiting for")
        second = start("second", not asks_first)
        self.await_events(2, "up" + name)
        follow = self.follow("events")
        told = []
        while not told or json.loads(told[-1])["kind"] != "started":
            told.append(follow.stdout.readline())
        follow.send_signal(signal.SIGSTOP)
        os.waitpid(follow.pid, os.WUNTRACED)
        self.open_gate("fail" + name)
        self.await_events(2, "up" + name, generation=2)
        self.open_gate("end" + name)
        self.assert_codes([0, 0], first, second)
        follow.send_signal(signal.SIGCONT)
        rest, said = self.finish(follow)
        self.assertEqual(said, "")
        told = [json.loads(line) for line in told + rest]
        [kept] = self.kept("logs" + name).values()
        self.assertEqual(told, [json.loads(line) for line in kept])
        self.assertEqual((told[-1]["kind"], [event["kind"] for event in told].count("started")), ("verdict", 2))

    def test_none_comes_twice_and_none_is_missing_when_the_coordinator_is_killed(self):
        script = self.python_worker(TRAINER, "train.py")
        more = {"nnodes": "1:3", "env": PACKAGE}
        def options(name):
            return ["--rdzv-id", self.run_id(), "--nproc-per-node=1", "--log-dir", self.path("logs/" + name), *script]
        self.go(0, 1, 2)
        first = self.start_apart(*options("first"), **more)
        first.says("waiting for more")
        others = [self.start_node(*options(name), **more) for name in ("second", "third")]
        self.await_events(3, "up")
        table = self.await_table(self.run_id(), lambda table: (table["phase"], table["ranks"]) == ("running", 3), "all three run")
        follow = self.follow("events")
        told = []
        def read_to_start_of(generation):
            for line in follow.stdout:
                told.append(line)
                event = json.loads(line)
                if event["kind"] == "started" and event["generation"] >= generation:
                    return line
            self.fail(follow.communicate()[1])
        started = json.loads(read_to_start_of(table["generation"]))
        wait_until(lambda: any(json.loads(line) == started for lines in self.kept().values() for line in lines), "it is kept")
        os.kill(first.agent_pid(), 9)
        read_to_start_of(table["generation"] + 1)
        self.end(*others)
        rest = follow.communicate(timeout=GUARD)[0].splitlines()
        told = [json.dumps(json.loads(line)) for line in told + rest]
        kept = [[json.dumps(json.loads(line)) for line in lines] for lines in self.kept().values()]
        self.assertEqual(len(kept), 2, kept)  # the second one is elected by both
        before, after = sorted(kept, key=lambda lines: any('"took_over"' in line for line in lines))
        self.assertEqual(told[:len(before)], before)
        # The node that is asked may leave before the job is over.
        self.assertEqual(told[len(before):], after[:len(told) - len(before)])
        self.assertTrue(any('"took_over"' in line for line in told), told)


class Floods(Following):
    """Workers that write or do too much: each answer is bounded, and the job ends as it would have."""

    def assert_status_fits(self):
        lines = self.ctl("status", self.run_id()).splitlines()
        self.assertLessEqual(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_lines_without_end_and_without_number(self):
        me = self.run_id()
        job = self.start_node("--nproc-per-node=2", "--rdzv-id", me, "--max-restarts=0", "--log-dir", self.path("logs"), "--tee", "3",
                              *self.python_worker(LINES), nnodes="1")
        self.await_events(2, "up")
        self.await_table(me, lambda table: len(table["workers"]) == 2, "both workers are told of")
        self.await_events(1, "written")
        file_of = lambda rank: json.loads(self.ctl("logs", rank, me, "--json", "-n", "1").splitlines()[0])["file"]
        files = [file_of(rank) for rank in "01"]
        def newest():
            text = self.ctl("logs", "0", me, "-n", "99999")
            self.assertLess(len(text), 70_000)  # 64 KiB of its stdout.log, and the names of its files
            return max(map(int, re.findall(r"line (\d+)\n", text)), default=0)
        for _ in range(3):
            seen = newest()
            self.assert_status_fits()
            text = self.ctl("logs", "1", me, "-n", "99999")
            self.assertIn(PIECE * 4000, text)
            self.assertLess(len(text), 70_000)
            self.assertLess(len(self.ctl("events", me).splitlines()), 20)
            wait_until(lambda: newest() > seen, "it goes on writing")
        self.make_file("stop")
        self.assertEqual(job.wait(LONG), 3)
        wrote = int(self.events("wrote")[0][3])
        self.assertTrue(jobs.read(files[0]) == "".join(f"line {i}\n" for i in range(1, wrote + 1)), "the log is not complete")
        self.assertTrue(jobs.read(files[1]) == PIECE * (1 << 20) + "\n", "the long line is not complete")
        self.assertLess(len(job.stderr), 20_000)

    def test_more_events_than_are_kept(self):
        me = self.run_id()
        job = self.start_node("--nproc-per-node=1", "--rdzv-id", me, "--log-dir", self.path("logs"), *self.python_worker(WANTER),
                              nnodes="1")
        self.await_events(1, "up")
        self.await_table(me, lambda table: (table["phase"], len(table["workers"])) == ("running", 1), "it runs")
        with open(self.path("told"), "w") as told, open(self.path("said"), "w") as said:
            follow = subprocess.Popen([CTL, "events", "-f", me], env=self.environment(), stdout=told, stderr=said)
        wait_until(lambda: '"started"' in jobs.read(told.name), "its events are followed")
        self.open_gate("flood")
        def asked():
            shown = self.ctl("events", me).splitlines()
            self.assertLessEqual(len(shown), 1000)
            self.assert_status_fits()
            return self.events("done")
        wait_until(asked, "it has asked so often", LONG)
        shown = [json.loads(line)["kind"] for line in self.ctl("events", me).splitlines()]
        self.assertEqual(len(shown), 1000)
        self.assertGreater(shown.count("wanted"), 900)
        self.open_gate("end")
        self.assertEqual(job.wait(LONG), 0)
        self.assertIn(follow.wait(GUARD), (0, 111))  # 111: its next question came before the job was over
        [kept] = self.kept().values()
        self.assertEqual(sum('"wanted"' in line for line in kept), 1500)
        left_out = sum(map(int, re.findall(r"(\d+) events? left out", jobs.read(said.name))))
        count = len(jobs.read(told.name).splitlines())
        self.assertLessEqual(count + left_out, len(kept))
        if follow.returncode == 0:
            self.assertEqual(count + left_out, len(kept))


if __name__ == "__main__":
    jobs.main()
