"""What changes a job, at any moment of jobs of several nodes. Usage: verbs_test.py CXXRUN CXXRUNCTL SAVING_WORKER FALLING_WORKER

CXXRUN_VERBS: how many of each are done; CXXRUN_VERBS_SEED repeats a run."""
import collections
import contextlib
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import unittest

import jobs
from jobs import GUARD, free_port, wait_until
from live_jobs import CTL, LiveCase

SAVING, FALLING = (os.path.abspath(sys.argv.pop(2)) for _ in range(2))
VERBS = int(os.environ.get("CXXRUN_VERBS", "3"))
SEED = int(os.environ.get("CXXRUN_VERBS_SEED", "0")) or random.randrange(1, 1 << 30)
DRAINS = 8  # of a job: each takes a node of its own

DONE = {"checkpoint": r": asked [1-4] of [1-4] workers? to save$", "restart": r": restarted by uid \d+ on \S+$",
        "drain": r": \S+ is drained by uid \d+ on \S+$", "stop": r": stopped by uid \d+ on \S+$"}
NOT_NOW = (r"generation \d+ does not run now$|its workers do not run now, it is [a-z ]+: look again by cxxrunctl status$|"
           r"generation \d+ runs now, and not \d+ as was shown: look again by cxxrunctl status$")
TOO_EARLY = r"none of \d+ workers? can be asked: |no worker runs now$"
COORDINATES = r"\S+ coordinates the job, and cannot hand that over: drain another node, or stop the job$"
NO_WORKER = r"no worker of this job runs on \S+, but on "
TOO_FEW = r"1 node would be left without \S+, spares included; --nnodes wants at least 2$"
ENDED = (r"the agent on this node has ended$|no agent answers there$|the agent on this node does not answer$|"
         r"no coordinator: an election is under way; try again in a few seconds$")
REFUSED = {"checkpoint": (NOT_NOW, TOO_EARLY), "restart": (NOT_NOW,), "stop": (NOT_NOW,),
           "drain": (NOT_NOW, COORDINATES, NO_WORKER, TOO_FEW)}


class Verbs(LiveCase):
    @classmethod
    def setUpClass(cls):
        print(f"CXXRUN_VERBS_SEED={SEED}", flush=True)

    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.times = collections.defaultdict(list)
        self.refusals = collections.Counter()

    def tearDown(self):
        for verb, times in self.times.items():
            print(f"{verb}: {len(times)} asked, {sum(times) / len(times):.2f} s each, {max(times):.2f} s at most", flush=True)
        print("refused:", dict(self.refusals), flush=True)
        super().tearDown()

    # ---- asking

    def want(self, *orders, over=False):
        """Asks for these at once, each a verb and perhaps a node. Whether each was done; else it was refused as is documented.
        `over`: the job may have ended."""
        begun = [(time.monotonic(), subprocess.Popen([CTL, verb, self.run_id(), *node, "--yes"], env=self.environment(),
                                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
                 for verb, *node in orders]
        done = []
        for (verb, *_), (since, process) in zip(orders, begun):
            with process:
                try:
                    out, said = process.communicate(timeout=GUARD)
                finally:
                    process.kill()
            self.times[verb].append(time.monotonic() - since)
            done.append(process.returncode == 0)
            if done[-1]:
                self.assertRegex(out.rstrip("\n"), DONE[verb])
                continue
            why = said.rstrip("\n").rpartition("\n")[2]
            allowed = [(111, text) for text in REFUSED[verb] + ((ENDED,) if over else ())]
            allowed += [(113, f"no job {self.run_id()} of yours runs on this node")] if over else []
            self.assertTrue([text for code, text in allowed if (code, bool(re.search(text, why))) == (process.returncode, True)],
                            f"{orders}: {process.returncode}, {said}")
            self.refusals[verb, process.returncode, re.sub(r"\S*\d\S*", "N", why.partition(f"{self.run_id()}: ")[2])] += 1
        return done

    def pause(self):
        """A moment of the training; nothing waits for it."""
        time.sleep(self.rng.uniform(0, 0.1))

    # ---- jobs

    def options(self):
        return ("--max-restarts=0", "--heartbeat-timeout=60", "--log-level=debug", "--log-dir", self.path("logs"), "--no-python")

    def begin_anew(self):
        """The job before is over."""
        self.port = free_port()
        self.agents.clear()
        shutil.rmtree(self.path("logs"), ignore_errors=True)
        for name in ("events", "finish"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(name))

    def begin_nodes(self, count, *arguments):
        """Of two ranks each. The first one coordinates."""
        self.begin_anew()
        for host in "abc"[:count]:
            self.start_node("--nproc-per-node=2", "--rdzv-id", self.run_id(), *self.options(), *arguments, nnodes=str(count),
                            env={"CXXRUN_HOST_ID": host})
            self.agents[0].says("waiting for ")
        return list(self.agents)

    def assert_nobody_was_killed(self):
        for agent in self.agents:
            self.assertNotRegex(agent.stderr, r"grace is over|survived? SIGKILL|signal 9")

    def story(self):
        """The record of its coordinator."""
        [path] = glob.glob(self.path("logs/*/events.jsonl"))
        return [json.loads(line) for line in jobs.read(path).splitlines()[1:]]

    def assert_story(self, done):
        """Each verb that was done is in it once, and nothing else has stopped a worker."""
        story = self.story()
        wanted = collections.Counter(event["verb"] for event in story if event["kind"] == "wanted")
        self.assertEqual(wanted, collections.Counter({verb: count for verb, count in done.items() if count}))
        stops = [event["why"] for event in story if event["kind"] == "stop"]
        self.assertEqual(len(stops), wanted["restart"] + wanted["drain"] + wanted["stop"], stops)
        for why in stops:
            self.assertRegex(why, r"(restarted|drained|stopped) by uid \d+ on ")
        self.assertEqual([event for event in story if event["kind"] in ("worker_failed", "restart", "node_lost", "hang")], [])
        formed = [event["generation"] for event in story if event["kind"] == "formed"]
        self.assertEqual(formed, list(range(1, 2 + wanted["restart"] + wanted["drain"])))

    # ---- checkpoint and restart

    def saves(self, generation):
        """Step → the ranks that have saved there, in order."""
        found = {}
        for at, rank, word, *step in self.events(generation=generation):
            if word in ("saved", "last"):
                found.setdefault((int(step[0]), word), set()).add(rank)
        return found

    def whole_saves(self, generation):
        return sum(len(ranks) == 4 for ranks in self.saves(generation).values())

    def assert_saves_agree(self, last, ranks):
        for generation in range(1, last + 1):
            for save, those in self.saves(generation).items():
                self.assertEqual(those, set(range(ranks)), f"{save} of generation {generation}")

    def test_checkpoints_and_restarts_of_two_nodes(self):
        agents = self.begin_nodes(2, SAVING, "none", "0", "0")
        todo, done = collections.Counter(checkpoint=VERBS, restart=VERBS), collections.Counter()
        self.await_events(1, "up")
        while max(todo.values()) > 0:
            generation = 1 + done["restart"]
            orders = [(self.rng.choice([verb for verb, left in todo.items() if left > 0]),)]
            if self.rng.random() < 0.2:  # during another one
                orders.append((self.rng.choice(("checkpoint", "restart")),))
            up = self.rng.choice((0, 1, 2, 3, 4, 4, 4, 4))
            self.await_events(up, "up", generation)
            if up == 4:
                self.pause()
            before = self.whole_saves(generation)
            answers = self.want(*orders)
            for (verb,), was_done in zip(orders, answers):
                done[verb] += was_done
                todo[verb] -= was_done
            if up == 4 and orders == [("checkpoint",)]:
                self.assertEqual(answers, [True])
                wait_until(lambda: self.whole_saves(generation) > before, "all have saved")
        last = 1 + done["restart"]
        self.await_events(4, "up", last)
        table = self.await_table(self.run_id(), lambda table: table["phase"] == "running", "it runs")
        self.assertEqual((table["generation"], table["restarts"]), (last, 0))
        self.stop(done)
        self.assert_codes([130, 130], *agents)
        self.assert_saves_agree(last, 4)
        self.assert_story(done)
        self.assert_nobody_was_killed()

    # ---- stop

    def stop(self, done, *beside):
        """Until it is done, and what is wanted at the same time once."""
        while not done["stop"]:
            orders = [("stop",), *beside]
            for (verb,), was_done in zip(orders, self.want(*orders, over=bool(beside))):
                done[verb] += was_done
            beside = ()

    def test_stops_at_any_moment(self):
        for number in range(VERBS):
            nodes, done = self.rng.choice((2, 2, 3)), collections.Counter()
            up = self.rng.choice((0, 1, 2, 2 * nodes))
            beside = self.rng.choice(((), (), (("checkpoint",),), (("restart",),), (("stop",),)))
            with self.subTest(number=number, nodes=nodes, up=up, beside=beside):
                agents = self.begin_nodes(nodes, SAVING, "none", "0", "0")
                self.await_events(up, "up")
                if up == 2 * nodes:
                    self.pause()
                self.stop(done, *beside)
                self.assert_codes([130] * nodes, *agents)
                self.assertEqual(done["stop"], 1)
                self.ctl("stop", self.run_id(), "--yes", code=113)
                self.assert_saves_agree(1 + done["restart"], 2 * nodes)
                if up == 2 * nodes and not beside:
                    self.assertEqual(list(self.saves(1).values()), [set(range(2 * nodes))])
                    self.assertEqual(len(self.events("left", 1)), 2 * nodes)
                self.assert_story(done)
                self.assert_nobody_was_killed()

    # ---- drain

    def ranks(self, generation, nodes):
        """Rank → process of each, when all have met there and made a step."""
        self.await_events(nodes, "stepped", generation)
        return {rank: int(words[0]) for _, rank, _, *words in self.events("up", generation)}

    def hosts(self, generation, nodes):
        """Host → rank; and who coordinates."""
        table = self.await_table(self.run_id(), lambda table: table["generation"] == generation and table["phase"] == "running"
                                 and len(table["workers"]) == nodes, f"generation {generation} is told of")
        self.assertEqual((table["nodes"], table["restarts"]), (nodes, 0))
        return {worker["host"]: worker["rank"] for worker in table["workers"]}, table["coordinator"]

    def drain_all(self, drains):
        """A job of three nodes and as many spares as are to be drained: each that leaves is followed by one of them."""
        self.begin_anew()
        names = [f"node{number}" for number in range(3 + drains)]
        agents = {name: self.start_named(name, "--nproc-per-node=1", *self.options(), FALLING, "shrink") for name in names}
        done, drained = collections.Counter(), []
        self.await_events(3, "stepped")
        generation = self.table(self.run_id())["generation"]  # those that have come late may have begun another one
        formed = generation - 1
        while done["drain"] < drains:
            processes = self.ranks(generation, 3)
            hosts, first = self.hosts(generation, 3)
            others = sorted(set(hosts) - {first})
            leaves = self.rng.choice(others)
            both = others if drains - done["drain"] > 1 else [leaves]  # with one spare they may both leave, too
            orders = self.rng.choice(([("drain", leaves)], [("drain", leaves)], [("drain", leaves), ("checkpoint",)],
                                      [("drain", leaves), ("restart",)], [("drain", name) for name in both],
                                      [("drain", leaves), ("drain", first)]))
            kept = set(processes.values())
            for (verb, *node), was_done in zip(orders, self.want(*orders)):
                self.assertNotEqual((node, was_done), ([first], True))
                done[verb] += was_done
                if verb == "drain" and was_done:
                    drained += node
                    kept.discard(processes.get(hosts[node[0]]))
            generation = 1 + formed + done["restart"] + done["drain"]
            self.assertLessEqual(kept, set(self.ranks(generation, 3).values()), "those that stay keep their processes")
        self.assertEqual(len(drained), len(set(drained)))
        for name in drained:
            self.assertIsNone(agents[name].process.poll(), f"{name} waits for the end of the job")
        self.make_file("finish")
        self.assert_codes([0] * len(agents), *agents.values())
        excluded = [event["host"] for event in self.story() if event["kind"] == "node_excluded"]
        self.assertEqual(sorted(excluded), sorted(drained))
        self.assert_nobody_was_killed()
        return len(drained)

    @unittest.skipUnless(os.geteuid() == 0, "takes root: nodes with names of their own")
    def test_nodes_are_drained_and_the_others_keep_their_processes(self):
        left = VERBS
        while left > 0:
            left -= self.drain_all(min(left, DRAINS))


if __name__ == "__main__":
    jobs.main()
