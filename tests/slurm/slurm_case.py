"""What the tests on a real Slurm share: a cluster per test module, commands on its login node, jobs, leftovers.

A test gets a directory that all nodes see, and tells and waits through it as in tests/jobs/jobs.py. Every *_test.py
is run as SCRIPT CXXRUN [unittest arguments]; the exit code is 77 when no cluster can run here, with the reason."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("jobs", "support"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))

import cluster as clusters
import evidence
import jobs
from cluster import LOGIN, PATH, Cluster, why_not
from jobs import Hang, children, processes_with, read, wait_until, what_runs
from machine import tail

GUARD = 60  # seconds; against hanging only
PAUSE = 0.2  # seconds between two questions to slurmctld; each costs 30 ms of a CPU
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY")

_current = None  # the module's cluster


def use_cluster(nodes=4, proctrack=clusters.TRACK, gpus=4, cpus=None, config=None):
    """For setUpModule: starts the cluster of this module, which is removed after its last test."""
    global _current
    _current = start_cluster(unittest.addModuleCleanup, nodes=nodes, proctrack=proctrack, gpus=gpus, cpus=cpus,
                             config=config)
    return _current


def start_cluster(add_cleanup, **options):
    reason = why_not(options.get("proctrack", clusters.TRACK))
    if reason:
        raise unittest.SkipTest(f"no Slurm cluster here: {reason}")
    started = Cluster(visible=[os.path.dirname(jobs.CXXRUN)] if jobs.CXXRUN else [], **options)
    add_cleanup(started.down)
    started.up()
    os.makedirs(started.base + "/tests", mode=0o755)
    if jobs.CXXRUN:  # a copy, because every user may read it there
        shutil.copytree(os.path.dirname(jobs.CXXRUN), started.base + "/bin")
    return started


class Running:
    """A started command on the login node; out and err are what it has written so far."""

    def __init__(self, cluster, argv, base, **more):
        self.files = (base + ".out", base + ".err")
        self.name = " ".join(argv[:3])
        self.marker = more["env"][jobs.MARKER]
        with open(self.files[0], "w") as out, open(self.files[1], "w") as err:
            self.process = cluster.popen(LOGIN, argv, stdout=out, stderr=err, **more)

    @property
    def out(self):
        return read(self.files[0])

    @property
    def err(self):
        return read(self.files[1])

    stderr = err  # as tests/jobs/jobs.py calls it

    @property
    def pid(self):
        """Of the command itself."""
        return wait_until(lambda: children(self.process.pid), f"{self.name} is started")[0]

    def kill(self, number=signal.SIGTERM):
        os.kill(self.pid, number)

    def wait(self, guard=GUARD):
        """The exit code, 128 + N after signal N."""
        try:
            code = self.process.wait(guard)
        except subprocess.TimeoutExpired:
            raise Hang(f"{self.name} still runs after {guard} s; {what_runs(self.marker)}\n"
                       f"it wrote:\n{self.out}\n{self.err}") from None
        return 128 - code if code < 0 else code

    def says(self, text, guard=GUARD):
        wait_until(lambda: text in self.out + self.err or self.process.poll() is not None, f"'{text}'", guard)
        assert text in self.out + self.err, f"{self.name} ended without saying '{text}':\n{self.out}\n{self.err}"


class SlurmCase(jobs.JobCase):
    cluster_options = None  # a class may have a cluster of its own: options of Cluster

    @classmethod
    def setUpClass(cls):
        cls.own_cluster = None
        if cls.cluster_options is not None:
            cls.own_cluster = start_cluster(cls.addClassCleanup, **cls.cluster_options)

    @property
    def cluster(self):
        return self.own_cluster or _current

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="test-", dir=self.cluster.base + "/tests")
        os.chmod(self.dir, 0o777)
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.marker = os.path.basename(self.cluster.base) + "/" + os.path.basename(self.dir)
        self.agents = []
        self.gates = []
        self.scripts = 0

    def tearDown(self):
        """Ends what the test left running, makes the cluster whole, then looks for leftovers."""
        for running in self.agents:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
        for fd in self.gates:
            os.close(fd)
        self.end_jobs()
        self.cluster.mend()
        self.assert_nothing_left()
        self.cluster.await_nodes(guard=90)

    def end_jobs(self):
        """Cancels what still runs; what is completing is given time to end by itself."""
        def left(*more):
            return set(self.login("squeue", "-h", "-o", "%A", *more).out.split())

        def cancel(which):
            for job in which:
                self.scancel("--full", "--signal=KILL", job)
                self.scancel(job)
        cancel(left("--states=PENDING,RUNNING,SUSPENDED"))
        try:
            wait_until(lambda: not left(), "no job is left", 3, pause=0.05)
        except Hang:
            cancel(left())
            if not self.cluster.ill:
                wait_until(lambda: not left(), "cancelled jobs are gone", 90, PAUSE)

    def await_events(self, *what, **more):
        try:
            return super().await_events(*what, **more)
        except Hang as hang:
            base = self.cluster.base
            logs = [f"{base}/{LOGIN}/slurmctld.log", *(f"{base}/{node}/slurmd.log" for node in self.cluster.nodes)]
            jobs_said = [read(self.path(name)) for name in os.listdir(self.dir) if name.startswith("slurm-")]
            raise Hang("\n".join([str(hang), self.login("squeue", "-o", "%A %T %R").out, *jobs_said,
                                  *(f"{log}:\n{tail(log, 8)}" for log in logs)])) from None

    # ---- commands

    def environment(self, extra=None):
        env = {"PATH": f"{self.cluster.base}/bin:{PATH}", "HOME": self.dir, "LANG": "C.UTF-8", "DIR": self.dir,
               jobs.MARKER: self.marker, **(extra or {})}
        return {name: value for name, value in env.items() if value is not None}

    def login(self, *argv, env=None, guard=GUARD, user=None, code=None):
        """Runs a command on the login node, in the directory of the test. `code`: what its exit code must be."""
        done = self.cluster.run(LOGIN, list(argv), guard=guard, cwd=self.dir, env=self.environment(env), user=user)
        if code is not None:
            self.assertEqual(done.code, code, done)
        return done

    def on(self, node, *argv, guard=GUARD):
        return self.cluster.run(node, list(argv), guard=guard, cwd=self.dir, env=self.environment())

    def srun(self, *arguments, **more):
        return self.login("srun", *arguments, **more)

    def salloc(self, *arguments, **more):
        return self.login("salloc", "-Q", *arguments, **more)

    def scontrol(self, *arguments):
        return self.login("scontrol", *arguments)

    def scancel(self, *arguments):
        return self.login("scancel", *arguments)

    def start(self, *argv, env=None, user=None, stdin="/dev/null"):
        """Starts a command on the login node."""
        with open(stdin) as source:
            running = Running(self.cluster, list(argv), self.path(f"command{len(self.agents)}"), cwd=self.dir,
                              env=self.environment(env), user=user, stdin=source)
        self.agents.append(running)
        return running

    def start_srun(self, *arguments, **more):
        return self.start("srun", *arguments, **more)

    # ---- batch jobs

    def script(self, text):
        self.scripts += 1
        return self.make_file(f"script{self.scripts}.sh",
                              text if text.startswith("#!") else "#!/bin/bash\n" + text, 0o755)

    def sbatch(self, text, *arguments, env=None, user=None, state=None):
        """Submits a script; returns the job id. Its output goes to output(id); of an array, to output("ID_INDEX"). `state`:
        waits until the job is over, and what it must be then."""
        array = any(word.startswith(("--array", "-a")) for word in arguments)
        done = self.login("sbatch", "--parsable", "--output=slurm-%A_%a.out" if array else "--output=slurm-%j.out",
                          *arguments, self.script(text), env=env, user=user, code=0)
        job = done.out.strip()
        if state is not None:
            self.wait_job(job, state)
        return job

    def output(self, job):
        return read(self.path(f"slurm-{job}.out"))

    def job(self, job):
        """The fields that scontrol shows of a job."""
        words = self.scontrol("show", "job", "-o", job).out.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def await_gone(self, job, guard=GUARD):
        """Until squeue no longer lists it."""
        wait_until(lambda: not self.login("squeue", "-h", "-j", job).out.strip(), "the job is gone", guard, PAUSE)

    def wait_job(self, job, *states, guard=GUARD):
        """Until the job is in one of the states (none given: until it is over); returns the state."""
        state = None

        def reached():
            nonlocal state
            state = self.job(job).get("JobState")
            return state in (states or OVER) or state in OVER
        try:
            wait_until(reached, f"job {job} is {states or 'over'}", guard, PAUSE)
        except Hang as hang:
            raise Hang(f"{hang}; it is {state}; {what_runs(self.marker)}\nit wrote:\n{self.output(job)}") from None
        self.assertIn(state, states or OVER, f"job {job} wrote:\n{self.output(job)}")
        return state

    # ---- what becomes documentation

    def row(self, area, typed, happened):
        """A line of docs/evidence/slurm_tested.md (see table.py)."""
        evidence.tell(area=area, typed=typed, happened=happened)


def main(why_not_here=None):
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} CXXRUN [unittest arguments]")
    reason = why_not()
    if reason or why_not_here:
        jobs.skip(why_not_here or f"no Slurm cluster here: {reason}")
    jobs.CXXRUN = os.path.abspath(sys.argv.pop(1))
    runner = unittest.TextTestRunner(resultclass=jobs._Result, stream=sys.stdout)
    result = unittest.main(testRunner=runner, exit=False).result
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    for _, why in result.skipped:
        print(f"skipped: {why}")
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0 if result.passed else 77)
