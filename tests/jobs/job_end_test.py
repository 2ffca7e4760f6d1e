"""How jobs end when somebody ends them: kill -9 of an agent, signals, Ctrl-C. Usage: job_end_test.py CXXRUN"""
import os
import pty
import select
import signal
import socket
import sys
import time

import jobs
from jobs import JobCase, count_reports, wait_until

# What is promised for the workers of an agent that was killed.
PROMISE = 1.0


def with_daemon(body):
    """A shell worker that has left a daemon behind: double fork, own session, deaf to signals."""
    return ("(setsid sh -c 'trap \"\" TERM INT HUP; echo \"$CXXRUN_GENERATION $RANK daemon $$\" >> \"$DIR/events\";"
            " exec sleep 1000' > /dev/null 2>&1 &)\n" + body)


class Killed(JobCase):
    """kill -9 of one of the two processes of an agent."""

    def assert_gone_in_time(self, pids):
        began = time.monotonic()
        wait_until(lambda: not any(map(jobs.alive, pids)), f"{pids} are gone")
        self.assertLess(time.monotonic() - began, PROMISE)

    def pids(self, word, count, generation=1):
        return {rank: int(pid) for _, rank, _, pid in self.await_events(count, word, generation)}

    def kill_standalone(self, choose):
        program = self.worker(with_daemon("trap '' TERM INT HUP; note worker $$\ngate never"))
        job = self.start("--standalone", "--nproc-per-node", "4", program)
        pids = [*self.pids("worker", 4).values(), *self.pids("daemon", 4).values(), job.agent_pid()]
        os.kill(choose(job), signal.SIGKILL)
        self.assert_gone_in_time(pids)
        return job

    def test_when_the_parent_is_killed_workers_and_their_daemons_are_gone_within_a_second(self):
        job = self.kill_standalone(lambda job: job.pid)
        self.assertEqual(job.wait(), -signal.SIGKILL)

    def test_when_the_agent_is_killed_workers_and_their_daemons_are_gone_within_a_second(self):
        job = self.kill_standalone(lambda job: job.agent_pid())
        self.assertEqual(job.wait(), 128 + signal.SIGKILL)
        self.assertIn("was killed by signal 9 (SIGKILL)", job.stderr)

    def test_a_killed_agent_leaves_no_temporary_log_directory(self):
        for choose in (lambda job: job.pid, lambda job: job.agent_pid()):
            self.kill_standalone(choose).wait()
            wait_until(lambda: not [n for n in os.listdir(self.dir) if n.startswith("cxxrun-")], "no log directory")
            os.unlink(self.path("events"))

    def temporary(self):
        return {name for name in os.listdir(self.dir) if name.startswith(f"cxxrun-{os.getuid()}-")}

    def test_the_next_agent_removes_what_one_that_was_killed_with_its_parent_has_left_and_nothing_else(self):
        self.start("--standalone", self.worker("note lives\ngate never", "living"))
        self.await_events(1, "lives")
        living = self.temporary()
        killed = self.start("--standalone", self.worker(with_daemon("note worker $$\ngate never")))
        pids = [*self.pids("worker", 1).values(), killed.agent_pid(), killed.pid]
        daemon, = self.pids("daemon", 1).values()
        left = self.temporary() - living
        self.assertEqual(len(left), 2)  # for its sockets, for its logs
        for sent in (signal.SIGSTOP, signal.SIGKILL):  # neither sees the other one's end
            for pid in pids[1:]:
                os.kill(pid, sent)
        killed.wait()
        wait_until(lambda: not any(map(jobs.alive, pids)), "agent, parent and worker are gone")
        self.assertEqual(self.temporary(), living | left)

        self.assertTrue(jobs.alive(daemon))  # which holds no lock of its agent's
        self.assertEqual(self.run_job("--standalone", "true").code, 0)
        self.assertEqual(self.temporary(), living)
        os.kill(daemon, signal.SIGKILL)

    def await_world(self, size):
        """Waits for the first generation of `size` workers; its number and {rank: process id}.

        It need not be the first one: when the second agent is slow, the first begins without it."""
        def seen():
            found = [event for event in self.events("worker") if event[4] == str(size)]
            return found if len(found) >= size else None
        found = wait_until(seen, f"{size} workers in a world of {size}")
        return found[0][0], {rank: int(pid) for _, rank, _, pid, _ in found}

    def lose_one(self, nnodes, victim, choose):
        """Starts two agents and kills one of the two processes of the first (0) or second (1)."""
        program = self.worker(with_daemon("note worker $$ $WORLD_SIZE\ngate go"))
        agents = self.start_two("--nproc-per-node", "2", "--restart-timeout", "1", "--rdzv-conf", "last_call_timeout=1",
                                program, nnodes=nnodes)
        self.generation, workers = self.await_world(4)
        daemons = self.pids("daemon", 4, self.generation)
        ranks = (0, 1) if victim == 0 else (2, 3)
        os.kill(choose(agents[victim]), signal.SIGKILL)
        self.assert_gone_in_time([pids[rank] for pids in (workers, daemons) for rank in ranks])
        return agents

    def test_a_fixed_job_ends_with_too_few_nodes_when_an_agent_is_killed(self):
        for choose in (lambda agent: agent.pid, lambda agent: agent.agent_pid()):
            first, second = self.lose_one("2", 1, choose)
            self.assert_codes([112], first)
            self.assertIn("too few nodes", first.stderr)
            self.assertIn("--nnodes", first.stderr)
            second.wait()
            os.unlink(self.path("events"))

    def test_an_elastic_job_goes_on_alone_when_the_other_agent_is_killed(self):
        first, second = self.lose_one("1:2", 1, lambda agent: agent.agent_pid())
        alone = self.await_events(2, "worker", self.generation + 1)
        self.assertEqual(sorted((rank, size) for _, rank, _, _, size in alone), [(0, "2"), (1, "2")])
        self.release(first)
        self.assertIn("lost ", first.stderr)
        self.assertEqual(second.wait(), 128 + signal.SIGKILL)

    def test_the_loss_of_a_node_uses_up_no_restart(self):
        program = self.worker('note worker $$ $WORLD_SIZE\nnote restarts "$TORCHELASTIC_RESTART_COUNT"\ngate go')
        first, second = self.start_two("--rdzv-conf", "last_call_timeout=1", "--max-restarts", "0", program, nnodes="1:2")
        generation, _ = self.await_world(2)
        second.process.kill()
        alone = self.await_events(1, "restarts", generation + 1)
        self.assertEqual([event[3] for event in alone], ["0"])
        self.release(first)

    def test_without_its_coordinator_a_fixed_job_ends_with_113(self):
        for choose in (lambda agent: agent.pid, lambda agent: agent.agent_pid()):
            first, second = self.lose_one("2", 0, choose)
            self.assert_codes([113], second)
            self.assertIn("coordinator lost", second.stderr)
            first.wait()
            os.unlink(self.path("events"))

    def test_the_survivor_of_a_pair_goes_on_without_the_coordinator_that_has_died(self):
        first, second = self.lose_one("1:2", 0, lambda agent: agent.agent_pid())
        self.await_events(2, "worker", self.generation + 100)
        self.release(second)
        first.wait()


class Told(JobCase):
    """Signals to the process that was started."""

    # Counts the signals it gets and ends when `last` has come.
    COUNTING = """
import threading
signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
note("ready")
number = signal.sigwait(signals)
note("got", signal.Signals(number).name)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
gate("go")
"""

    def test_each_ending_signal_reaches_every_worker_once_and_decides_the_exit_code(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number.name):
                job = self.start("--standalone", "--nproc-per-node", "2", *self.python_worker(self.COUNTING))
                self.await_events(2, "ready")
                job.process.send_signal(number)
                self.await_events(2, "got")
                self.open_gate("go")
                self.assert_codes([128 + number], job)
                self.assertEqual(sorted(event[1:] for event in self.events("got")),
                                 [(0, "got", number.name), (1, "got", number.name)])
                self.assertRegex(job.stderr, rf"\n  \S+ was told to end by {number.name} from pid {os.getpid()} "
                                             rf"\(\S+\), uid {os.getuid()}\n")
                os.unlink(self.path("events"))
                os.unlink(self.path("go"))

    def test_a_second_term_is_nothing_new(self):
        body = ('count=0; trap \'count=$((count + 1)); note term $count\' TERM\nnote ready\n'
                'until [ -e "$DIR/end" ]; do sleep 0.05; done; exit 0')
        job = self.start("--standalone", "--log-level", "debug", self.worker(body))
        self.await_events(1, "ready")
        job.process.terminate()
        self.await_events(1, "term")
        job.process.terminate()
        job.says("SIGTERM again, already stopping")
        self.make_file("end")
        self.assert_codes([143], job)
        self.assertEqual(len(self.events("term")), 1)

    def test_term_to_one_agent_ends_a_fixed_job_everywhere_with_143(self):
        for victim in (0, 1):
            agents = self.start_two(self.worker("note ready\ngate never"))
            self.await_events(2, "ready")
            agents[victim].process.terminate()
            self.assert_codes([143, 143], *agents)
            self.assertEqual(count_reports(*agents), 1)
            os.unlink(self.path("events"))

    def test_term_to_one_agent_of_an_elastic_job_leaves_the_others_running(self):
        first, second = self.start_two("--rdzv-conf", "last_call_timeout=1", self.worker("note ready $WORLD_SIZE\ngate go"),
                                       nnodes="1:2")
        pair = wait_until(lambda: [e for e in self.events("ready") if e[3] == "2"], "a generation of both")
        second.process.terminate()
        alone = self.await_events(1, "ready", pair[0][0] + 1)
        self.assertEqual([event[3] for event in alone], ["1"])
        self.open_gate("go")
        self.assert_codes([0, 143], first, second)

    def test_term_while_waiting_for_nodes_ends_the_agent_with_143(self):
        job = self.start_node(self.worker("true"))
        job.says("waiting for nodes")
        job.process.terminate()
        self.assert_codes([143], job)

    def test_term_while_looking_for_the_coordinator_ends_the_agent_at_once(self):
        with socket.create_server(("127.0.0.1", self.port)) as stranger:
            job = self.start_node("--rdzv-conf", "is_host=0", self.worker("true"))
            stranger.settimeout(jobs.GUARD)
            stranger.accept()[0].close()
            job.process.terminate()
            self.assertEqual(job.wait(4), 143, job.stderr)

    def test_a_worker_that_ignores_term_is_killed_after_the_shutdown_timeout(self):
        program = self.worker("trap '' TERM; note ready $$\ngate never")
        job = self.start("--standalone", "--shutdown-timeout", "1", program)
        pid = int(self.await_events(1, "ready")[0][3])
        began = time.monotonic()
        job.process.terminate()
        self.assert_codes([143], job)
        self.assertGreaterEqual(time.monotonic() - began, 1)
        self.assertFalse(jobs.alive(pid))

    def test_a_survivor_of_a_failure_that_ignores_term_is_killed_after_the_restart_timeout(self):
        program = self.worker("trap '' TERM; note ready\ntest $RANK = 0 || gate never\ngate go; exit 3")
        job = self.start("--standalone", "--nproc-per-node=2", "--max-restarts=0", "--restart-timeout=1",
                         "--shutdown-timeout=600", program)
        self.await_events(2, "ready")
        began = time.monotonic()
        self.open_gate("go")
        self.assert_codes([3], job)
        self.assertGreaterEqual(time.monotonic() - began, 1)

    def test_usr1_reaches_the_workers_that_catch_it_and_no_other(self):
        program = self.worker("test $RANK = 1 && trap 'note usr1; exit 0' USR1\nnote ready\n"
                              'until [ -e "$DIR/end" ]; do sleep 0.05; done')
        job = self.start("--standalone", "--nproc-per-node", "2", program)
        self.await_events(2, "ready")
        job.process.send_signal(signal.SIGUSR1)
        self.await_events(1, "usr1")
        self.make_file("end")
        self.assert_codes([0], job)
        self.assertEqual([event[1] for event in self.events("usr1")], [1])


class Terminal(JobCase):
    """Ctrl-C typed at a terminal reaches parent and agent at once; workers have sessions of their own."""

    def start_on_terminal(self, *arguments):
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.execve(jobs.CXXRUN, [jobs.CXXRUN, *arguments], self.environment())
        self.addCleanup(os.close, self.terminal)
        self.output = b""
        self.code = None
        self.job = pid

    def pump(self):
        """Reads what the terminal shows, and notices the end of the job."""
        while select.select([self.terminal], [], [], 0)[0]:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                break
            if not data:
                break
            self.output += data
        if self.code is None:
            pid, status = os.waitpid(self.job, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def tearDown(self):
        if self.code is None:
            os.kill(self.job, signal.SIGKILL)
            os.waitpid(self.job, 0)
        super().tearDown()

    def press_ctrl_c(self):
        os.write(self.terminal, b"\x03")

    def test_ctrl_c_ends_the_job_with_130_and_interrupts_each_worker_once(self):
        body = Told.COUNTING
        self.start_on_terminal("--standalone", "--nproc-per-node", "2", *self.python_worker(body))
        self.await_events(2, "ready")
        self.press_ctrl_c()
        self.await_events(2, "got")
        self.open_gate("go")
        wait_until(self.pump, "the job ends")
        self.assertEqual(self.code, 130, self.output)
        self.assertEqual([event[3] for event in self.events("got")], ["SIGINT", "SIGINT"])
        self.assertIn(b"told to end by SIGINT: waiting up to 30 s for 2 workers; Ctrl-C again kills them", self.output)

    def test_a_second_ctrl_c_kills_at_once(self):
        body = ("signal.signal(signal.SIGINT, lambda *_: note('interrupted'))\nnote('ready')\n"
                "while True:\n    signal.pause()")
        self.start_on_terminal("--standalone", "--shutdown-timeout", "600", *self.python_worker(body))
        self.await_events(1, "ready")
        self.press_ctrl_c()
        self.await_events(1, "interrupted")
        self.press_ctrl_c()
        wait_until(self.pump, "the job ends", 20)
        self.assertEqual(self.code, 130, self.output)


class TimeIsUp(JobCase):
    """At one instant for all nodes, which is that of the first one: 60 minutes from its start on, or a day."""

    ASKED = ("signal.signal(signal.SIGUSR1, lambda *_: note('asked'))\nnote('up')\n"
             "while True:\n    signal.pause()")

    def test_a_node_that_comes_late_is_asked_to_save_when_the_first_one_is(self):
        def node(limit):
            return self.start_node("--time-limit", limit, "--checkpoint-signal", "USR1@3600", "--rdzv-conf",
                                   "last_call_timeout=1", *self.python_worker(self.ASKED), nnodes="1:2")
        first = node("60")
        self.await_events(1, "asked", 1)
        late = node("1-0")
        self.await_events(2, "asked", 2)
        first.process.terminate()
        self.assert_codes([143, 143], first, late)


if __name__ == "__main__":
    sys.exit(jobs.main())
