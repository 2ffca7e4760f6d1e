"""python -m cxxrun.trace: the trace of an events.jsonl. Usage: trace_test.py"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[4] / "src/runtime/python"
sys.path.insert(0, str(PACKAGE))

from cxxrun.trace import NoEvents, trace

HEAD = {"version": 1, "time": "2026-11-23T21:36:12.911Z", "run_id": "job", "host": "n0"}
ENDED = {"generation": 1, "nodes": 2, "ranks": 3, "began_s": 3.0, "ran_s": 5.0, "failed": True, "why": "rank 2 on n1: exit code 3"}
FORMED = {"at_s": 2.0, "kind": "formed", "generation": 1, "nodes": 2, "ranks": 3, "restarts": 0, "hosts": "n[0-1]",
          "local_sizes": "2,1"}
GENERATION = [FORMED,
              {"at_s": 3.0, "kind": "started", "generation": 1},
              {"at_s": 8.0, "kind": "worker_failed", "generation": 1, "rank": 2, "host": "n1", "how": "exit code 3"},
              {"at_s": 8.5, "kind": "worker_failed", "generation": 1, "rank": 2, "host": "n1", "how": "later"},
              {"at_s": 9.0, "kind": "ended", **ENDED},
              {"at_s": 9.0, "kind": "time", "spent": "training", "from_s": 3.0, "to_s": 8.0},
              {"at_s": 9.0, "kind": "verdict", "verdict": "worker failed", "exit_code": 3, "summary": ""}]


def lines(events, head=HEAD):
    return [json.dumps(event) + "\n" for event in (head, *events)]


def bars(events, process):
    return [bar for bar in trace(lines(events)) if bar["ph"] == "X" and bar["pid"] == process]


def names(events):
    return [bar["args"]["name"] for bar in trace(lines(events)) if bar["ph"] == "M"]


class Trace(unittest.TestCase):
    def test_the_job_has_its_time_and_its_generations(self):
        generation, training = bars(GENERATION, 0)
        self.assertEqual(generation, {"name": "generation 1", "ph": "X", "pid": 0, "tid": 1, "ts": 3_000_000, "dur": 5_000_000,
                                      "args": {"nodes": 2, "ranks": 3, "why": "rank 2 on n1: exit code 3"}})
        self.assertEqual(training, {"name": "training", "ph": "X", "pid": 0, "tid": 0, "ts": 3_000_000, "dur": 5_000_000})

    def test_each_node_has_its_workers_by_rank_and_one_that_failed_its_own_end(self):
        self.assertEqual([(bar["tid"], bar["ts"], bar["dur"]) for bar in bars(GENERATION, 1)],
                         [(0, 3_000_000, 6_000_000), (1, 3_000_000, 6_000_000)])
        [failed] = bars(GENERATION, 2)
        self.assertEqual((failed["tid"], failed["dur"], failed["args"]), (2, 5_000_000, {"failed": "exit code 3"}))
        self.assertEqual(names(GENERATION)[3:], ["node 0: n0", "node 1: n1"])

    def test_hosts_and_sizes_are_read_as_the_launcher_writes_them(self):
        formed = {**FORMED, "ranks": 7, "hosts": "a-b.c,n[08-10,7],x3", "local_sizes": "1(x4),0,3"}
        self.assertEqual(names([formed, *GENERATION[1:]])[3:],
                         ["node 0: a-b.c", "node 1: n08", "node 2: n09", "node 3: n10", "node 4: n7", "node 5: x3"])
        self.assertEqual([bar["tid"] for bar in bars([formed, *GENERATION[1:]], 6)], [4, 5, 6])

    def test_what_an_elected_coordinator_knows_of_the_time_before_is_in_it(self):
        took_over = {"at_s": 6.0, "kind": "took_over", "generation": 1, "account": {"wall_s": 6.0}, "history": [ENDED]}
        generation, before = bars([took_over], 0)
        self.assertEqual((generation["name"], before["ts"], before["dur"]), ("generation 1", 0, 6_000_000))

    def test_of_more_workers_than_a_browser_shows_only_the_job_is_in_it(self):
        many = [{**FORMED, "ranks": 300_000, "local_sizes": "150000(x2)"}, *GENERATION[1:]]
        self.assertEqual((len(bars(many, 0)), bars(many, 1)), (2, []))

    def test_nodes_whose_list_is_too_long_to_be_written_are_left_out(self):
        for missing in ("hosts", "local_sizes"):
            self.assertEqual(len(bars([{**FORMED, missing: ""}, *GENERATION[1:]], 0)), 2)

    def test_a_line_that_is_cut_off_ends_it_where_it_is_the_last(self):
        *whole, last = lines(GENERATION)
        self.assertEqual(trace([*whole, last[:-9]]), trace(whole))
        with self.assertRaisesRegex(NoEvents, "its line 8 is not JSON"):
            trace([*whole, last[:-9] + "\n"])

    def test_what_is_no_record_of_a_job_is_refused(self):
        for text, why in (([], "not an events.jsonl"), (["{}\n"], "not an events.jsonl"), (["[]\n"], "line 1 is not an event"),
                          (["version"], "line 1 is not JSON"), (["[" * 100_000], "line 1 is not JSON"),
                          (lines([], {"version": 2}), "version 2, this package knows 1"),
                          (lines([{}]), "KeyError: 'kind'"), (lines([{"kind": "ended"}]), "KeyError"),
                          (lines([{"kind": "time", "spent": "lost", "from_s": 0, "to_s": float("inf")}]), "OverflowError"),
                          (lines([{"kind": "took_over", "history": [3], "account": {}}]), "TypeError")):
            with self.subTest(why), self.assertRaisesRegex(NoEvents, why):
                trace(text)


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cxxrun-trace-")
        self.addCleanup(folder.cleanup)
        self.events, self.trace = (os.path.join(folder.name, name) for name in ("events.jsonl", "trace.json"))
        pathlib.Path(self.events).write_text("".join(lines(GENERATION)))

    def run_it(self, *arguments):
        return subprocess.run([sys.executable, "-S", "-m", "cxxrun.trace", *arguments], env={"PYTHONPATH": str(PACKAGE)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)

    def test_it_writes_a_file_or_standard_output(self):
        shown, kept = self.run_it(self.events), self.run_it(self.events, "-o", self.trace)
        self.assertEqual((shown.returncode, kept.returncode, kept.stdout + kept.stderr), (0, 0, ""), shown.stderr)
        self.assertEqual(json.loads(shown.stdout), trace(lines(GENERATION)))
        self.assertEqual(pathlib.Path(self.trace).read_text(), shown.stdout)

    def test_what_cannot_be_read_or_written_is_one_line(self):
        folder = os.path.dirname(self.events)
        for arguments, line in (([folder], f"{folder}: Is a directory"), ([self.trace], f"{self.trace}: No such file or directory"),
                                ([self.events, "-o", folder], f"{folder}: it is not a file"),
                                ([self.events, "-o", "/nowhere/t"], "/nowhere: No such file or directory"),
                                ([os.devnull], f"{os.devnull}: it is not an events.jsonl of cxxrun; give the events.jsonl of a log "
                                               "directory of cxxrun")):
            with self.subTest(line):
                done = self.run_it(*arguments)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"cxxrun.trace: {line}\n"))


if __name__ == "__main__":
    unittest.main()
