"""Signals and the end of a job, on a real Slurm with either kind of process tracking. Usage: signals_test.py CXXRUN"""
import re
import signal
import time

import slurm_case
from jobs import wait_until
from releases import expected
from slurm_case import SlurmCase

NODES, PER_NODE = 2, 2

# Says what it gets, is slow to save, and leaves a daemon behind that no signal but KILL ends.
WORKER = """
import subprocess
def got(number, frame):
    note("got", signal.Signals(number).name)
    if number == signal.SIGTERM:
        time.sleep(0.5)
        note("saved")
        print("last line of", RANK, flush=True)
        os._exit(0)
for name in ("TERM", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), got)
if "daemon" in sys.argv:
    subprocess.Popen(["setsid", "sh", "-c", "trap '' TERM; sleep 1000 & wait; wait"], stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
if os.environ.get("CXXRUN_LOCAL_RANK", os.environ["LOCAL_RANK"]) == "1" and "deaf" in sys.argv:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
note("up")
while True:
    time.sleep(0.1)
"""


class Signals:
    """For both kinds of process tracking; mixed into the two classes below."""

    everybody = NODES * PER_NODE

    def setUp(self):
        super().setUp()
        self.program = " ".join(self.python_worker(WORKER))

    def command(self, *words, options="", nodes=NODES):
        return (f"srun -N{nodes} -n{nodes} cxxrun --nproc-per-node {PER_NODE} {options} {self.program} "
                + " ".join(words))

    def submit(self, text, *arguments, count=None, nodes=NODES):
        job = self.sbatch(text, f"-N{nodes}", "--ntasks-per-node=1", *arguments)
        self.await_events(count or nodes * PER_NODE, "up")
        return job

    def heard(self, word="got"):
        """What each rank was sent, in order."""
        heard = {}
        for _, rank, _, *what in self.events(word):
            heard.setdefault(rank, []).extend(what)
        return heard

    def assert_all_heard(self, *names):
        """Each worker has had these signals, each once, and none is on its way."""
        self.await_events(self.everybody * len(names), "got")
        time.sleep(1.2)  # longer than an agent waits for a signal of Slurm's
        self.assertEqual(self.heard(), {rank: list(names) for rank in range(self.everybody)})

    def ended_before_kill_wait(self, job):
        began = time.monotonic()
        self.await_gone(job, guard=60)
        self.assertLess(time.monotonic() - began, expected("seconds to the end of a job"))

    def test_scancel_is_one_graceful_stop(self):
        job = self.submit("trap : TERM\n" + self.command() + "\necho rc=$?")
        self.scancel(job)
        self.ended_before_kill_wait(job)
        self.assertEqual(self.heard(), {rank: ["SIGTERM"] for rank in range(self.everybody)})
        self.assertEqual(len(self.events("saved")), self.everybody)
        output = self.output(job)
        for rank in range(self.everybody):
            self.assertIn(f"last line of {rank}", output)
        self.assertIn("rc=143", output)
        self.assertEqual(output.count("verdict: stopped"), 1)
        self.assertRegex(output, r"\n  node\d was told to end by SIGTERM from Slurm: cancelled\n")
        self.row("signals", "scancel JOB", "every worker gets SIGTERM once; logs complete; exit code 143")

    def test_a_job_of_one_node_is_signalled_once_too(self):
        job = self.submit("trap : TERM\n" + self.command(nodes=1, options="--log-level debug"), nodes=1)
        self.scancel(job)
        self.ended_before_kill_wait(job)
        self.assertIn(self.reason, self.output(job))  # two signals that come together are one for the worker
        self.assertEqual(self.heard(), {rank: ["SIGTERM"] for rank in range(PER_NODE)})

    def test_a_sigterm_that_does_not_end_the_job_is_told_from_one_that_does(self):
        job = self.submit("trap : TERM\n" + self.command() + "\necho rc=$?; sleep 60")
        self.scancel("--signal=TERM", job + ".0")
        wait_until(lambda: "rc=143" in self.output(job), "the step has ended")
        self.assertRegex(self.output(job), r"\n  node\d was told to end by SIGTERM from Slurm: Slurm still shows the job as running\n")

    def test_whoever_kills_cxxrun_by_hand_is_named(self):
        job = self.submit("trap : TERM\n" + self.command() + "\necho rc=$?; sleep 60")
        self.on("node2", "sh", "-c", "kill -TERM $(pgrep -o -x cxxrun)")
        wait_until(lambda: "rc=143" in self.output(job), "the step has ended")
        self.assertRegex(self.output(job), r"\n  node2 was told to end by SIGTERM from pid \d+( \(sh\))?, uid 0: "
                                           r"Slurm still shows the job as running\n")

    def test_a_deaf_daemon_does_not_outlast_kill_wait(self):
        job = self.submit("trap : TERM\n" + self.command("daemon") + "\necho rc=$?")
        self.scancel(job)
        self.ended_before_kill_wait(job)
        self.assertIn("rc=143", self.output(job))  # ended by itself: Slurm's own SIGKILL gives 137
        self.row("signals", "scancel JOB, a process ignores SIGTERM",
                 "SIGKILL from cxxrun before KillWait is over; nothing left, the job does not stay COMPLETING")

    def test_scancel_of_the_step_leaves_nothing(self):
        job = self.submit(self.command("daemon") + "\necho rc=$?")
        self.scancel(job + ".0")
        self.wait_job(job)
        self.assertIn("rc=137", self.output(job))
        self.row("signals", "scancel JOB.STEP", "Slurm's SIGKILL at once; nothing is left; the script goes on")

    def test_signals_of_scancel_reach_every_worker_once(self):
        job = self.submit(self.command())
        self.scancel("--signal=USR1", job)
        self.assert_all_heard("SIGUSR1")
        self.scancel("--signal=USR2", job + ".0")
        self.assert_all_heard("SIGUSR1", "SIGUSR2")
        self.assertEqual(self.job(job)["JobState"], "RUNNING")
        self.row("signals", "scancel --signal=USR1 JOB", "every worker gets it once; the run goes on")

    def test_a_batch_script_that_passes_a_signal_on_reaches_every_worker_once(self):
        for name, passing in (("USR1", "scancel --signal=USR1 $SLURM_JOB_ID.0"), ("USR2", "kill -USR2 $srun")):
            job = self.submit(f"trap '{passing}' {name}\n{self.command()} & srun=$!\nwait; wait; wait")
            self.scancel("--batch", f"--signal={name}", job)
            self.assert_all_heard("SIG" + name)
            self.assertEqual(self.job(job)["JobState"], "RUNNING")
            self.scancel("--full", "--signal=KILL", job)
            self.wait_job(job)
            self.make_file("events")
            self.row("signals", passing + " in a trap", "every worker gets it once; the run goes on")

    def test_srun_interrupted_twice_leaves_nothing(self):
        step = self.start("sh", "-c", "exec " + self.command("daemon"))
        self.await_events(self.everybody, "up")
        step.kill(signal.SIGINT)
        step.says("interrupt")
        step.kill(signal.SIGINT)
        self.assertNotEqual(step.wait(), 0)
        self.assert_nothing_left()
        self.row("signals", "Ctrl-C twice at srun", "SIGINT, and Slurm's SIGKILL 20 ms later; nothing is left")

    def test_a_checkpoint_signal_goes_once_before_the_end_that_slurm_names(self):
        # srun sets the variable itself since 23.02, and before it has to be made up.
        job = self.submit("export SLURM_JOB_END_TIME=$(($(date +%s) + 300))\n"
                          + self.command(options="--checkpoint-signal USR1@290"), "-t", "5")
        self.assert_all_heard("SIGUSR1")
        self.assertEqual(self.job(job)["JobState"], "RUNNING")
        self.assertEqual(self.output(job).count("290 s before the end"), NODES)
        self.row("signals", "--checkpoint-signal USR1@120", "every worker that catches it gets it once, that long before "
                 "the earlier of SLURM_JOB_END_TIME and --time-limit")

    def test_a_checkpoint_signal_kills_no_worker_that_does_not_catch_it(self):
        job = self.submit(self.command("deaf", options="--time-limit 10 --checkpoint-signal USR1@700"))
        self.await_events(NODES, "got")
        time.sleep(1.2)
        self.assertEqual(self.heard(), {0: ["SIGUSR1"], 2: ["SIGUSR1"]})
        self.assertEqual(self.job(job)["JobState"], "RUNNING")
        self.assertIn("are left, less than --checkpoint-signal says", self.output(job))

    def test_workers_of_a_restart_get_the_checkpoint_signal_as_well(self):
        self.program = " ".join(self.python_worker("""
def got(*_):
    note("got")
signal.signal(signal.SIGUSR1, got)
note("up")
while not os.path.exists(DIR + "/fail") or GENERATION != "1":
    time.sleep(0.05)
sys.exit(3)
"""))
        job = self.submit(self.command(options="--time-limit 10 --checkpoint-signal USR1@599"))
        self.await_events(self.everybody, "got", generation=1)
        self.make_file("fail")
        self.await_events(self.everybody, "got", generation=2)
        self.assertEqual(self.job(job)["JobState"], "RUNNING")

    def test_a_time_limit_of_our_own_ends_the_job_as_sigterm_does(self):
        job = self.submit(self.command(options="--time-limit 0:03") + "\necho rc=$?")
        self.wait_job(job)
        self.assertEqual(self.heard(), {rank: ["SIGTERM"] for rank in range(self.everybody)})
        self.assertIn("--time-limit is reached", self.output(job))
        self.assertIn("rc=143", self.output(job))
        self.assertTrue(re.search(r"verdict: stopped", self.output(job)))
        self.row("signals", "--time-limit TIME", "SIGTERM at the limit")


class UnderLinuxproc(Signals, SlurmCase):
    """Slurm signals every descendant of the task itself."""
    cluster_options = {"nodes": NODES, "proctrack": "linuxproc", "gpus": 0}
    reason = "debug: SIGTERM from Slurm to every process"


class UnderCgroup(Signals, SlurmCase):
    """Slurm signals the task alone."""
    cluster_options = {"nodes": NODES, "proctrack": "cgroup", "gpus": 0}
    reason = "debug: SIGTERM\n"


if __name__ == "__main__":
    slurm_case.main()
