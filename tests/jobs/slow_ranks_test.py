"""The rank that holds up others on two nodes, by cxxrunctl's events. Usage: slow_ranks_test.py CXXRUN CXXRUNCTL ASTRAY_WORKER
CXXRUN_EQUAL_MINUTES: how long ranks that are alike are watched."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jobs
from jobs import GUARD, JobCase, read, wait_until

CTL, WORKER = (os.path.abspath(sys.argv.pop(2)) for _ in range(2))
HERE = pathlib.Path(__file__).resolve().parent
LONG = 300  # seconds; against hanging only
EQUAL = 60 * float(os.environ.get("CXXRUN_EQUAL_MINUTES", "2"))
ENVIRONMENT = {"PYTHONPATH": str(HERE.parents[1] / "src/runtime/python"), "GLOO_SOCKET_IFNAME": "lo", "USE_LIBUV": "0",
               "OMP_NUM_THREADS": "1"}


class SlowCase(JobCase):
    def named(self):
        done = subprocess.run([CTL, "events", self.marker], env=self.environment(), capture_output=True, timeout=GUARD)
        return [event for event in map(json.loads, done.stdout.splitlines()) if event["kind"] == "slow" and not event["over"]]

    def end(self, agents):
        for agent in agents:
            agent.process.send_signal(signal.SIGTERM)
        for agent in agents:
            agent.wait()

    def find_named(self, since):
        """The event of rank 4."""
        found = wait_until(lambda: [each for each in self.named() if each["rank"] == 4], "rank 4 is named", LONG, pause=0.2)[0]
        print(f"named after {time.time() - since:.0f} s: {found['how']}; {len(self.named()) - 1} others", flush=True)
        self.assertEqual(found["ranks"], 1)
        return found

    def assert_nobody_named(self, since):
        until = since + EQUAL
        wait_until(lambda: self.named() or time.time() > until, "the time is over", EQUAL + LONG, pause=0.2)
        self.assertEqual(self.named(), [])


class OfPyTorch(SlowCase):
    def begin(self, *words):
        return self.start_two("--nproc-per-node=3", "--rdzv-id", self.marker, "--", sys.executable, str(HERE / "late_trainer.py"),
                              self.path(""), *words, env=ENVIRONMENT)

    def trains_since(self):
        return float(wait_until(lambda: os.path.exists(self.path("trains")) and read(self.path("trains")), "it trains", LONG))

    def assert_named(self, kind, factor):
        agents = self.begin(kind, "4", factor)
        found = self.find_named(self.trains_since())
        self.assertEqual(found["spent"], kind)
        self.end(agents)

    def test_computing_a_fifth_longer(self):
        self.assert_named("computing", "1.2")

    def test_computing_a_tenth_longer(self):
        self.assert_named("computing", "1.12")  # of its computing: a tenth of the step

    def test_input(self):
        self.assert_named("input", "1.4")

    def test_ranks_that_are_alike_are_not_named(self):
        agents = self.begin("input", "-1", "1")
        self.assert_nobody_named(self.trains_since())
        self.end(agents)


class OfLibcxxrun(SlowCase):
    """A C++ program, of which it is not known what it waits for."""

    def begin(self, *late):
        agents = self.start_two("--nproc-per-node=3", "--rdzv-id", self.marker, "--no-python", WORKER, "late", *late)
        self.await_events(6, "begins")
        return agents

    def assert_named(self, factor):
        agents = self.begin("4", factor)
        found = self.find_named(time.time())
        self.assertEqual((found["source"], found["spent"]), ("libcxxrun", ""))
        self.end(agents)

    def test_a_fifth_longer(self):
        self.assert_named("1.2")

    def test_a_tenth_longer(self):
        self.assert_named("1.12")

    def test_ranks_that_are_alike_are_not_named(self):
        agents = self.begin()
        self.assert_nobody_named(time.time())
        self.end(agents)


if __name__ == "__main__":
    jobs.main()
