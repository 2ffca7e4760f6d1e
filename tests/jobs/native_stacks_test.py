"""cxxrunctl stacks --native: stacks by a debugger. Usage: native_stacks_test.py CXXRUN CXXRUNCTL ASTRAY_WORKER"""
import os
import shutil
import signal
import subprocess
import sys
import unittest

import jobs
from jobs import GUARD, read, wait_until
from live_jobs import CTL, LiveCase

ASTRAY_WORKER = os.path.abspath(sys.argv.pop(2))


class Native(LiveCase):
    def begin_with(self, debugger, ranks=2):
        """Workers that sleep, where this script is gdb; $4 is the process that it is to trace."""
        self.make_file("bin/gdb", "#!/bin/sh\nPATH=/usr/bin:/bin\n" + debugger, 0o755)
        return self.begin_sleepers(self.path("bin"), ranks)

    def begin_sleepers(self, path, ranks):
        job = self.start_node(f"--nproc-per-node={ranks}", "--rdzv-id", self.run_id(),
                              self.worker("note up $$; exec /bin/sleep 1000"), nnodes="1", env={"PATH": path})
        self.pids = {rank: int(pid) for _, rank, _, pid in self.await_events(ranks, "up")}
        self.await_table(self.run_id(), lambda table: len(table["workers"]) == ranks, "all workers are told of")
        return job

    @unittest.skipUnless(shutil.which("gdb"), "needs gdb")
    def test_of_a_program_in_c_plus_plus_it_shows_where_it_is_and_the_program_goes_on(self):
        job = self.start_node("--nproc-per-node=4", "--rdzv-id", self.run_id(), "--no-python", ASTRAY_WORKER, "astray", nnodes="1")
        (_, rank, _, pid), = self.await_events(1, "astray")
        self.await_table(self.run_id(), lambda table: len(table["workers"]) == 4, "all workers are told of")
        shown = self.ctl("stacks", "--native", str(rank), self.run_id())
        if "ptrace: " in shown:
            self.skipTest("needs the right to trace its own processes: " + shown.strip())
        self.assertRegex(shown, rf"^rank {rank} on \S+\n    #0  (.*\n)+")
        self.assertRegex(shown, r"pause \(")
        self.assertNotIn("0x", shown.partition("\n")[2])
        self.assertTrue(self.said.startswith("cxxrunctl: a worker stands still while gdb reads its stack"), self.said)
        wait_until(lambda: "State:\tS" in read(f"/proc/{pid}/status"), "it goes on")
        self.end(job)

    def test_one_after_the_other_and_equal_stacks_once(self):
        job = self.begin_with("""mkdir $DIR/runs || : > $DIR/two
echo 'Thread 1 (LWP 7):'; echo "#0  spin () at loop.c:3"; echo $4 >> $DIR/asked
rmdir $DIR/runs
""", 3)
        os.kill(self.pids[1], signal.SIGSTOP)
        wait_until(lambda: "State:\tT" in read(f"/proc/{self.pids[1]}/status"), "it is stopped")
        shown = self.ctl("stacks", "--native", "all", self.run_id())
        self.assertIn("ranks 0,2\n    #0  spin () at loop.c:3\n", shown)
        self.assertRegex(shown, rf"rank 1 on \S+: pid {self.pids[1]} .*state T")
        self.assertEqual(read(self.path("asked")), f"{self.pids[0]}\n{self.pids[2]}\n")
        self.assertFalse(os.path.exists(self.path("two")))
        os.kill(self.pids[1], signal.SIGCONT)
        self.end(job)

    def test_a_second_question_is_refused_while_a_debugger_runs(self):
        self.make_gate("gate")
        job = self.begin_with("""echo $$ > $DIR/debugger; : < $DIR/gate; echo "#0  spin () at loop.c:3"\n""", 1)
        first = subprocess.Popen([CTL, "stacks", "--native", "all", self.run_id()], env=self.environment(), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        wait_until(lambda: read(self.path("debugger")).endswith("\n"), "the debugger runs")
        self.ctl("stacks", "0", self.run_id(), "--native", code=111)
        self.assertRegex(self.said, r"gdb runs on \S+ for another question")
        self.open_gate("gate")
        shown, said = first.communicate(timeout=GUARD)
        # It is killed after 10 s, where this machine is as slow as that.
        self.assertRegex(shown, r"#0  spin \(\)|gdb took longer")
        self.assertEqual(first.returncode, 0, said)
        self.assertIn("rank 0", self.ctl("stacks", "all", self.run_id(), "--native"))
        self.end(job)

    def test_where_there_is_no_debugger_a_line_says_what_to_install(self):
        job = self.begin_sleepers("/nonexistent", 2)
        self.assertEqual(self.ctl("stacks", "--native", "all", self.run_id(), code=111), "")
        self.assertEqual(self.said.count("there is no gdb in PATH here; install the package gdb on that node\n"), 1, self.said)
        self.end(job)


if __name__ == "__main__":
    jobs.main()
