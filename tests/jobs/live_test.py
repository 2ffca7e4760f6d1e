"""cxxrunctl beside jobs that run. Usage: live_test.py CXXRUN CXXRUNCTL"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import unittest

import jobs
from jobs import GUARD, wait_until
from live_jobs import CTL, PACKAGE, TRAINER, LiveCase

LONG = 300  # seconds; against hanging only: a rank is named after five windows of 5 s

class OneNode(LiveCase):
    def test_a_job_is_shown_from_its_start_to_its_end(self):
        job = self.begin("--log-dir", self.path("logs"), "--tee", "3")
        me = self.run_id()
        table = self.await_table(me, lambda table: len(table["workers"]) == 2, "both workers are told of")
        self.assertEqual((table["phase"], table["generation"], table["ranks"], table["well"]), ("running", 1, 2, True))
        self.assertIn("no training step yet", table["says"])
        self.assertGreater(table["workers"][0]["memory_mib"], 1)
        self.go(0, 1)
        table = self.await_table(me, lambda table: all(worker.get("per_step_ms") for worker in table["workers"]), "it trains")
        self.assertRegex(table["says"], r"^trains: step \d+, 0\.\d+ s a step$")
        self.assertEqual([worker["waits"] for worker in table["workers"]], [False, False])  # it begins no collective
        screen = self.ctl("status", me)
        self.assertRegex(screen, rf"^{me} trains: step \d+, ")
        self.assertRegex(screen, r"\ngoodput \d+\.\d %; restarts 0 of \d+; coordinated on ")
        self.assertRegex(self.ctl("status", "-v", me), r"\nspent: .*training \d")
        account = table["account"]
        self.assertTrue(account["steps_known"])
        self.assertGreater(account["training_ms"], 0)
        parts = sum(part for name, part in account.items() if name.endswith("_ms"))
        self.assertLess(parts, table["job_ms"] + 1000)
        self.assertNotIn("checkpoint_ago_ms", table)
        self.assertIn("\nnode  ", screen)
        self.assertLessEqual(len(screen.splitlines()), 24)
        self.assertLessEqual(max(map(len, screen.splitlines())), 80)
        screen.encode("ascii")
        self.ctl("status", "--check", me)
        for shown in (screen, self.ctl("status", me, "--json"), self.ctl("events", me), self.ctl("metrics", me)):
            self.assertNotIn(self.dir, shown)  # no argument, and nothing of the environment

        os.unlink(self.path("go1"))  # rank 1 is in load()
        def stacks():
            text = self.ctl("stacks", "all", me)
            return text if re.search(r'rank 1 on \S+\n    File "\S*train.py", line \d+ in load', text) else None
        wait_until(stacks, "rank 1 is shown in load()")
        self.assertIn("in load", self.ctl("stacks", "1", me))
        self.ctl("stacks", "2", me, code=111)
        self.assertIn("there is no rank 2: the job has 2 ranks now", self.said)

        tail = self.ctl("logs", "1", me)
        self.assertIn("hello from 1\n", tail)
        self.assertNotIn("hello from 0\n", tail)
        self.assertEqual({json.loads(line)["text"] for line in self.ctl("logs", "1", me, "--json", "-n", "0").splitlines()}, {""})
        with open("/dev/full", "w") as full:
            done = subprocess.run([CTL, "status", me], env=self.environment(), stdout=full, stderr=subprocess.PIPE, timeout=GUARD)
        self.assertEqual(done.returncode, 111)
        self.assertIn(b"cannot write to standard output: No space left on device", done.stderr)
        events = [json.loads(line) for line in self.ctl("events", me).splitlines()]
        self.assertEqual([event["kind"] for event in events if event["kind"] != "time"], ["node_joined", "formed", "started"])

        with open(self.path("logs/" + os.listdir(self.path("logs"))[0] + "/events.jsonl")) as kept:
            self.assertEqual([json.loads(line) for line in kept.readlines()[1:]], events)
        for of in (me, kept.name):
            bars = json.loads(self.ctl("trace", of, env=PACKAGE))
            self.assertIn({"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "job"}}, bars)
        self.ctl("trace", self.path("none"), code=1, env=PACKAGE)
        follow = subprocess.Popen([CTL, "events", "-f", me], env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn(b"node_joined", follow.stdout.readline())
        self.end(job)
        told, said = follow.communicate(timeout=GUARD)
        self.assertEqual((follow.returncode, said), (0, b""))
        self.assertEqual(json.loads(told.splitlines()[-1])["kind"], "verdict")
        self.ctl("status", me, code=113)
        self.assertIn("no job " + me, self.said)

    def test_a_worker_that_is_stopped_is_named_and_not_woken(self):
        job = self.begin("--heartbeat-timeout", "0")
        me = self.run_id()
        self.go(0, 1)
        workers = [pid for pid in jobs.children(job.agent_pid()) if b"train.py" in open(f"/proc/{pid}/cmdline", "rb").read()]
        os.kill(workers[0], signal.SIGSTOP)
        table = self.await_table(me, lambda table: not table["well"], "somebody is stopped")
        self.assertRegex(table["says"], r"^STANDS STILL: rank [01] on \S+ is stopped \(SIGSTOP\)$")
        self.ctl("status", "--check", me, code=1)
        self.assertRegex(self.ctl("stacks", "all", me), r"rank [01] on \S+: pid \d+ .*state T")
        self.assertIn("State:\tT", jobs.read(f"/proc/{workers[0]}/status"))
        os.kill(workers[0], signal.SIGCONT)
        agent = job.agent_pid()
        os.kill(agent, signal.SIGSTOP)  # and so is cxxrun itself
        self.ctl("status", me, code=111)
        self.assertRegex(self.said, rf"does not answer within 1 s: pid (.*\b)?{agent}\b")
        other = self.start("--standalone", *self.python_worker(TRAINER, "train.py"), env=PACKAGE)
        self.await_events(3, "up")
        self.assertIn("coordinated on", self.ctl("status", code=111))  # one that answers hides nobody
        self.assertRegex(self.said, rf"does not answer within 1 s: pid (.*\b)?{agent}\b")
        self.end(other)
        os.kill(agent, signal.SIGCONT)
        self.ctl("status", me)
        self.end(job)

    def test_an_agent_that_is_killed_does_not_end_its_events_as_a_verdict_does(self):
        job = self.begin(ranks=1)
        follow = subprocess.Popen([CTL, "events", "-f", self.run_id()], env=self.environment(), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        next(line for line in follow.stdout if b'"started"' in line)
        os.kill(job.agent_pid(), signal.SIGKILL)
        said = follow.communicate(timeout=GUARD)[1]
        self.assertEqual(follow.returncode, 111)
        self.assertIn(b"has ended, and has told of no verdict", said)
        job.wait()

    def test_what_is_not_understood_is_refused_without_harm(self):
        job = self.begin(ranks=1)
        me = self.run_id()
        self.ctl("stauts", code=100)
        self.assertIn("did you mean status?", self.said)
        self.await_table(me, lambda table: table["workers"], "its worker is told of")
        self.ctl("logs", "0", me, code=111)
        self.assertIn("writes only to the console: --log-dir DIR --tee 3 keeps its output in files", self.said)
        self.ctl("logs", "0", "no-such-job", code=113)
        for verb in ("doctor", "init"):  # as cxxrun --doctor and --init
            self.assertRegex(self.ctl(verb, "--version"), r"^cxxrun \d")
        [path] = [value.split("=", 1)[1] for pid in jobs.processes_with(self.marker)
                  for value in jobs.read(f"/proc/{pid}/environ").split("\0") if value.startswith("CXXRUN_AGENT=")][:1]
        head = b"CXXWORK\x01"
        for packet in (b"", b"x", head, head + b"\x04", head + b"\x04\xff\xff\xff\xff", head + b"\x04\x06\0\0\0statu",
                       head + b"\x04\x08\0\0\0bogus  \n", head + b"\x04\xff\x03\0\0" + b"s" * 1023, b"\0" * 65536):
            with self.subTest(packet=packet[:20]), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                stranger.settimeout(GUARD)
                stranger.connect(path)
                stranger.send(packet)
                try:
                    answer = stranger.recv(65536)
                except ConnectionResetError:
                    answer = b""
                self.assertTrue(not answer or b"error" in answer, answer)
        silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(50)]  # who read no answer
        for one in silent:
            one.connect(path)
            one.send(head + b"\x04\x06\0\0\0status")
        wait_until(lambda: self.table(me), "it still answers")
        for one in silent:
            one.close()
        self.end(job)


class Others(LiveCase):
    """Several jobs, and other users."""

    def ctl_as(self, uid, *arguments):
        """Where it finds no squeue."""
        if not os.path.exists(self.path("cxxrunctl")):
            shutil.copy(CTL, self.path("cxxrunctl"))
            os.chmod(self.dir, 0o755)
        return subprocess.run([self.path("cxxrunctl"), *arguments], user=uid, group=uid, extra_groups=[], cwd="/",
                              env=self.environment({"PATH": "/nonexistent"}), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=GUARD)

    def test_of_several_jobs_one_has_to_be_named(self):
        job = self.begin(ranks=1)
        other = self.start("--standalone", *self.python_worker(TRAINER, "train.py"), env=PACKAGE)
        self.await_events(2, "up")
        self.ctl("stacks", "all", code=100)
        self.assertRegex(self.said, rf"several jobs run there, say which one: (.*, )?{self.run_id()}(,|\n)")
        done = subprocess.run([CTL], env=self.environment(), capture_output=True, text=True, timeout=GUARD)
        self.assertGreaterEqual(done.stdout.count("; coordinated on "), 2, done)
        self.assertIn("\n\n", done.stdout)
        self.end(job, other)

    def test_where_nobody_reads_its_output_it_ends_in_silence(self):
        job = self.begin(ranks=1)
        for arguments in (["status"], ["events"], ["events", "-f"]):
            ours, theirs = os.pipe()
            os.close(ours)
            done = subprocess.run([CTL, *arguments, self.run_id()], env=self.environment(), stdout=theirs, stderr=subprocess.PIPE,
                                  timeout=GUARD)
            os.close(theirs)
            self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)
        self.end(job)

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_another_user_is_told_nothing_and_changes_nothing(self):
        job = self.begin(ranks=1)
        me = self.run_id()
        for arguments in (["status", me], ["status", me, "--json"], ["stacks", "all", me], ["logs", "0", me], ["events", me],
                          ["page", me], ["restart", me, "--yes"], ["stop", me, "--yes"]):
            done = self.ctl_as(65534, *arguments)
            self.assertEqual((done.returncode, done.stdout), (113, b""), done)
        self.assertEqual(self.table(me)["generation"], 1)
        self.end(job)

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_a_process_of_another_user_is_not_asked_whatever_it_is_called(self):
        listen = ("import socket, sys\n"
                  "open('/proc/self/comm', 'w').write('cxxrun')\n"
                  "listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                  "listener.bind('\\0' + sys.argv[1])\n"
                  "listener.listen()\n"
                  "print('ready', flush=True)\n"
                  "while True:\n"
                  "  call = listener.accept()\n"
                  "  print('asked', flush=True)\n")
        for uid in (65534, os.getuid()):  # an own process is asked: the user alone makes the difference
            with subprocess.Popen(["/usr/bin/python3", "-c", listen, f"{self.marker}-{uid}"], user=uid, group=uid, extra_groups=[],
                                  cwd="/", env=self.environment(), stdout=subprocess.PIPE, text=True) as squatter:
                self.addCleanup(squatter.kill)
                self.assertEqual(squatter.stdout.readline(), "ready\n")
                self.assertIn(self.ctl_as(os.getuid(), "status", "no-such-job").returncode, (111, 113))
                squatter.kill()
                self.assertEqual("asked" in squatter.stdout.read(), uid == os.getuid())


class Changes(LiveCase):
    def answered(self, answer, *arguments, code=0):
        """At a terminal where a person types the answer."""
        ours, theirs = os.openpty()
        with os.fdopen(ours, "r+b", buffering=0) as terminal:
            terminal.write(answer)
            done = subprocess.run([CTL, *arguments], env=self.environment(), stdin=theirs, capture_output=True, timeout=GUARD)
            os.close(theirs)
        self.assertEqual(done.returncode, code, done)
        return done.stderr.decode()

    def test_it_is_changed_only_after_a_question_and_the_job_says_by_whom(self):
        job = self.begin()
        me = self.run_id()
        self.go(0, 1)
        by = rf"by uid {os.getuid()} on \S+"
        self.ctl("stop", me, code=100)
        self.assertIn("have --shutdown-timeout to save", self.said)
        self.assertIn("--yes does it without a question", self.said)
        self.assertIn("[y/N] cxxrunctl: nothing is done", self.answered(b"n\n", "restart", me, code=1))
        self.assertEqual(self.table(me)["generation"], 1)

        self.assertRegex(self.ctl("checkpoint", me, "--yes"), r": asked 2 of 2 workers to save\n$")
        self.assertRegex(self.ctl("restart", me, "--yes"), rf": restarted {by}\n$")
        self.await_events(2, "up", generation=2)
        table = self.await_table(me, lambda table: table["phase"] == "running", "it runs again")
        self.assertEqual((table["generation"], table["restarts"]), (2, 0))
        self.assertIn("stop generation 2 of ", self.answered(b"y\n", "stop", me))
        self.assertEqual(job.wait(), 130)
        self.assertRegex(job.stderr, rf"asked for a checkpoint {by}")
        self.assertRegex(job.stderr, rf"restarted {by}")
        self.assertRegex(job.stderr, rf"stopped {by}")
        self.ctl("stop", me, "--yes", code=113)

    def test_a_checkpoint_is_known_when_the_workers_that_were_asked_for_it_have_gone_on(self):
        saves = "    cxxrun.step(step)\n    if cxxrun.checkpoint_wanted() and cxxrun.job_ends():\n        break\n"
        job = self.begin(script=TRAINER.replace("    cxxrun.step(step)\n", saves))
        self.go(0, 1)
        self.await_table(self.run_id(), lambda table: table["workers"] and all(each["step"] for each in table["workers"]), "it trains")
        self.assertNotIn("checkpoint_ago_ms", self.table(self.run_id()))
        self.ctl("checkpoint", self.run_id(), "--yes")
        self.await_table(self.run_id(), lambda table: "checkpoint_ago_ms" in table, "they have saved")
        self.end(job)

    @unittest.skipUnless(os.geteuid() == 0, "takes root: nodes with names of their own")
    def test_a_node_is_drained_for_good_and_the_others_go_on(self):
        me, by = self.run_id(), rf"drained by uid {os.getuid()} on node\d"
        worker = ("--nproc-per-node=1", self.worker('note up "$(uname -n)"; gate end'))
        agents = {name: self.start_named(name, *worker) for name in ("node1", "node2", "node3")}
        self.await_events(3, "up")
        table = self.await_table(me, lambda table: (table["phase"], len(table["workers"])) == ("running", 3), "three run")
        shown, first = table["generation"], table["coordinator"]
        ranks = {worker["host"]: worker["rank"] for worker in table["workers"]}
        self.assertEqual(sorted(ranks), sorted(agents))
        leaves, stays = (name for name in agents if name != first)

        for name, why in ((first, f"{first} coordinates the job, and cannot hand that over"),
                          ("node9", "no worker of this job runs on node9, but on node")):
            self.ctl("drain", me, name, "--yes", code=111)
            self.assertIn(why, self.said)
        self.ctl("drain", me, leaves, code=100)
        self.assertIn(f"{leaves} with rank {ranks[leaves]} leaves for good; the others go on as 2 nodes", self.said)
        self.assertEqual(self.table(me)["generation"], shown)
        asked = self.answered(b"y\n", "drain", me, f"{leaves}.cluster")
        self.assertIn(f"drain {leaves}.cluster of generation {shown} of {me}? [y/N] ", asked)

        table = self.await_table(me, lambda table: table["generation"] > shown and len(table["workers"]) == 2, "two go on")
        self.assertEqual((table["nodes"], table["restarts"]), (2, 0))
        self.assertEqual({event[3] for event in self.await_events(2, "up", table["generation"])}, {first, stays})
        self.ctl("drain", me, stays, "--yes", code=111)
        self.assertIn(f"1 node would be left without {stays}, spares included; --nnodes wants at least 2", self.said)
        again = self.start_named(leaves, *worker)
        self.assertEqual(again.wait(), 112, again.stderr)
        self.assertRegex(again.stderr, f"this node was excluded: {leaves}: {by}")
        events = [json.loads(line) for line in self.ctl("events", me).splitlines()]
        [wanted] = [event for event in events if event["kind"] == "wanted"]
        self.assertEqual((wanted["verb"], wanted["host"], wanted["generation"]), ("drain", f"{leaves}.cluster", shown))
        [excluded] = [event for event in events if event["kind"] == "node_excluded"]
        self.assertEqual(excluded["host"], leaves)
        self.assertRegex(excluded["why"], by)

        self.assertIsNone(agents[leaves].process.poll())
        self.open_gate("end")
        self.assert_codes([0, 0, 0], *agents.values())
        self.assertRegex(agents[first].stderr, f"{leaves} is {by}")
        self.assertRegex(agents[leaves].stderr, f"excluded: {by}")

    def test_workers_that_cannot_be_asked_to_save_are_told_of(self):
        job = self.start_node("--nproc-per-node=1", "--rdzv-id", self.run_id(), self.worker("note up; exec sleep 1000"), nnodes="1")
        self.await_events(1, "up")
        self.await_table(self.run_id(), lambda table: table["workers"], "its worker is told of")
        self.ctl("checkpoint", self.run_id(), "--yes", code=111)
        self.assertIn("none of 1 worker can be asked", self.said)
        self.end(job)


class Elsewhere(LiveCase):
    """Where no job of that number is found, with programs in place of squeue and srun. tests/slurm/places_test.py has
    the real ones."""

    def command(self, name, text):
        self.make_file("bin/" + name, "#!/bin/sh\n" + text, 0o755)

    def slurm(self):
        return {"PATH": self.path("bin") + ":/usr/bin:/bin", "SLURM_NTASKS_PER_NODE": "8"}

    def setUp(self):
        super().setUp()
        self.command("squeue", 'echo "77 77 node[1-2]"\n')
        # In place of job 77 it finds ours; on node1 it finds nothing.
        self.command("srun", f'''echo "$*" >>{self.path("started")}
[ -z "$SLURM_NTASKS_PER_NODE" ] || exit 1
case "$*" in *"-w node1 "*) exit 1 ;; esac
while [ "$1" != --relay ]; do program=$1; shift; done
exec "$program" --relay {self.run_id()}
''')

    def test_it_is_asked_through_srun_on_the_first_node_where_that_starts_something(self):
        job = self.begin("--log-dir", self.path("logs"), "--tee", "3")
        me = self.run_id()
        told = wait_until(lambda: (text := self.ctl("status", "77", env=self.slurm())) and "\nnode  " in text and text,
                          "its workers are told of")
        self.assertRegex(told, rf"^{me} runs for ")
        self.assertEqual([line.split(" -w ")[1].split()[0] for line in jobs.read(self.path("started")).splitlines()[:2]],
                         ["node1", "node2"])
        self.assertEqual(json.loads(self.ctl("status", "77", "--json", env=self.slurm()))["run_id"], me)
        self.assertRegex(self.ctl("stacks", "all", "77.0", env=self.slurm()), r"rank")
        self.assertIn("hello from 1\n", self.ctl("logs", "1", "77", env=self.slurm()))
        log = subprocess.Popen([CTL, "logs", "-f", "1", "77"], env=self.environment(self.slurm()), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        next(line for line in log.stdout if line == b"hello from 1\n")
        self.ctl("logs", "2", "77", code=111, env=self.slurm())
        self.assertIn("there is no rank 2", self.said)
        follow = subprocess.Popen([CTL, "events", "-f", "77"], env=self.environment(self.slurm()), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.assertIn(b"node_joined", follow.stdout.readline())
        self.end(job)
        told, said = follow.communicate(timeout=GUARD)
        self.assertEqual(follow.returncode, 0, said)
        self.assertEqual(json.loads(told.splitlines()[-1])["kind"], "verdict")
        said = log.communicate(timeout=GUARD)[1]
        self.assertEqual((log.returncode, b"the agent that was asked has ended" in said), (0, True), said)
        self.ctl("status", "77", code=113, env=self.slurm())
        self.assertIn("no cxxrun answers in job 77 of Slurm, asked on node1, node2", self.said)

    def test_what_cannot_be_reached_is_said_in_one_line_and_with_its_code(self):
        self.ctl("status", "78", code=113, env=self.slurm())
        self.assertIn("no job 78 of yours runs on this node, and squeue lists none elsewhere", self.said)
        self.command("srun", "exit 1\n")
        self.ctl("status", "77", code=111, env=self.slurm())
        self.assertIn("srun starts nothing in job 77 of Slurm, asked on node1, node2", self.said)
        self.command("squeue", 'echo "77 70_1 node[1-2]"; echo "78 70_2 node3"\n')
        self.ctl("status", "70_2.0", code=111, env=self.slurm())
        self.assertIn("asked on node3", self.said)
        self.ctl("status", "77", code=113, env={"PATH": self.path("empty")})
        self.assertIn("from elsewhere: srun --overlap --jobid=77 ", self.said)


# Four ranks on gloo, one of which takes a fifth longer to load its input.
LATE_TRAINER = """
import os
import cxxrun
cxxrun.install()
note("up")
import torch
import torch.distributed
torch.distributed.init_process_group("gloo")
def load():
    time.sleep(0.36 if RANK == "2" else 0.3)
for step in range(1, 100000):
    load()
    torch.distributed.all_reduce(torch.ones(1))
    cxxrun.step(step)
"""


class Slow(LiveCase):
    @unittest.skipUnless(os.path.isdir("/usr/lib/python3/dist-packages/torch"), "Debian: python3-torch")
    def test_a_rank_that_takes_a_fifth_longer_is_named_and_nothing_happens_to_it(self):
        me = self.run_id()
        job = self.start_node("--nproc-per-node=4", "--rdzv-id", me, *self.python_worker(LATE_TRAINER, "train.py"), nnodes="1",
                              env={**PACKAGE, "GLOO_SOCKET_IFNAME": "lo", "USE_LIBUV": "0", "OMP_NUM_THREADS": "1"})
        def slow(over):
            done = subprocess.run([CTL, "events", me], env=self.environment(), capture_output=True, timeout=GUARD)
            self.assertIn(done.returncode, (0, 111), done.stderr)  # 111: a busy machine, which does not answer in time
            events = [json.loads(line) for line in done.stdout.splitlines()]
            return [event for event in events if event["kind"] == "slow" and event["rank"] == 2 and event["over"] == over]
        self.await_events(4, "up")
        event = wait_until(lambda: slow(False), "rank 2 is named", LONG)[0]  # on a busy machine others may be, too
        self.assertEqual((event["ranks"], event["source"], event["generation"]), (1, "begun", 1))
        self.assertGreater(event["late_s"], 0)
        wait_until(lambda: re.search(r"rank 2 on \S+ is \S+ s late in each step of \S+ s \(\d+ %\)", job.stderr), "the line")
        if not slow(True):
            table = self.table(me)
            self.assertIn(2, [each["rank"] for each in table["slow"]])
            self.assertRegex(table["says"], "^is SLOW: ")
            self.assertIn("SLOW\n", self.ctl("status", me))
            self.assertRegex(self.ctl("stacks", "slow", me), r"rank 2 on|ranks .*\b2\b")
        self.ctl("status", "--check", me)
        self.end(job)


class TwoNodes(LiveCase):
    def test_any_node_tells_of_all_and_somebody_else_when_the_first_is_lost(self):
        script = self.python_worker(TRAINER, "train.py")
        self.go(0, 1, 2)
        agents = [self.start_node("--rdzv-id", self.run_id(), "--nproc-per-node=1", *script, nnodes="2:3", env=PACKAGE)
                  for _ in range(3)]
        me = self.run_id()
        self.await_events(3, "up", generation=1)
        table = self.await_table(me, lambda table: len(table["workers"]) == 3, "three workers are told of")
        self.assertEqual(sorted(worker["rank"] for worker in table["workers"]), [0, 1, 2])
        stacks = [json.loads(line) for line in self.ctl("stacks", "all", me, "--json").splitlines()]
        self.assertEqual(sorted(stack["rank"] for stack in stacks), [0, 1, 2])
        coordinator = next(agent for agent in agents if "coordinates" in agent.stderr or agent is agents[0])
        coordinator.process.kill()
        def elected():
            done = subprocess.run([CTL, "status", me, "--json"], env=self.environment(), capture_output=True, timeout=GUARD)
            self.assertIn(done.returncode, (0, 111), done.stderr)  # 111: electing
            tables = [json.loads(line) for line in done.stdout.splitlines()]
            return (tables and len(tables[0]["workers"]) == 2 and tables[0]["generation"] > 1
                    and tables[0].get("account", {}).get("training_ms", 0) > 0)
        wait_until(elected, "the next coordinator tells of both workers, and goes on with the account")
        self.end(*agents[1:])


if __name__ == "__main__":
    jobs.main()
