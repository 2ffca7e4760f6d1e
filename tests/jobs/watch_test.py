"""What is said of workers that show no collectives, and of those that do not end. Usage: watch_test.py CXXRUN"""
import os
import re
import signal

import jobs
from jobs import JobCase

STUBBORN = """
import signal, time
def never_returns(*_):
    note("asked")
    time.sleep(1000)  # as a handler that waits for the other ranks
signal.signal(signal.SIGTERM, never_returns)
note("ready")
while True:
    time.sleep(1000)
"""


class Watch(JobCase):
    def test_it_is_said_once_that_hang_timeout_sees_nothing_and_why(self):
        script = self.python_worker("import time; time.sleep(2)", "sleeps.py")
        cases = {
            "shell": (["sh", "-c", "sleep 2"], "so that no rank that hangs is named: .*a Python that ignores PYTHONPATH"),
            "off": (["--watch", "off", "sh", "-c", "sleep 2"], "so that no rank that hangs is named: .*remove --watch off"),
            "python": (script, "because none has made a process group of torch.distributed"),
            "isolated": ([script[0], "-I", script[1]], "so that no rank that hangs is named: .*python -I"),
        }
        started = {name: self.start("--standalone", "--nproc-per-node=2", "--hang-timeout=1", *words)
                   for name, (words, _) in cases.items()}
        for name, job in started.items():
            with self.subTest(name):
                job.wait()
                self.assert_codes([0], job)
                self.assertRegex(job.stderr, "no worker on .* shows its collectives, " + cases[name][1])
                self.assertEqual(job.stderr.count("shows its collectives"), 1, job.stderr)

    def test_a_worker_that_is_stopped_is_named_without_a_page(self):
        job = self.run_job("--standalone", "--nproc-per-node=2", "--hang-timeout=1", "sh", "-c",
                           "test $RANK = 1 || exec sleep 3; (sleep 3; kill -CONT $$) & kill -STOP $$")
        self.assert_codes([0], job)
        self.assertRegex(job.stderr, r"rank 1 on .* has not run for 1 s: pid \d+ .*state T.*: kill -CONT \d+ resumes it")
        self.assertNotIn("rank 0 on", job.stderr)

    def test_who_has_to_be_killed_after_the_grace_is_named_with_where_it_stands(self):
        script = self.python_worker(STUBBORN)
        job = self.start("--standalone", "--nproc-per-node=2", "--shutdown-timeout=1", "--max-restarts=0", *script)
        self.await_events(2, "ready")
        os.kill(job.pid, signal.SIGTERM)
        job.wait()
        for rank in (0, 1):
            self.assertRegex(job.stderr, rf"rank {rank} on \S+ has not ended \S+ s after SIGTERM and is killed in \S+ s; "
                                         r"it is at .*worker.py:\d+ in never_returns")
            self.assertRegex(job.stderr[job.stderr.index("=" * 72):],
                             rf"killed: .*\b{rank}\b.* on \S+: had not ended 1 s after SIGTERM; it stood at \S+worker.py:\d+ in "
                             r"never_returns \(worker.py:\d+ in never_returns < worker.py:\d+ in <module>\)")
        self.assertEqual(len(re.findall(r'File ".*in never_returns', job.stderr)), 1, job.stderr)


if __name__ == "__main__":
    jobs.main()
