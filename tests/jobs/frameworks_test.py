"""Jobs of the real frameworks that are told to end at random moments, on one node and on two: with cxxrun.integrations all
ranks save in the same step, and the next job goes on there. Usage: frameworks_test.py CXXRUN
CXXRUN_FRAMEWORKS: a directory that is searched first, for sources of frameworks; CXXRUN_STOPS: of each, so many [3];
CXXRUN_SEED: which. Exit code 77: skipped, with the reason."""
import collections
import importlib.util
import os
import random
import signal
import sys
import time

import jobs
from jobs import JobCase, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINER = os.path.join(HERE, "framework_trainer.py")
PATH = [each for each in (os.path.join(HERE, "../../src/runtime/python"), os.environ.get("CXXRUN_FRAMEWORKS")) if each]
MODULES = {"lightning": "lightning.pytorch", "transformers": "transformers", "accelerate": "accelerate", "ignite": "ignite.engine"}
sys.path[:0] = PATH
PATIENCE = 600  # seconds; a worker takes 5 s of CPU to import a framework

# The rank tells the word so many times; then the nodes are told to end, the first of them so many seconds before the last.
Moment = collections.namedtuple("Moment", "nodes word rank count gap order")


def is_here(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def moment(chosen, number):
    word = chosen.choice(("come", "begin", "step", "step", "step", "step", "step")) if number > 1 else "step"
    return Moment(number % 2 + 1, word, chosen.randrange(2), chosen.randint(2, 200) if word == "step" else 1,
                  chosen.choice((0, 0.01, 0.3)), chosen.choice((1, -1)))


class Frameworks(JobCase):
    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PYTHON_EXEC="/usr/bin/python3", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                   USE_LIBUV="0", HF_HUB_OFFLINE="1", PYTHONPATH=":".join(PATH))
        return env

    def begin(self, nodes, *words):
        options = (f"--nproc-per-node={2 // nodes}", "--max-restarts=0", f"--shutdown-timeout={PATIENCE}", TRAINER, *words)
        return list(self.start_two(*options)) if nodes == 2 else [self.start("--standalone", *options)]

    def stop_at(self, when, framework, folder):
        """The job that was told to end then."""
        if os.path.exists(self.path("events")):
            os.remove(self.path("events"))
        agents = self.begin(when.nodes, framework, folder)

        def told():
            return (sum(event[1] == when.rank for event in self.events(when.word)) >= when.count or
                    any(agent.process.poll() is not None for agent in agents))
        wait_until(told, f"{when}", PATIENCE)
        for agent in agents[::when.order]:
            agent.process.send_signal(signal.SIGTERM)
            time.sleep(when.gap)
        for agent in agents:
            agent.wait(PATIENCE)
        return agents

    def last(self, word):
        """What each rank has told last by that word."""
        return {event[1]: int(event[3]) for event in self.events(word)}

    def check(self, when, agents, before):
        """All ranks went on from `before` and saved in one step; nobody did if one had not begun. Returns that step."""
        self.assert_codes([143] * when.nodes, *agents)
        text = "".join(agent.stderr for agent in agents)
        self.assertRegex(text, "told to end by SIGTERM")
        self.assertNotIn("SIGKILL", text)
        self.assertLessEqual(set(self.last("begin").values()), {before})
        ends = self.last("end")
        if when.word != "step" and not ends:
            return before
        self.assertEqual((len(ends), len(set(ends.values()))), (2, 1), text)
        self.assertEqual(self.last("saved"), ends, text)
        self.assertNotIn("Traceback", text)
        return ends[0]

    def play(self, framework):
        if not is_here(MODULES[framework]):
            self.skipTest(f"no {framework}; a root that tests/support/todays_torch makes anew has those that Debian packages, "
                          "and CXXRUN_FRAMEWORKS names a directory with sources")
        seed, number = int(os.environ.get("CXXRUN_SEED", random.randrange(1 << 32))), int(os.environ.get("CXXRUN_STOPS", "3"))
        chosen, step, folder = random.Random(seed), 0, self.path("kept")
        os.mkdir(folder)
        for count in range(number):
            when = moment(chosen, count)
            began = time.monotonic()
            print(f"{framework}, stop {count + 1} of {number}, seed {seed}: {when}", flush=True)
            agents = self.stop_at(when, framework, folder)
            before, step = step, self.check(when, agents, step)
            self.assert_nothing_left()
            print(f"  from {before} to {step}, {time.monotonic() - began:.1f} s", flush=True)

    def test_lightning(self):
        self.play("lightning")

    def test_transformers(self):
        self.play("transformers")

    def test_accelerate(self):
        self.play("accelerate")

    def test_ignite(self):
        self.play("ignite")


if __name__ == "__main__":
    jobs.main()
