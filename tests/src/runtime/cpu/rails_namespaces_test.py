#!/usr/bin/python3
"""Rails over real wires between network namespaces: sums, and a wire that is cut. Usage: rails_namespaces_test.py
RAILS_LOAD. Needs root, else exit code 77."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "support"))
import wires  # noqa: E402

LEFT_OUT = wires.missing()
WHY = ["died", "left", "timeout", "lost"]
GUARD = 120


class Rails(unittest.TestCase):
    def start(self, hosts, *options):
        process = subprocess.Popen([LOAD, *(host.word for host in hosts), *options], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def finish(self, process):
        out, err = process.communicate(timeout=GUARD)
        self.assertEqual(process.returncode, 0, err)
        return {result["rank"]: result for result in map(json.loads, out.splitlines())}

    def cut_while_busy(self, nodes, whose, *options):
        with wires.Wires(nodes, "1gbit") as net:
            process = self.start(net.hosts, "--reps", "0", "--bytes", str(4 << 20), *options)
            self.assertEqual(process.stdout.readline().strip(), "ready")
            net.cut(whose)
            return self.finish(process)

    def test_two_and_three_hosts_finish_all_reduces(self):
        for nodes in (2, 3):
            with wires.Wires(nodes) as net:
                results = self.finish(self.start(net.hosts, "--bytes", str(8 << 20), "--reps", "3", "--wire", "bf16"))
            self.assertEqual(sorted(results), list(range(nodes)))

    def test_a_host_behind_a_cut_wire_is_lost(self):
        results = self.cut_while_busy(3, 2, "--silence", "4000")
        for rank in (0, 1):
            self.assertEqual((WHY[results[rank]["why"]], results[rank]["names"]), ("lost", 2))
        self.assertEqual(WHY[results[2]["why"]], "lost")
        self.assertIn(results[2]["names"], (0, 1))  # it cannot know that it is the one
        self.assertLess(max(result["after"] for result in results.values()), 30)

    def test_a_call_over_a_cut_wire_ends_with_its_time(self):
        results = self.cut_while_busy(2, 0, "--op-timeout", "2000", "--silence", "60000")
        for rank, other in ((0, 1), (1, 0)):
            self.assertEqual((WHY[results[rank]["why"]], results[rank]["names"]), ("timeout", other))
            self.assertGreaterEqual(results[rank]["after"], 2)
            self.assertLess(results[rank]["after"], 20)


if __name__ == "__main__":
    if LEFT_OUT:
        print(f"skipped: {LEFT_OUT}")
        sys.exit(77)
    LOAD = sys.argv.pop(1)
    unittest.main()
