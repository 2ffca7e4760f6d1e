"""Asking Slurm for a requeue, with a stand-in for scontrol. Usage: job_requeue_test.py CXXRUN"""
import os
import signal
import socket

import jobs
from jobs import JobCase, read

RUNNING = "JobState=RUNNING Reason=None Requeue=1 Restarts={restarts} BatchFlag=1"
TIME_LIMIT = "JobState=COMPLETING Reason=TimeLimit Requeue=1 Restarts={restarts} BatchFlag=1"
CANCELLED = "JobState=COMPLETING Reason=None Requeue=1 Restarts={restarts} BatchFlag=1"

STAND_IN = """#!/bin/sh
echo "$*" >> "$DIR/asked"
case $1 in
  show) cat "$DIR/shown" ;;
  requeue) [ ! -e "$DIR/refusal" ] || { cat "$DIR/refusal"; exit 1; } ;;
esac
"""


class Requeue(JobCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        self.stand_in(STAND_IN)
        self.job_env = {"PATH": self.path("bin") + ":/usr/bin:/bin", "HOME": self.dir, "SLURM_JOB_ID": "7",
                        "SLURM_CLUSTER_NAME": "lab"}
        self.waiting = self.worker("note up\ngate never")

    def stand_in(self, text):
        self.make_file("bin/scontrol", text, 0o755)

    def run_until_stopped(self, state, *options, restarts=0, program=None, number=signal.SIGTERM, env=None,
                          requeue=True, code=None):
        self.make_file("shown", "JobId=7 JobName=a b " + state.format(restarts=restarts) + " Command=x\n")
        seen = len(self.events("up"))
        count = {"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}
        job = self.start("--standalone", *(["--requeue"] if requeue else []), *options, program or self.waiting,
                         env={**self.job_env, **count, **(env or {})})
        self.await_events(seen + 1, "up")
        if number:
            os.kill(job.pid, number)
        return self.ended(job, code)

    def asked(self):
        return read(self.path("asked")).splitlines()

    def test_a_job_at_its_time_limit_is_requeued_once(self):
        job = self.run_until_stopped(TIME_LIMIT, code=143)
        self.assertEqual(self.asked(), ["show job -o 7", "requeue 7"])
        self.assertIn(f"uid {os.getuid()}: time limit reached\n", job.stderr)
        self.assertIn("requeue of job 7: the time limit is reached", job.stderr)
        self.assertEqual(read(self.path(".cxxrun/requeue/lab-7")), "run 0 stopped progress\n")

    def test_a_node_that_was_to_blame_in_two_runs_is_named_with_what_keeps_the_next_one_from_it(self):
        program = self.worker('[ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || kill -BUS $$\nnote up\ngate never', "bus")
        host = socket.gethostname().split(".")[0]
        first = self.run_until_stopped(TIME_LIMIT, program=program)
        self.assertRegex(read(self.path(".cxxrun/requeue/lab-7")),
                         rf"^run 0 stopped progress\nnode {host} \d+ rank 0: signal 7 \(SIGBUS\).*\n$")
        self.assertNotIn("was the cause", first.stderr)
        second = self.run_until_stopped(TIME_LIMIT + " ExcNodeList=lab3", program=program, restarts=1)
        self.assertRegex(second.stderr, rf"warning: {host} was the cause of 2 failures \(the last one rank 0: signal 7 \(SIGBUS\).*\); "
                         rf"until the next run starts: scontrol update JobId=7 ExcNodeList=lab3,{host}\n")
        self.assertEqual(len(read(self.path(".cxxrun/requeue/lab-7")).splitlines()), 4)
        fine = self.worker("note up", "fine")
        last = self.run_until_stopped(RUNNING, restarts=2, program=fine, number=0, code=0)
        self.assertIn(f"the next time: sbatch --exclude={host}\n", last.stderr)

    def test_what_an_exit_code_says_is_not_held_against_the_node(self):
        program = self.worker('[ "$TORCHELASTIC_RESTART_COUNT" = 2 ] || exit 3\nnote up\ngate never', "exits")
        job = self.run_until_stopped(TIME_LIMIT, "--restart-delay", "0", program=program)
        self.assertNotIn("was the cause", job.stderr)
        self.assertEqual(read(self.path(".cxxrun/requeue/lab-7")), "run 0 stopped progress\n")

    def test_without_requeue_slurm_is_asked_once_for_what_the_report_says(self):
        for state, reason in ((TIME_LIMIT, "time limit reached"), (CANCELLED, "cancelled"),
                              (RUNNING, "Slurm still shows the job as running")):
            job = self.run_until_stopped(state, requeue=False)
            self.assertEqual(self.asked(), ["show job -o 7"])
            self.assertRegex(job.stderr, rf"\n  \S+ was told to end by SIGTERM from pid {os.getpid()} \(\S+\), uid \d+: "
                                         rf"{reason}\n")
            os.unlink(self.path("asked"))

    def test_a_slurmctld_that_does_not_answer_does_not_keep_the_report(self):
        self.stand_in("#!/bin/sh\necho $* >> $DIR/asked\nexec sleep 1000\n")
        job = self.run_until_stopped(TIME_LIMIT, requeue=False)
        self.assertEqual(self.asked(), ["show job -o 7"])
        self.assertRegex(job.stderr, r"was told to end by SIGTERM from pid \d+ \(\S+\), uid \d+\n")

    def test_a_cancelled_job_is_not(self):
        job = self.run_until_stopped(CANCELLED)
        self.assertEqual(self.asked(), ["show job -o 7"])
        self.assertEqual(job.stderr.count("not requeued: the job was cancelled"), 1)
        self.assertEqual(job.code, 143)

    def test_ctrl_c_and_ordinary_failures_do_not_even_ask(self):
        self.run_until_stopped(TIME_LIMIT, number=signal.SIGINT)
        failing = self.worker("note up; exit 3", "failing")
        self.assertEqual(self.run_until_stopped(RUNNING, "--max-restarts", "0", program=failing, number=0).code, 3)
        self.assertEqual(self.asked(), [])

    def test_a_worker_that_fails_after_the_checkpoint_signal_is_a_reason(self):
        program = self.worker("note up\ntrap 'exit 3' USR1\nsleep 100 & wait", "checkpointing")
        job = self.run_until_stopped(RUNNING, "--max-restarts", "0", "--time-limit", "10", "--checkpoint-signal", "USR1@700",
                                     program=program, number=0)
        self.assertEqual(self.asked(), ["show job -o 7", "requeue 7"])
        self.assertEqual(job.code, 3)

    def test_success_forgets_the_history(self):
        self.run_until_stopped(TIME_LIMIT)
        fine = self.worker("note up", "fine")
        self.assertEqual(self.run_until_stopped(RUNNING, restarts=1, program=fine, number=0).code, 0)
        self.assertFalse(os.path.exists(self.path(".cxxrun/requeue/lab-7")))

    def test_no_progress_in_too_many_runs_ends_in_115(self):
        progress = ("--progress-path", self.path("checkpoints"))
        codes = [self.run_until_stopped(TIME_LIMIT, "--max-requeues", "1", *progress, restarts=n).code for n in (0, 1)]
        self.assertEqual(codes, [143, 115])
        self.assertEqual([line for line in self.asked() if line.startswith("requeue")], ["requeue 7"])
        saving = self.worker("mkdir -p $DIR/checkpoints; : > $DIR/checkpoints/$$\nnote up\ngate never", "saving")
        self.run_until_stopped(TIME_LIMIT, "--max-requeues", "1", *progress, restarts=2, program=saving, code=143)
        self.assertEqual(self.asked()[-1], "requeue 7")

    def test_the_history_lies_in_the_log_directory_when_there_is_one(self):
        self.run_until_stopped(TIME_LIMIT, "--log-dir", self.path("logs"))
        self.assertEqual(read(self.path("logs/requeue-lab-7")), "run 0 stopped progress\n")

    def test_garbage_in_the_history_is_ignored_with_a_line(self):
        os.makedirs(self.path(".cxxrun/requeue"))
        with open(self.path(".cxxrun/requeue/lab-7"), "wb") as f:
            f.write(os.urandom(300_000))
        job = self.run_until_stopped(TIME_LIMIT)
        self.assertIn("ignored invalid lines of the requeue history", job.stderr)
        self.assertEqual(self.asked()[-1], "requeue 7")

    def test_a_task_of_an_array_is_called_by_its_index(self):
        self.run_until_stopped(TIME_LIMIT, env={"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"})
        self.assertEqual(self.asked(), ["show job -o 7_2", "requeue 7_2"])

    def test_a_job_that_slurmctld_does_not_show_for_a_moment_is_asked_for_again(self):
        self.stand_in(STAND_IN.replace("show) ", 'show) [ "$(wc -l < "$DIR/asked")" -gt 2 ] || exit 1; '))
        self.run_until_stopped(TIME_LIMIT)
        self.assertEqual(self.asked(), ["show job -o 7"] * 3 + ["requeue 7"])

    def test_slurms_refusal_is_shown_in_one_line(self):
        self.make_file("refusal", "Requested operation is presently disabled for job 7\nmore\n")
        job = self.run_until_stopped(TIME_LIMIT)
        self.assertIn("not requeued: scontrol: Requested operation is presently disabled for job 7\n", job.stderr)

    def test_without_an_answer_there_is_no_requeue(self):
        for text, line in (("#!/bin/sh\nsleep 1000\n", "slurmctld did not answer in time"),
                           ("#!/bin/sh\necho 'Unable to contact slurm controller'; exit 1\n", "Unable to contact"),
                           ("#!/bin/sh\nyes | head -c 10000000\n", "did not show one job"),
                           (None, "there is no scontrol in PATH")):
            self.stand_in(text) if text else os.unlink(self.path("bin/scontrol"))
            env = {} if text else {"PATH": self.path("bin") + ":" + self.without_slurm()}
            job = self.run_until_stopped(TIME_LIMIT, env=env)
            self.assertEqual(job.stderr.count("not requeued: "), 1)
            self.assertIn(line, job.stderr)
            self.assertEqual(job.code, 143)

    def without_slurm(self):
        """A directory with what the workers need and no scontrol, where Slurm is installed too."""
        os.makedirs(self.path("few"))
        for name in ("sh", "sleep", "mkdir"):
            os.symlink("/bin/" + name, self.path("few/" + name))
        return self.path("few")

    def test_outside_slurm_one_line_says_that_it_has_no_effect(self):
        job = self.run_until_stopped(TIME_LIMIT, env={"SLURM_JOB_ID": None})
        self.assertIn("--requeue has no effect outside a Slurm job", job.stderr)
        self.assertEqual(self.asked(), [])


if __name__ == "__main__":
    jobs.main()
