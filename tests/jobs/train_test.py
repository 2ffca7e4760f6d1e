"""The trainer under the real program. Usage: train_test.py CXXRUN TRAIN"""
import errno
import os
import random
import signal
import subprocess
import unittest

import jobs
import train_jobs
from jobs import free_port, read, wait_until
from train_jobs import TrainCase

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PLOT = os.path.join(ROOT, "scripts", "plot_loss.py")
SMALL = ("--batch", "2", "--quiet")


class Alone(TrainCase):
    def test_the_loss_falls_and_the_same_seed_gives_the_same_parameters(self):
        first = self.alone("--steps", "60", "--batch", "4", "--curve", self.path("curve.csv"))
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        curve = self.curve()
        self.assertEqual([row[0] for row in curve], list(range(1, 61)))
        self.assertEqual({row[2:] for row in curve}, {(1, 0)})
        self.assertGreater(float(curve[0][1]), 3.9)
        self.assertLess(float(curve[-1][1]), 3.0)
        self.assertNotIn("\x1b", first.stdout)
        self.assertNotIn("\r", first.stdout)
        self.assertRegex(first.stdout, r"step 60/60  loss \d\.\d+  \d+ samples/s\n")

        again = self.alone("--steps", "60", "--batch", "4", "--quiet")
        self.assertEqual(self.final(again.stdout), self.final(first.stdout))
        self.assertEqual(len(again.stdout.splitlines()), 1)
        other = self.alone("--steps", "60", "--batch", "4", "--quiet", "--seed", "2")
        self.assertNotEqual(self.final(other.stdout)[2], self.final(first.stdout)[2])

    def test_in_two_runs_it_ends_where_one_run_does(self):
        whole = self.final(self.alone("--steps", "40", *SMALL).stdout)
        saved = ("--checkpoint-dir", self.path("saved"), "--save-every", "7", "--curve", self.path("curve.csv"))
        self.alone("--steps", "17", *SMALL, *saved)
        second = self.alone("--steps", "40", "--batch", "2", *saved)
        self.assertIn("resumed after step 17", second.stdout)
        self.assertEqual(self.final(second.stdout), whole)
        self.assertEqual([row[0] for row in self.curve()], list(range(1, 41)))

        third = self.alone("--steps", "40", *SMALL, *saved)  # nothing is left to do
        self.assertEqual(self.final(third.stdout), whole)

    def test_an_epoch_ends_and_the_next_one_follows(self):
        self.make_file("text", "# not this line\n" + "".join(chr(97 + i * i % 26) for i in range(100)))
        done = self.alone("--text", self.path("text"), "--steps", "20", "--batch", "5", "--quiet")  # 9 samples
        self.assertEqual(self.final(done.stdout)[1], "20", done.stderr)

    def test_what_cannot_be_is_refused_in_one_line(self):
        self.alone("--steps", "2", *SMALL, "--checkpoint-dir", self.path("saved"))
        self.make_file("text", "another text with other letters, long enough to be cut into samples")
        file = self.path("text")
        for options, complaint in (
                (("--steps", "x"), "--steps x: give a whole number from 1"),
                (("--text", "/nowhere"), "cannot read the text /nowhere"),
                (("--text", os.devnull), "the text has 0 characters"),
                (("--curve", file + "/curve.csv"), "cannot write the curve"),
                (("--checkpoint-dir", file + "/saved"), file + "/saved"),
                (("--checkpoint-dir", self.path("saved"), "--text", file), "char-gpt"),
        ):
            with self.subTest(options):
                done = self.alone("--steps", "2", *options) if "--steps" not in options else self.alone(*options)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertTrue(done.stderr.startswith("train: "), done.stderr)
                self.assertIn(complaint, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("--save-every", self.alone("--help").stdout)

    def test_where_all_checkpoints_are_damaged_it_begins_anew_unless_told_otherwise(self):
        run = ("--steps", "2", *SMALL, "--checkpoint-dir", self.path("saved"))
        whole = self.final(self.alone(*run).stdout)
        for name in os.listdir(self.path("saved")):
            if name.startswith("step"):
                os.truncate(self.path("saved/" + name), 50)
        refused = self.alone(*run, "--refuse-damaged")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertRegex(refused.stderr, r"^train: .*all of its checkpoints are damaged: [^\n]*\n$")
        self.assertEqual(self.final(self.alone(*run).stdout), whole)
        self.assertEqual(self.final(self.alone(*run, "--refuse-damaged").stdout), whole)  # the one just saved

    def test_on_a_terminal_the_line_is_rewritten(self):
        main, worker = os.openpty()
        process = subprocess.Popen([train_jobs.TRAIN, "--steps", "5", "--batch", "1"], env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=worker)
        os.close(worker)
        shown = b""
        try:
            while piece := os.read(main, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(main)
        self.assertEqual(process.wait(jobs.GUARD), 0)
        self.assertRegex(shown.decode(), "\r\x1b\\[Kstep 5/5")
        self.assertEqual(self.final(shown.decode().replace("\r\n", "\n"))[1], "5")


class OneNode(TrainCase):
    def test_ranks_together_do_what_one_does_with_their_batches(self):
        self.assert_worlds_agree("10")

    def test_four_workers_repeat_themselves(self):
        runs = {self.trained(4, "--steps", "30", *SMALL) for _ in range(2)}
        self.assertEqual(len(runs), 1)

    def test_workers_killed_at_random_moments_change_nothing(self):
        options = ("--steps", "250", "--save-every", "5", *SMALL)
        whole = self.trained(3, *options, "--curve", self.path("whole.csv"))
        job = self.train(3, *options, "--checkpoint-dir", self.path("saved"), "--curve", self.path("curve.csv"),
                         max_restarts=20)
        rng = random.Random(4)
        for step in sorted(rng.sample(range(1, 200), 5)):
            self.await_step(step, job)
            self.kill(rng.randrange(3))
        self.assert_success([job])
        self.assertEqual(self.final(job.stdout), whole)
        self.assertEqual([row[:3] for row in self.curve()], [row[:3] for row in self.curve("whole.csv")])
        self.assertGreaterEqual(job.stderr.count("SIGKILL"), 3, job.stderr)  # some may hit between two generations
        self.assertNotIn("next try", job.stderr)  # every generation has completed a step

    def test_a_kill_before_the_first_checkpoint_starts_anew(self):
        options = ("--steps", "60", *SMALL, "--save-every", "1000")
        whole = self.trained(2, *options)
        job = self.train(2, *options, "--checkpoint-dir", self.path("saved"), "--curve", self.path("curve.csv"))
        self.await_step(3, job)
        self.kill(0)
        self.assert_codes([0], job)
        self.assertEqual(self.final(job.stdout), whole)

    def test_another_number_of_workers_goes_on(self):
        saved = ("--checkpoint-dir", self.path("saved"), "--curve", self.path("curve.csv"))
        self.trained(2, "--steps", "20", *SMALL, *saved)
        self.trained(4, "--steps", "40", *SMALL, *saved)
        self.trained(3, "--steps", "60", *SMALL, *saved)
        curve = self.curve()
        self.assertEqual([row[0] for row in curve], list(range(1, 61)))
        self.assertEqual([row[2] for row in curve], [2] * 20 + [4] * 20 + [3] * 20)
        self.assertLess(float(curve[-1][1]), float(curve[19][1]))

    def test_a_checkpoint_of_another_model_ends_the_job_with_its_name(self):
        self.trained(1, "--steps", "2", *SMALL, "--checkpoint-dir", self.path("saved"))
        self.make_file("text", "another text with other letters, long enough to be cut into samples")
        job = self.train(2, "--steps", "2", *SMALL, "--checkpoint-dir", self.path("saved"), "--text",
                         self.path("text"), max_restarts=0)
        self.assert_codes([1], job)
        self.assertIn("char-gpt", job.stderr)
        self.assertNotRegex(job.stderr, r"train: rank 0 .*(left|died)")  # the other rank has been told the cause

    def test_a_disk_that_fills_in_the_middle_is_told_by_every_rank(self):
        saved = self.mount_small("size=16m") + "/saved"
        job = self.train(2, "--steps", "1000000", *SMALL, "--checkpoint-dir", saved, "--save-every", "5",
                         max_restarts=0)
        wait_until(lambda: job.process.poll() is not None or
                   os.path.isdir(saved) and any(name.startswith("step") for name in os.listdir(saved)), "a checkpoint")
        with open(self.path("small/filler"), "wb", buffering=0) as filler:
            def filled_and_over():  # again and again: what a checkpoint that goes leaves free would do for the next ones
                try:
                    while job.process.poll() is None:
                        filler.write(bytes(4096))
                except OSError as full:
                    self.assertEqual(full.errno, errno.ENOSPC)
                return job.process.poll() is not None
            wait_until(filled_and_over, "the job ends on a full disk")
        self.assert_codes([1], job)
        self.assertRegex(job.stderr, r"train: .* does not fit: free some space")
        self.assertNotRegex(job.stderr, r"train: rank 0 .*(left|died)")

    def test_a_rank_whose_peer_dies_says_so_and_exits_with_75(self):
        env = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ranks = [subprocess.Popen([train_jobs.TRAIN, "--steps", "1000000", *SMALL, "--curve", self.path("curve.csv")],
                                  env=self.environment({**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}),
                                  stderr=subprocess.PIPE, text=True) for rank in range(2)]
        wait_until(lambda: len(self.curve()) > 2, "they train")
        ranks[1].send_signal(signal.SIGKILL)
        said = ranks[0].communicate(timeout=jobs.GUARD)[1]
        ranks[1].communicate()
        self.assertEqual(ranks[0].returncode, 75, said)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertIn("rank 1", said)


class TwoNodes(TrainCase):
    def test_a_kill_on_the_second_node_changes_nothing(self):
        options = ("--steps", "120", "--save-every", "10", *SMALL)
        whole = self.train_pair(*options)
        self.assert_codes([0, 0], *whole)
        self.port = free_port()
        disturbed = self.train_pair(*options, "--checkpoint-dir", self.path("saved"), "--curve",
                                    self.path("curve.csv"))
        self.await_step(50, disturbed[0])
        self.assertTrue(self.kill(3))
        self.assert_codes([0, 0], *disturbed)
        self.assertEqual(self.final(disturbed[0].stdout), self.final(whole[0].stdout))
        self.assertEqual({row[3] for row in self.curve()}, {0, 1})


class Plot(unittest.TestCase):
    def plot(self, *arguments):
        return subprocess.run(["/usr/bin/python3", PLOT, *arguments], capture_output=True, text=True)

    def test_the_plot_is_80_wide_and_marks_the_restart(self):
        with jobs.tempfile.TemporaryDirectory() as folder:
            with open(folder + "/curve.csv", "w") as file:
                file.write("step,loss,world,restart\n")
                file.writelines(f"{step},{4 - step / 100},{4},{int(step > 150)}\n" for step in range(1, 201))
            done = self.plot(folder + "/curve.csv", "--svg", folder + "/curve.svg")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = done.stdout.splitlines()
            self.assertEqual(max(len(line) for line in lines), 80)
            self.assertEqual(done.stdout.count("┊") > 5, True)
            self.assertIn("restart at step 151", done.stdout)
            self.assertTrue(lines[0].startswith("  3.99 │") and lines[13].startswith("  2.00 │"), done.stdout)
            image = read(folder + "/curve.svg")
            self.assertEqual(image.count('class="restart"'), 1)
            self.assertEqual(image.count("<polyline"), 1)
            import xml.dom.minidom
            xml.dom.minidom.parseString(image)

    def test_what_is_no_curve_is_refused_in_one_line(self):
        with jobs.tempfile.TemporaryDirectory() as folder:
            for text in ("", "step,loss,world,restart\n", "a,b\n1,2\n", "step,loss,world,restart\n1,x,1,0\n"):
                with open(folder + "/curve.csv", "w") as file:
                    file.write(text)
                done = self.plot(folder + "/curve.csv")
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn("No such file", self.plot(folder + "/nothing").stderr)


if __name__ == "__main__":
    train_jobs.main()
