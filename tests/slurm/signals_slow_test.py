"""What Slurm sends before and at the time limit, which it notices up to half a minute late.
Usage: signals_slow_test.py CXXRUN"""
import slurm_case
from slurm_case import SlurmCase

WORKER = ("trap 'note usr1' USR1\n"
          "trap 'note term; exit 0' TERM\n"
          "note start\n"
          "while :; do sleep 0.2 & wait $!; done")
LATE = 150  # seconds


class Limits:
    def submit(self, *arguments, script="srun cxxrun"):
        job = self.sbatch(f"trap : TERM\n{script} {self.worker(WORKER)}; echo code $?",
                          "-N2", "--ntasks-per-node=1", "-t", "1", *arguments)
        self.await_events(2, "start")
        return job

    def ranks(self, word):
        return sorted(event[1] for event in self.events(word))

    def reaches_its_limit(self, job):
        self.wait_job(job, "TIMEOUT", guard=LATE)
        self.assertEqual(self.ranks("term"), [0, 1], "one SIGTERM for each worker")
        self.assert_nothing_left()

    def test_a_signal_before_the_limit_and_one_sigterm_at_it(self):
        job = self.submit("--signal=USR1@30")
        self.reaches_its_limit(job)
        self.assertEqual(self.ranks("usr1"), [0, 1], "the signal reached each worker once")
        self.assertIn("verdict: stopped", self.output(job))
        self.assertIn("was told to end by SIGTERM from Slurm: time limit reached\n", self.output(job))
        self.row("signals", "sbatch -t 1 --signal=USR1@30; in it: srun cxxrun ./train",
                 "each worker gets USR1 once and goes on; at the limit one SIGTERM, one graceful stop, TIMEOUT")


class Linuxproc(Limits, SlurmCase):
    cluster_options = {"nodes": 2, "gpus": 0}

    def test_a_signal_for_the_script_is_passed_on(self):
        job = self.submit("--signal=B:USR1@30",
                          script="trap 'scancel --signal=USR1 $SLURM_JOB_ID.0' USR1\nrun() { srun cxxrun \"$@\" & "
                                 "wait $!; while kill -0 $! 2>/dev/null; do wait $!; done; }\nrun")
        self.reaches_its_limit(job)
        self.assertEqual(self.ranks("usr1"), [0, 1])
        self.row("signals", "sbatch -t 1 --signal=B:USR1@30; in it: trap 'scancel --signal=USR1 $SLURM_JOB_ID.0' USR1",
                 "each worker gets USR1 once and goes on")


class Cgroup(Limits, SlurmCase):
    cluster_options = {"nodes": 2, "gpus": 0, "proctrack": "cgroup"}


if __name__ == "__main__":
    slurm_case.main()
