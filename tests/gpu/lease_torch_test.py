"""The rows of tests/gpu/lease about PyTorch, on tensors of the CPU. Usage: BUILD_DIR DOUBLE; exit code 77: no torch"""
import importlib.util
import re
import sys
import unittest

from leases import DOUBLE, MINE, PATIENT, Table

from jobs import processes_with
from machine import Row
from torch_rows import FIRST, SECOND, survived

if importlib.util.find_spec("torch") is None:
    print("skipped: there is no torch (Debian: python3-torch)")
    sys.exit(77)
SAID = """[vm:0] at 1 0 met 70 10.0
[vm:1] at 1 1 met 71 10.0
[vm:1] at 1 1 falls backward 20.0
[vm:0] at 1 0 noticed 8 20.5
[vm:0] at 2 0 met 70 21.0
[vm:1] at 2 1 met 72 21.1
[vm:0] at 2 0 stepped 21.5
[vm:1] at 2 1 stepped 21.75
[vm:0] end 70 40 0123456789abcdef; loss 4.0 to 0.5, 45 ms a step
[vm:1] end 72 40 0123456789abcdef; loss 4.0 to 0.5, 45 ms a step
"""


class OfTorch(unittest.TestCase):
    def test_every_row_runs_or_says_that_it_needs_a_gpu(self):
        table = Table("--quick", "--preload", DOUBLE, *PATIENT, "--only", ",".join([*FIRST, *SECOND]),
                      script="deaths=seen,devices=1")
        self.assertEqual(table.code, 0, table.rows)
        self.assertRegex(table.rows["torch-facts"], r"^torch \d.*; ok$")
        self.assertEqual(table.rows["elastic-start"], "ok: one process, and two ranks under cxxrun")
        for name in ("torch-gate", "elastic-held"):
            self.assertEqual(table.rows[name], "not run: the stand-in is none for torch itself")
        for name in ("plain-cxxrun", "plain-torchrun"):
            self.assertRegex(table.rows[name], r"^ok: start to first step [\d.]+ s .*; kill to next step [\d.]+ s")
        for name in ("elastic-calls", "elastic-staged-calls"):
            self.assertEqual(table.rows[name], "ok: 23 calls, outside of a step and in one")
        self.assertRegex(table.rows["elastic-gate"], r"^ok: 6 [0-9a-f]{16} after quiet; update, one step taken back; loss$")
        whole = re.match(r"ok: (40 [0-9a-f]{16}) on both ranks; loss ([\d.]+) to ([\d.]+), \d+ ms a step$", table.rows["elastic"])
        self.assertLess(float(whole[3]), float(whole[2]))
        for name, deaths in (("elastic-kill", 3), ("elastic-warm", 3), ("elastic-staged", 1)):
            self.assertRegex(table.rows[name], f"^ok: {whole[1]} as undisturbed, the survivor kept its pid; backward: noticed after ")
            self.assertEqual(len(re.findall(r"next step [\d.]+", table.rows[name])), deaths)
        for name in ("elastic-rate-1", "elastic-rate-2", "elastic-waits-1", "elastic-waits-2"):
            self.assertRegex(table.rows[name], r"^ok: elastic / gloo = [\d.]+ of steps/s, medians of 2 turns; .*; host, all_reduce")
        self.assertEqual(processes_with(MINE), [])

    def test_who_survives_ends_as_undisturbed_in_the_same_process(self):
        self.assertEqual(survived(SAID, "40 0123456789abcdef", 1), "ok: 40 0123456789abcdef as undisturbed, the survivor kept its "
                         "pid; backward: noticed after 0.50 s, met 1.10, next step 1.75")

    def test_other_parameters_another_process_and_a_death_that_was_none_are_wrong(self):
        for said, wanted, deaths, told in ((SAID, "40 1111111111111111", 1, "ends with 40 0123456789abcdef, undisturbed 40 1"),
                                           (SAID.replace("2 0 met 70", "2 0 met 73"), "40 0123456789abcdef", 1, "the pids 70, 73"),
                                           (SAID, "40 0123456789abcdef", 2, "1 of 2 deaths"),
                                           ("", "40 0123456789abcdef", 0, "ends with nothing")):
            with self.assertRaisesRegex(Row, "^wrong: .*" + told) as raised:
                survived(said, wanted, deaths)
            self.assertFalse(raised.exception.well)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
