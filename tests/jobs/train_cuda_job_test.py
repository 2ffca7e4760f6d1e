"""The trainer on CUDA under the launcher, on the stand-in for CUDA and NCCL. Usage: train_cuda_job_test.py CXXRUN TRAIN

TRAIN has its kernels as loops (tests/CMakeLists.txt). CXXRUN_KILLS: how many kills; CXXRUN_KILLS_SEED repeats a run."""
import os
import signal
import sys

import jobs
import train_jobs
from survivor_jobs import SurvivorCase

CPU_TRAIN = os.path.abspath(sys.argv.pop(3))
STEPS = 30
OPTIONS = ("--steps", str(STEPS), "--batch", "1", "--quiet")


class CudaCase(SurvivorCase):
    STEPS = 12
    MARGIN = 50
    KILLS = int(os.environ.get("CXXRUN_KILLS", "4"))
    double = "devices=4"

    def environment(self, extra=None):
        return super().environment({"CXXRUN_CUDA_DOUBLE": self.double, **(extra or {})})

    def faulty(self, script, *options):
        """A job in whose first generation the double does this; a process that is started anew has a sound one."""
        program = self.worker(f'test "$CXXRUN_GENERATION" != 1 || export CXXRUN_CUDA_DOUBLE="{script}"\n'
                              f'exec "{train_jobs.TRAIN}" "$@"')
        job = self.start("--standalone", "--nproc-per-node", "4", "--max-restarts", "3", "--restart-timeout", "30", program,
                         *OPTIONS, "--curve", self.path("curve.csv"), *options)
        self.await_step(3, job)
        self.look(job, 4)
        return job


class Kills(CudaCase):
    def test_random_kills_change_no_loss_and_no_other_process(self):
        self.double = "devices=4,rest=peers"
        self.play(self.one_node, self.kill_often)

    @jobs.long
    def test_the_same_on_two_nodes_where_nccl_reports_the_deaths(self):
        self.double = "devices=2,deaths=seen"
        self.play(self.train_pair, self.kill_often)


class Faults(CudaCase):
    def ends_as_undisturbed(self, job):
        self.assert_success([job])
        whole = self.train(4, *OPTIONS)
        self.assert_success([whole])
        self.assertEqual([row[0] for row in self.curve()], list(range(1, STEPS + 1)))
        self.assertEqual(self.final(job.stdout), self.final(whole.stdout))

    def test_who_cannot_give_nccl_up_is_started_anew_and_the_others_go_on(self):
        job = self.faulty("devices=4,rank=1,abort=60")
        before = self.workers()
        self.known -= {before[1], before[3]}
        self.gone |= {before[1], before[3]}
        os.kill(before[3], signal.SIGKILL)
        self.step_on(job, 2)
        self.look(job, 4)  # the other two are who they were
        self.assertNotIn(before[1], self.trainers())
        self.ends_as_undisturbed(job)
        self.assertIn("cannot abort NCCL within 4000 ms: exiting with code 75", job.stderr)

    def test_an_error_of_nccls_that_no_death_explains_restarts_all_from_the_checkpoint(self):
        job = self.faulty("devices=4,rank=2,error=100", "--save-every", "2", "--checkpoint-dir", self.path("saved"))
        self.ends_as_undisturbed(job)
        self.assertEqual({row[3] for row in self.curve()}, {0, 1})
        self.assertRegex(job.stderr, r"train_cuda: rank 2 on \S+: a call on device memory: NCCL: ")


class BesideTheCpu(CudaCase):
    @jobs.long
    def test_either_trainer_goes_on_from_the_others_checkpoint(self):
        saved = ("--checkpoint-dir", self.path("saved"))
        first = self.alone("--steps", "10", "--batch", "2", "--quiet", *saved)
        self.assertEqual(first.returncode, 0, first.stderr)
        cuda, train_jobs.TRAIN = train_jobs.TRAIN, CPU_TRAIN
        try:
            second = self.alone("--steps", "20", "--batch", "2", *saved, env={"CXXRUN_BACKEND": "host"})
        finally:
            train_jobs.TRAIN = cuda
        self.assertIn("resumed after step 10", second.stdout, second.stderr)
        third = self.alone("--steps", "30", "--batch", "2", *saved)
        self.assertIn("resumed after step 20", third.stdout, third.stderr)
        whole = self.alone("--steps", "30", "--batch", "2", "--quiet")
        self.assertAlmostEqual(float(self.final(third.stdout)[0]), float(self.final(whole.stdout)[0]), places=4)

    def test_without_nccl_it_says_what_it_needs(self):
        done = self.alone(*OPTIONS, env={"CXXRUN_BACKEND": "host"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "train_cuda: this trainer needs NCCL; unset CXXRUN_BACKEND\n")


if __name__ == "__main__":
    train_jobs.main()
