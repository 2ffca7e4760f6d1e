"""That a report is judged by what stands in it. Usage: judge_test.py"""
import unittest

from judge import NO, NONE, RULE, YES, judge, shortened, wrong
from rows import Row

ROW = Row("a", "b", ("c",), ("memory limit", r"\brank 2\b"), culprit=2)
LOGS = ["DIR/logs/attempt_1/2/stderr.log"]
OURS = [RULE, "cxxrun: c: worker failed", "  first failure: rank 2 on HOST", "  how: memory limit of rank 2",
        "  log: HOST:DIR/logs/attempt_1/2/stderr.log", RULE]
THEIRS = ["Traceback", "=====", "Failures:", "[1]:", "  rank      : 0 (local_rank: 0)",
          "Root Cause (first observed failure):", "[0]:", "  rank      : 2 (local_rank: 2)", "====="]


def without(line):
    return [each for each in OURS if line not in each]


class Judge(unittest.TestCase):
    def test_a_report_with_everything_is_good(self):
        found = judge(ROW, OURS, LOGS)
        self.assertEqual((found.who, found.cause, found.log, found.failed), (YES, YES, YES, []))
        self.assertEqual(wrong(ROW, OURS, found), "")

    def test_each_thing_that_lacks_is_wrong_and_named(self):
        for line, lacks in (("first failure", ""), ("how:", "cause"), ("log:", "log")):
            found = judge(ROW, without(line), LOGS)
            self.assertEqual(wrong(ROW, without(line), found), lacks and f"does not name: {lacks}", line)
        found = judge(ROW, OURS[:1] + ["rank 1 had memory limit", "rank 2 too"] + OURS[-1:], [])
        self.assertEqual(found.failed, ["who", "log"])

    def test_all_key_words_are_needed(self):
        found = judge(ROW, [RULE, "rank 2", RULE], [])
        self.assertEqual((found.cause, found.lacks), (NO, ("memory limit",)))

    def test_torchruns_root_cause_comes_after_its_victims(self):
        self.assertEqual(judge(ROW, THEIRS, []).who, YES)

    def test_what_stands_outside_of_the_report_does_not_count(self):
        self.assertEqual(judge(ROW, ["memory limit", *without("how:")], LOGS).cause, NO)

    def test_a_path_of_another_rank_is_not_its_log(self):
        self.assertEqual(judge(ROW, OURS, ["DIR/logs/attempt_1/3/stderr.log"]).log, NO)

    def test_a_row_without_a_rank_names_something_else_or_nobody(self):
        self.assertEqual(judge(Row("a", "b", (), ("limit",), who="host2"), ["limit", "host2"], []).who, YES)
        self.assertEqual(judge(Row("a", "b", (), ("limit",), who="host2"), ["limit", "host1"], []).who, NO)
        self.assertEqual(judge(Row("a", "b", (), ("limit",)), ["limit"], []).who, NONE)

    def test_too_many_lines_are_wrong_unless_that_is_known(self):
        row = Row("a", "b", (), ("limit",), log=False, most_lines=1)
        own = ["limit", "more"]
        self.assertEqual(wrong(row, own, judge(row, own, [])), "2 lines, more than 1")

    def test_a_long_report_keeps_its_head_and_its_end(self):
        lines = shortened([str(i) for i in range(100)], most=4)
        self.assertEqual(lines, ["0", "1", "… 96 lines …", "98", "99"])


if __name__ == "__main__":
    unittest.main()
