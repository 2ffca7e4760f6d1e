"""What the tests of cxxrunctl share. Each is called with CXXRUN CXXRUNCTL."""
import json
import os
import pathlib
import signal
import subprocess
import sys

from jobs import GUARD, JobCase, wait_until

CTL = os.path.abspath(sys.argv.pop(2))
PACKAGE = {"PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[2] / "src/runtime/python")}

# Trains, as far as cxxrun can tell, while there is a file for its rank; that of nobody else is needed.
TRAINER = """
import os
import cxxrun
cxxrun.install()
def load():
    while not os.path.exists(DIR + "/go" + RANK):
        time.sleep(0.01)
note("up")
print("hello from", RANK, flush=True)
for step in range(1, 100000):
    load()
    cxxrun.step(step)
    time.sleep(0.01)
"""


class LiveCase(JobCase):
    def ctl(self, *arguments, code=0, env=None):
        """Its standard output."""
        done = subprocess.run([CTL, *arguments], env=self.environment({"LANG": "C", **(env or {})}), capture_output=True,
                              timeout=GUARD)
        self.said = done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{done.stdout.decode()}\n{self.said}")
        return done.stdout.decode()

    def table(self, job):
        lines = self.ctl("status", job, "--json").splitlines()
        self.assertEqual(len(lines), 1, lines)
        table = json.loads(lines[0])
        self.assertEqual(table["version"], 1)
        return table

    def go(self, *ranks):
        for rank in ranks:
            self.make_file(f"go{rank}")

    def await_table(self, job, condition, what):
        return wait_until(lambda: (table := self.table(job)) and condition(table) and table, what, pause=0.03)

    def run_id(self):
        return self.marker

    def begin(self, *arguments, ranks=2, script=TRAINER):
        """One node that trains once go() is said."""
        job = self.start_node(f"--nproc-per-node={ranks}", "--rdzv-id", self.run_id(), *arguments,
                              *self.python_worker(script, "train.py"), nnodes="1", env=PACKAGE)
        self.await_events(ranks, "up")
        return job

    def start_named(self, name, *arguments):
        """A node of that name on this machine, of a job of two or three; takes root."""
        return self.start_node("--rdzv-id", self.run_id(), *arguments, nnodes="2:3",
                               behind=("unshare", "--uts", "sh", "-c", 'hostname "$1" && shift && exec "$@"', "sh", name))

    def end(self, *agents):
        for agent in agents:
            agent.process.send_signal(signal.SIGTERM)
        for agent in agents:
            agent.wait()
