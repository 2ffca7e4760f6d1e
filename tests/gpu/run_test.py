"""tests/gpu/run: without a GPU every row says so; on the double every row that can runs. Usage: BUILD_DIR DOUBLE"""
import os
import pathlib
import subprocess
import sys
import unittest

BUILD, DOUBLE = sys.argv[1:3]
RUN = pathlib.Path(__file__).with_name("run")


def table(*words, script=""):
    """(exit code, {what: result})"""
    done = subprocess.run([sys.executable, RUN, *words, BUILD], env=dict(os.environ, CXXRUN_CUDA_DOUBLE=script),
                          text=True, stdout=subprocess.PIPE, timeout=250, check=False)
    rows = [line.strip("| ").split(" | ", 1) for line in done.stdout.splitlines()[2:]]
    return done.returncode, dict(rows)


class GpuRun(unittest.TestCase):
    def test_without_a_gpu_every_row_says_so(self):
        code, rows = table("--quick", "--preload", DOUBLE, script="driver=missing")
        self.assertEqual(code, 77)
        self.assertEqual(len(rows), 11)
        for what, result in rows.items():
            self.assertRegex(result, "^no GPU: CUDA driver version is insufficient", what)

    def test_without_the_double_it_is_the_same_or_there_is_a_gpu(self):
        code, rows = table("--quick", "--only", "machine")
        self.assertIn(code, (0, 77))
        self.assertEqual(code == 77, rows["the machine"].startswith("no GPU"))

    def test_on_the_double_everything_runs(self):
        code, rows = table("--quick", "--preload", DOUBLE, script="deaths=seen,devices=1")
        self.assertEqual(code, 0, rows)
        self.assertIn("Double of a GPU", rows.pop("the machine"))
        self.assertRegex(rows.pop("compute-sanitizer"), "^not run|ok")
        self.assertRegex(rows.pop("the trainer on CUDA"), "^final loss .* after 20 steps")
        killed = rows["SIGKILL of one of two ranks: abort, rebuild"]
        for part in ("noticed", "remote process exited", "aborted in", "a new communicator in"):
            self.assertIn(part, killed)
        for what, result in rows.items():
            self.assertRegex(result, "(^|; )ok", what)

    def test_a_loss_that_is_not_noticed_is_said(self):
        code, rows = table("--quick", "--preload", DOUBLE, "--only", "survival")
        self.assertEqual(code, 0, rows)
        self.assertIn("not noticed within 5 s", rows["SIGKILL of one of two ranks: abort, rebuild"])

    def test_what_goes_wrong_is_in_its_row_and_in_the_exit_code(self):
        code, rows = table("--quick", "--preload", DOUBLE, "--only", "all-reduce-2", "--only", "alone",
                           script="init=2")
        self.assertEqual(code, 1)
        self.assertIn("unhandled system error", rows["all_reduce, two ranks on one GPU"])
        self.assertIn("ok", rows["world of one: cost of a bucket"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
