"""The C++ example under the real program. Usage: examples_test.py CXXRUN RING"""
import os
import re
import signal
import socket
import sys

import jobs
from jobs import JobCase, read, wait_until

HOST = socket.gethostname().split(".")[0]
RING = ""


class Ring(JobCase):
    def test_the_ranks_of_two_agents_add_up_their_numbers(self):
        agents = self.start_two("--nproc-per-node", "2", RING, "--steps", "3")
        self.assert_codes([0, 0], *agents)
        self.assertEqual(agents[0].stdout.splitlines(),
                         [f"[{HOST}:0] step {step}: sum over 4 ranks = 10" for step in (1, 2, 3)])
        self.assertEqual(agents[1].stdout, "")

    def test_after_a_kill_it_goes_on_from_the_checkpoint(self):
        job = self.start("--standalone", "--nproc-per-node", "3", RING, "--steps", "300", "--pause-ms", "10",
                         "--checkpoint", self.path("step"), "--pid-dir", self.dir)
        wait_until(lambda: read(self.path("step")), "the first step is done")
        os.kill(int(read(self.path("pid.2"))), signal.SIGKILL)
        self.assert_codes([0], job)
        self.assertEqual(len(re.findall("generation 2 goes on after step", job.stdout)), 1)
        steps = [int(step) for step in re.findall(r"step (\d+): sum over 3 ranks = 6", job.stdout)]
        self.assertEqual(sorted(set(steps)), list(range(1, 301)))
        self.assertLessEqual(len(steps), 301)  # printed, but not yet saved when it was stopped: done again

    def test_alone_it_says_how_to_start_it(self):
        done = jobs.subprocess.run([RING], env=self.environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cxxrun --nproc-per-node", done.stderr)


if __name__ == "__main__":
    RING = os.path.abspath(sys.argv.pop(2))
    sys.exit(jobs.main())
