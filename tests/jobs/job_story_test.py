"""What is left of a job for machines: events.jsonl, with its trace, and verdict.json; and the account. Usage: job_story_test.py CXXRUN ASTRAY_WORKER"""
import glob
import json
import os
import pathlib
import signal
import sys

import jobs
from job_succession_test import Succession
from jobs import JobCase, read

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src/runtime/python"))
from cxxrun.trace import trace

ASTRAY_WORKER = os.path.abspath(sys.argv.pop(2))
PARTS = ("waiting_s", "startup_s", "training_s", "checkpoint_s", "lost_s", "stopping_s")


class StoryCase(JobCase):
    def story(self, logs):
        """The events of the one agent that has written any there, its directory, and its verdict if there is one."""
        [path] = glob.glob(f"{logs}/*/events.jsonl")
        head, *events = [json.loads(line) for line in read(path).splitlines()]
        self.assertEqual(head["version"], 1)
        directory = os.path.dirname(path)
        text = read(directory + "/verdict.json")
        return events, directory, json.loads(text) if text else None

    def kinds(self, events, but=("time",)):
        return [event["kind"] for event in events if event["kind"] not in but]

    def assert_adds_up(self, verdict, events=()):
        account = verdict["account"]
        self.assertAlmostEqual(sum(account[part] for part in PARTS), account["wall_s"], places=6)
        at = None
        for stretch in (event for event in events if event["kind"] == "time"):
            self.assertIn(at, (None, stretch["from_s"]))  # no gap, nothing twice
            at = stretch["to_s"]
        self.assertEqual(at, account["wall_s"])
        offsets = [event["at_s"] for event in events]
        self.assertEqual(offsets, sorted(offsets))


class OneNode(StoryCase):
    def test_a_job_that_succeeds_leaves_its_story_and_says_where(self):
        logs = self.path("logs")
        job = self.run_job("--standalone", "--nproc-per-node", "2", "--log-dir", logs, self.worker("note up"), code=0)
        events, directory, verdict = self.story(logs)
        self.assertEqual(self.kinds(events), ["node_joined", "formed", "started", "ended", "verdict"])
        self.assert_adds_up(verdict, events)
        [generation] = verdict["history"]
        self.assertEqual((generation["generation"], generation["nodes"], generation["ranks"], generation["failed"]),
                         (1, 1, 2, False))
        self.assertEqual((verdict["version"], verdict["verdict"]), (1, "success"))
        self.assertFalse(verdict["account"]["steps_known"])
        self.assertIn(f":{directory}/{{events.jsonl,verdict.json}}", job.stderr)
        self.assertRegex(job.stderr, r"info: verdict: success after \d+\.\d s\n")
        self.assertNotIn("account:", job.stderr)  # it was short

    def test_what_the_runtime_spends_on_checkpoints_is_a_part_of_its_own(self):
        logs = self.path("logs")
        self.run_job("--standalone", "--nproc-per-node", "2", "--log-dir", logs, "--no-python", ASTRAY_WORKER, "saves",
                     code=0)
        events, _, verdict = self.story(logs)
        self.assert_adds_up(verdict, events)
        self.assertTrue(verdict["account"]["steps_known"])
        self.assertGreater(verdict["account"]["checkpoint_s"], 0)
        spent = [event["spent"] for event in events if event["kind"] == "time"]
        self.assertEqual(spent.index("training") + 1, spent.index("checkpoint"), spent)

    def test_without_a_log_directory_nothing_is_kept(self):
        job = self.run_job("--standalone", "--log-level", "debug", self.worker("note up"), code=0)
        self.assertIn("the record of the job is not kept", job.stderr)
        self.assertEqual(glob.glob(self.path("**/events.jsonl"), recursive=True), [])

    def test_a_failure_that_is_survived_is_in_the_account(self):
        logs = self.path("logs")
        program = self.worker('test $CXXRUN_GENERATION != 3 || exit 0\ntest $RANK = 0 || exit 3\ngate never')
        job = self.run_job("--standalone", "--nproc-per-node", "2", "--log-dir", logs, program, code=0)
        events, directory, verdict = self.story(logs)
        self.assertEqual(self.kinds(events), ["node_joined", "formed", "started", "worker_failed", "stop", "ended",
                                              "restart", "formed", "started", "worker_failed", "stop", "ended",
                                              "restart", "formed", "started", "ended", "verdict"])
        self.assert_adds_up(verdict, events)
        first, second, third = verdict["history"]
        self.assertEqual((first["failed"], second["failed"], third["failed"]), (True, True, False))
        self.assertTrue(first["why"].startswith("rank 1 on ") and first["why"].endswith(": exit code 3"), first)
        self.assertAlmostEqual(first["lost_s"] + second["lost_s"], verdict["account"]["lost_s"], places=6)
        self.assertGreaterEqual(second["lost_s"], 1)  # the second restart in a row waits for it
        self.assertEqual([event["rank"] for event in events if event["kind"] == "worker_failed"], [1, 1])
        self.assertEqual([event["delay_s"] for event in events if event["kind"] == "restart"], [0, 1])
        self.assertRegex(job.stderr, r"info: elapsed: .*, goodput [\d.]+ % at most")
        self.assertIn("to the end of generation 2: rank 1 on ", job.stderr)
        self.check_trace(directory, first, second, third)

    def check_trace(self, directory, *history):
        bars = [bar for bar in trace(read(directory + "/events.jsonl").splitlines(True)) if bar["ph"] == "X"]
        workers = sorted((bar["name"], bar["tid"]) for bar in bars if bar["pid"] == 1)
        self.assertEqual(workers, [(f"generation {number}", rank) for number in (1, 2, 3) for rank in (0, 1)])
        shown = [bar["ts"] for bar in bars if bar["pid"] == 0 and bar["tid"] == 1]
        self.assertEqual(shown, [round(each["began_s"] * 1e6) for each in history])

    def test_a_job_that_is_told_to_end_was_stopping(self):
        logs = self.path("logs")
        job = self.start("--standalone", "--log-dir", logs, self.worker("note up\ngate never"))
        self.await_events(1, "up")
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.wait(), 128 + signal.SIGTERM, job.stderr)
        events, _, verdict = self.story(logs)
        self.assertEqual(self.kinds(events)[-4:], ["node_left", "stop", "ended", "verdict"])
        self.assert_adds_up(verdict, events)
        self.assertEqual(verdict["account"]["lost_s"], 0)
        self.assertFalse(verdict["history"][0]["failed"])


class Taken(Succession, StoryCase):
    """Of Succession only what is set up."""

    def test_whoever_takes_over_goes_on_with_the_story(self):
        logs = [self.path(f"logs{index}") for index in range(3)]
        first, before = self.take_first(logs)
        after, _ = self.formed(2, before)
        self.release(*self.agents[1:])
        events, _, verdict = self.story(logs[0])
        self.assertIsNone(verdict)  # it was killed
        self.assertEqual(self.kinds(events)[-1], "started")
        written = [directory for directory in logs[1:] if glob.glob(f"{directory}/*/events.jsonl")]
        self.assertEqual(len(written), 1)
        events, _, verdict = self.story(written[0])
        self.assertEqual(self.kinds(events)[0], "took_over")
        self.assertGreater(events[0]["account"]["wall_s"], 0)
        self.assert_goes_on(verdict, events)
        lost, last = verdict["history"]
        self.assertEqual((lost["generation"], lost["nodes"], lost["ranks"], lost["failed"]), (before, 3, 3, True))
        self.assertIn("node lost", lost["why"])
        self.assertEqual((last["generation"], last["failed"]), (after, False))

    def take_first(self, logs):
        """Three agents with logs of their own, of which the first one is killed."""
        def node(index):
            return self.start_node("--node-rank", str(index), "--log-dir", logs[index], self.program, nnodes="1:3")
        first = node(0)
        first.says("waiting for more")
        node(1), node(2)
        before, _ = self.formed(3)
        self.kill(first.agent_pid())
        return first, before

    def assert_goes_on(self, verdict, events):
        account = verdict["account"]
        self.assertAlmostEqual(sum(account[part] for part in PARTS), account["wall_s"], places=6)
        stretches = [event for event in events if event["kind"] == "time"]
        self.assertEqual(stretches[0]["from_s"], events[0]["account"]["wall_s"])
        self.assertEqual(stretches[-1]["to_s"], account["wall_s"])


for name in [name for name in dir(Succession) if name.startswith("test_")]:
    setattr(Taken, name, None)  # they are that file's
del Succession


if __name__ == "__main__":
    sys.exit(jobs.main())
