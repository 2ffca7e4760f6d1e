"""What the report of a failure says of its cause, and of everybody else. Usage: job_report_test.py CXXRUN"""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys

import jobs
from jobs import JobCase, read

HOST = socket.gethostname().split(".")[0]
SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/last_words")


def shape(name):
    """(the line that says why, the stderr) of a crash as PyTorch prints it."""
    told, _, _, text = read(f"{SHAPES}/{name}.txt").split("\n", 3)
    return told.removeprefix("told: "), text


def report_of(agent):
    return agent.stderr[agent.stderr.index("=" * 72):]


class Evidence(JobCase):
    def dying_like(self, name, how="kill -ABRT $$"):
        told, text = shape(name)
        self.make_file(name, text)
        return told, f'cat "$DIR/{name}" >&2; {how}'

    def test_the_line_of_pytorchs_watchdog_is_shown_although_15_frames_and_40_threads_follow_it(self):
        told, dies = self.dying_like("cuda_illegal_access")
        job = self.run_job("--standalone", "--nproc-per-node", "4", "--max-restarts", "0", "--log-dir", self.path("logs"),
                           "-t", "2", self.worker(f"test $RANK = 2 || gate never\n{dies}"), code=128 + signal.SIGABRT)
        report = report_of(job)
        self.assertIn(f"  why:           {told}\n", report)
        self.assertIn("    | … 15 frames\n", report)
        self.assertIn("  3 others:      SIGTERM by cxxrun\n", report)
        host, log = re.search(r"^  log: +(.*):(/.*)$", report, re.M).groups()
        self.assertEqual(host, HOST)
        self.assertEqual(read(log), shape("cuda_illegal_access")[1])
        [failure] = self.verdict()["failures"]
        self.assertEqual((failure["told"], failure["role"], failure["log"]), (told, "culprit", log))

    def test_without_a_file_the_report_says_how_to_keep_one(self):
        job = self.run_job("--standalone", "--max-restarts", "0", self.worker("exit 3"))
        self.assertIn("  log:           not kept; --log-dir DIR --tee 3 keeps it\n", report_of(job))

    def test_a_python_program_that_a_signal_ends_says_where_it_was(self):
        program = self.python_worker("import ctypes\ndef breaks():\n    ctypes.string_at(0)\nbreaks()")
        job = self.run_job("--standalone", "--max-restarts", "0", *program, code=128 + signal.SIGSEGV)
        self.assertRegex(report_of(job), r"  why: +Fatal Python error: Segmentation fault; File .*ctypes.*line \d+ in")
        job = self.run_job("--standalone", "--max-restarts", "0", *program, env={"PYTHONFAULTHANDLER": ""})
        self.assertNotIn("  why: ", report_of(job))

    def test_who_lost_a_peer_is_not_the_cause_although_it_is_heard_of_first(self):
        _, loses = self.dying_like("gloo_peer_closed", "exit 1")
        told, fails = self.dying_like("gloo_after_own_exception", "note failing; gate never")
        program = self.worker(f"test $RANK = 0 && {{ gate go; {loses}; }}\n{fails}")
        first, second = self.start_two("--max-restarts", "0", program)
        self.await_events(1, "failing")
        self.open_gate("go")
        self.assert_codes([1, 1], first, second)
        report = report_of(first)
        self.assertIn(f"first failure: rank 1 on {HOST}", report)
        self.assertIn(f"  why:           {told}\n", report)
        self.assertRegex(report, r"  1 other: +rank 0 on .*: exit code 1, after losing a peer: RuntimeError: ")

    def test_whoever_waited_in_vain_is_not_the_cause(self):
        _, waits = self.dying_like("nccl_timeout")
        program = self.worker(f'note ready $$\ntest $RANK = 3 && {{ gate go; exit 7; }}\ngate go\n{waits}')
        job = self.start("--standalone", "--nproc-per-node", "4", "--max-restarts", "0", program)
        self.end_unseen(job, 4)
        self.assert_codes([7], job)
        self.assertIn(f"first failure: rank 3 on {HOST}", report_of(job))
        self.assertRegex(report_of(job), r"  3 others: +ranks 0-2 on .*: signal 6 \(SIGABRT\).*, waiting for another rank: ")

    def test_64_ranks_that_fail_at_once_are_told_on_one_screen(self):
        told, dies = self.dying_like("cuda_out_of_memory", "exit 1")
        job = self.start("--standalone", "--nproc-per-node", "64", "--max-restarts", "0", "--local-ranks-filter", "0",
                         "--redirects", "2", "--log-dir", self.path("logs"), self.worker(f"note ready $$; gate go\n{dies}"))
        self.end_unseen(job, 64)
        self.assert_codes([1], job)
        report = report_of(job)
        self.assertIn(told, report)
        self.assertRegex(report, r"  63 others: +ranks [0-9, -]+ on .*: the same\n")
        self.assertLessEqual(sum(max(1, -(-len(line) // 120)) for line in report.splitlines()), 40, report)


class ErrorFiles(JobCase):
    def fails_with(self, script):
        job = self.run_job("--standalone", "--max-restarts", "0", self.worker(f"E=$TORCHELASTIC_ERROR_FILE\n{script}\nexit 1"),
                           code=1)
        return report_of(job)

    def test_the_exception_in_an_error_file_counts_where_stderr_has_none(self):
        report = self.fails_with('printf %s \'{"message": {"message": "ValueError: no\\ndata"}}\' > $E')
        self.assertIn("  exception:     ValueError: no data\n", report)

    def test_an_error_file_that_is_huge_or_broken_or_no_file_is_none(self):
        for script in ("head -c 50000000 /dev/zero > $E", 'printf \'{"message": "cut of\' > $E', "echo nothing > $E",
                       "mkfifo $E", "mkdir $E", 'printf \'{"message": "theirs"}\' > $DIR/x; ln -s $DIR/x $E'):
            with self.subTest(script):
                self.assertNotIn("exception:", self.fails_with(script))

    def test_escapes_of_a_worker_reach_the_report_as_text(self):
        report = self.fails_with('printf \'{"message": "ValueError: \\\\u001b[2J\\\\u0007"}\' > $E\n'
                                 "printf 'RuntimeError: \\033[2J\\007\\377\\n\\033]0;x\\007' >&2")
        self.assertIn("  exception:     ValueError: ?[2J?\n", report)
        self.assertIn("  why:           RuntimeError: ?[2J?", report)
        self.assertNotRegex(report, "[\x00-\x09\x0b-\x1f\x7f]")


class Leavers(JobCase):
    def test_who_had_left_with_0_is_named_where_all_that_failed_had_lost_somebody(self):
        first, second = self.start_two(
            "--max-restarts", "0", "--log-dir", self.path("logs"),
            self.worker("test $RANK = 0 && { note $$; exit 0; }\ngate left\n"
                        'echo "RuntimeError: [pair.cc:598] Connection closed by peer [127.0.0.1]:384" >&2; exit 1'))
        [(_, _, pid)] = self.await_events(1, None)
        jobs.wait_until(lambda: not jobs.alive(int(pid)), "the end of rank 0")
        self.open_gate("left")
        self.assert_codes([1, 1], first, second)
        report = report_of(first)
        self.assertIn(f"  rank 0 on {HOST} had left with exit code 0; rank 1 on {HOST}: exit code 1\n", report)
        self.assertRegex(report, rf"  left before:   with exit code 0: rank 0 on {HOST} at [-0-9]+ [:0-9]+\.\d+\n")
        [left] = self.verdict()["left_before"]
        self.assertEqual((left["rank"], left["host"]), (0, HOST))

    def test_a_process_that_a_worker_leaves_is_named_when_it_is_killed_also_one_in_a_session_of_its_own(self):
        job = self.run_job("--standalone", "--nproc-per-node", "2", self.worker(
            "test $RANK = 1 || exit 0\n(trap '' TERM; note one; exec sleep 60) &\n"
            "setsid sh -c 'echo 1 1 two >>$DIR/events; exec sleep 61' &\n"
            "until test $(cat $DIR/events | wc -l) = 2; do sleep 0.01; done"), code=0)
        self.assertRegex(job.stderr, r"warning: killed 2 processes that rank 1 had left: \S.* \(\d+\), \S.* \(\d+\);")
        self.assertIn("sleep 60 (", job.stderr)
        self.assertIn("sleep 61 (", job.stderr)


class ErrorFile(JobCase):
    """TORCHELASTIC_ERROR_FILE of whoever has started cxxrun."""

    def test_it_receives_that_of_the_first_failure_of_the_last_try_with_its_exit_code(self):
        reply = self.path("reply.json")
        body = ('test $RANK = 1 || gate never\n'
                'printf "%s" "{\\"message\\": {\\"message\\": \\"try $TORCHELASTIC_RESTART_COUNT\\"}}" '
                '>"$TORCHELASTIC_ERROR_FILE"; exit 3')
        first, second = self.start_two("--max-restarts", "1", "--restart-delay", "0", self.worker(body),
                                       env={"TORCHELASTIC_ERROR_FILE": reply})
        self.assert_codes([3, 3], first, second)
        self.assertEqual(json.loads(read(reply)), {"message": {"message": "try 1", "errorCode": 3}})

    def test_where_it_cannot_be_written_a_line_says_so_and_the_job_ends_as_it_would(self):
        job = self.run_job("--standalone", "--max-restarts", "0",
                           self.worker("echo '{\"message\": \"x\"}' >\"$TORCHELASTIC_ERROR_FILE\"; exit 3"),
                           env={"TORCHELASTIC_ERROR_FILE": self.path("no/reply.json")}, code=3)
        self.assertIn(f"cannot write {self.path('no/reply.json')}: No such file or directory", job.stderr)

    def test_a_pipe_that_nobody_reads_holds_no_job_up(self):
        reply = self.path("reply")
        os.mkfifo(reply)
        job = self.run_job("--standalone", "--max-restarts", "0",
                           self.worker("echo '{\"message\": \"x\"}' >\"$TORCHELASTIC_ERROR_FILE\"; exit 3"),
                           env={"TORCHELASTIC_ERROR_FILE": reply}, code=3)
        self.assertIn(f"cannot write {reply}: No such device or address", job.stderr)


class Colour(JobCase):
    def on_a_terminal(self, **variables):
        """What a failing job writes to stderr, which is a terminal."""
        ours, theirs = pty.openpty()
        job = subprocess.Popen([jobs.CXXRUN, "--standalone", "--max-restarts", "0",
                                self.worker("exit 3")], env=self.environment(variables), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                text += os.read(ours, 65536)
            except OSError:  # everybody has closed it
                break
        os.close(ours)
        self.assertEqual(job.wait(), 3)
        return text

    def test_a_terminal_gets_colour_unless_no_color_is_set(self):
        self.assertIn(b"\033[", self.on_a_terminal(NO_COLOR=""))
        self.assertNotIn(b"\033[", self.on_a_terminal(NO_COLOR="1"))


if __name__ == "__main__":
    sys.exit(jobs.main())
