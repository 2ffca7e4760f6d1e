"""When a job is started again, after which wait, and when another try cannot help. Usage: restarts_test.py CXXRUN"""
import os
import re
import subprocess
import sys
import time
import unittest

import jobs
from jobs import JobCase, count_reports, wait_until

try:
    import torch
except ImportError:
    torch = None

# What a program ends with whose debugger gets the end of its input.
DEBUGGER_QUITS = "Quitting pdb will kill the process. Quit anyway? [y/n]" if sys.version_info >= (3, 14) else "bdb.BdbQuit"
MOUNTS = subprocess.run(["unshare", "--mount", "mount", "--version"], capture_output=True, text=True)


class Restarts(JobCase):
    def started(self):
        return [generation for generation, *_ in self.events("start")]

    def lacks(self, *options, imports="import surely_not_there", processes=2):
        """A job whose program cannot import a module."""
        program = self.python_worker(f"note('start')\n{imports}\ngate('never')")
        return self.run_job("--standalone", "--nproc-per-node", str(processes), *options, *program)

    def assert_tried_once(self, job):
        self.assertEqual(job.code, 1, job.stderr)
        self.assertEqual(set(self.started()), {1})
        self.assertEqual(count_reports(job), 1)
        self.assertIn("not restarted: ModuleNotFoundError: No module named 'surely_not_there'", job.stderr)
        self.assertIn("restarts used: 0 of 3", job.stderr)
        self.assertIn("advice:        install it, or start the Python that has it: `cxxrun --dry-run` names", job.stderr)

    def test_a_program_that_lacks_a_module_is_started_once(self):
        job = self.lacks()
        self.assert_tried_once(job)
        report = job.stderr[job.stderr.index("=" * 72):]
        self.assertLess(len(report.splitlines()), 25, report)

    @unittest.skipUnless(torch, "no torch (Debian: python3-torch)")
    def test_so_is_one_that_has_imported_torch(self):
        self.assert_tried_once(self.lacks(imports="import torch.distributed\nimport surely_not_there", processes=1))

    def test_a_program_that_asks_where_nobody_answers_is_started_once_whatever_max_restarts_says(self):
        for body, words in (("breakpoint()\nprint('behind it')", DEBUGGER_QUITS),
                            ("input('name? ')", "EOFError: EOF when reading a line")):
            job = self.run_job("--standalone", "--max-restarts", "2", *self.python_worker(f"note('start')\n{body}"),
                               code=1)
            self.assertEqual(self.started(), [1])
            self.assertIn(f"not restarted: {words}", job.stderr)
            self.assertIn("advice:        `--stdin rank0` gives cxxrun's standard input to rank 0", job.stderr)
            os.unlink(self.path("events"))

    def test_a_program_that_the_package_refuses_something_is_started_once_and_one_that_handles_it_itself_again(self):
        refused = "import cxxrun\ntry:\n    raise cxxrun.RefusedError('Elastic: no')\nexcept Exception as error:\n    "
        env = {"PYTHONPATH": os.path.join(os.path.dirname(__file__), "..", "..", "src", "runtime", "python")}
        for body, starts in (("raise RuntimeError('training failed') from error", [1]),
                             ("sys.exit(str(error))", [1, 2])):
            program = self.python_worker("note('start')\nimport sys\n" + refused + body)
            job = self.run_job("--standalone", "--max-restarts", "1", *program, env=env, code=1)
            self.assertEqual(self.started(), starts)
            self.assertEqual("not restarted: cxxrun.RefusedError: Elastic: no" in job.stderr, len(starts) == 1)
            os.unlink(self.path("events"))

    def test_what_the_package_misses_on_the_only_node_is_not_tried_again_whatever_max_restarts_says(self):
        env = {"PYTHONPATH": os.path.join(os.path.dirname(__file__), "..", "..", "src", "runtime", "python"),
               "CXXRUN_LIBRARY": self.path("none")}
        program = self.python_worker("note('start')\nimport cxxrun._lib")
        job = self.run_job("--standalone", "--max-restarts", "2", *program, env=env)
        self.assertEqual(self.started(), [1], job.stderr)
        self.assertIn("not restarted: cxxrun.MissingError: cxxrun: libcxxrun_c.so.0 cannot be loaded", job.stderr)

    def test_nor_is_one_whose_debugger_was_told_to_quit_and_nothing_is_advised_then(self):
        self.make_file("typed", "q\n")
        with open(self.path("typed")) as typed:
            program = self.python_worker("note('start')\nbreakpoint()\nprint('behind it')")
            job = self.run_job("--standalone", "--stdin", "rank0", *program, stdin=typed)
        self.assertEqual(job.code, 1, job.stderr)
        self.assertEqual(self.started(), [1])
        self.assertNotIn("--stdin", job.stderr)

    def test_with_max_restarts_it_is_started_so_often(self):
        job = self.lacks("--max-restarts", "5", "--restart-delay", "0", processes=1)
        self.assertEqual(job.code, 1, job.stderr)
        self.assertEqual(self.started(), [1, 2, 3, 4, 5, 6])
        self.assertEqual(count_reports(job), 1)
        self.assertIn("restarts used: 5 of 5", job.stderr)

    def test_the_variable_of_torchrun_gives_max_restarts_too(self):
        program = self.worker("note start\nexit 3")
        self.run_job("--standalone", "--restart-delay", "0", program, env={"PET_MAX_RESTARTS": "3"}, code=3)
        self.assertEqual(self.started(), [1, 2, 3, 4])

    def test_a_program_that_is_not_there_is_started_again_with_max_restarts_alone(self):
        job = self.run_job("--standalone", "--max-restarts", "2", "--restart-delay", "0", self.path("nothing"),
                           code=127)
        self.assertIn("restarts used: 2 of 2", job.stderr)
        self.assertIn("worker could not be started", job.stderr)

    def test_three_failures_that_look_the_same_are_enough(self):
        program = self.worker('note start\necho "step $RANDOM of pid $$: no memory" >&2\nexit 3')
        job = self.run_job("--standalone", "--restart-delay", "0", "--log-dir", self.path("logs"), program, code=3)
        self.assertEqual(self.started(), [1, 2, 3])
        self.assertIn("failed the same way three times", job.stderr)

    def test_three_that_differ_are_not(self):
        program = self.worker("note start\nexit $CXXRUN_GENERATION")
        job = self.run_job("--standalone", "--restart-delay", "0", program, code=4)
        self.assertIn("no restart left", job.stderr)

    def test_the_wait_is_said_and_a_job_that_is_told_to_end_does_not_wait(self):
        job = self.start("--standalone", "--max-restarts", "9", self.worker("note start\nexit 3"))
        job.says("restart 3 of 9, next try in 5 s")
        job.process.terminate()
        self.assertEqual(job.wait(), 143, job.stderr)
        self.assertIn("restart 2 of 9, next try in 1 s", job.stderr)
        self.assertEqual(self.started(), [1, 2, 3])

    def test_an_agent_that_comes_while_a_restart_waits_is_in_it(self):
        program = self.worker("note start $WORLD_SIZE\n[ $CXXRUN_GENERATION -gt 3 ] || exit 3\ngate go")
        first = self.start_node("--max-restarts", "9", "--join-window", "0", program, nnodes="1:2")
        self.make_gate("come")  # it is there already: starting a process may take as long as the wait
        second = self.start_node("--max-restarts", "9", "--join-window", "0", program, nnodes="1:2",
                                 behind=("sh", "-c", ': < "$DIR/come" && exec "$@"', "sh"))
        first.says("next try in 5 s")
        self.open_gate("come")
        self.await_events(2, "start", 5)
        self.release(first, second)
        self.assertEqual([event[3] for event in self.events("start", 5)], ["2", "2"])
        self.assertEqual(self.events("start", 4), [])
        self.assertIn("1 more node(s) came: forming again", first.stderr)

    @unittest.skipIf(MOUNTS.returncode != 0, "needs a mount namespace: " + MOUNTS.stderr.strip())
    def test_a_job_whose_file_server_is_gone_for_five_seconds_goes_on(self):
        """The program lies on a mount that is taken away while it runs, and comes back."""
        files, server = self.path("files"), self.path("server")
        os.mkdir(files)
        os.mkdir(server)
        self.worker('note start\n[ $CXXRUN_GENERATION = 1 ] || exit 0\ngate taken\ncat "$DIR/server/data"', "files/program")
        self.make_file(files + "/data", "well\n")
        job = self.start("--standalone", server + "/program",
                         behind=("unshare", "--mount", "--propagation", "private", "sh", "-c",
                                 f'mount --bind {files} {server} && exec "$@"', "sh"))
        self.await_events(1, "start")
        inside = ["nsenter", f"--mount=/proc/{job.agent_pid()}/ns/mnt"]
        self.make_gate("back")
        with subprocess.Popen([*inside, "sh", "-c", f": < {self.dir}/back; mount --bind {files} {server}"]) as back:
            subprocess.run([*inside, "umount", "--lazy", server], check=True)
            taken = time.monotonic()
            self.open_gate("taken")
            wait_until(lambda: time.monotonic() > taken + 5, "five seconds are over")
            self.open_gate("back")
            self.assertEqual(back.wait(jobs.GUARD), 0)
        self.assert_codes([0], job)
        self.assertEqual(self.started(), [1, 4])
        self.assertEqual(len(re.findall("error: .* could not be started: No such file or directory", job.stderr)), 2)
        self.assertIn("restarts used: 3", job.stderr)


if __name__ == "__main__":
    sys.exit(jobs.main())
