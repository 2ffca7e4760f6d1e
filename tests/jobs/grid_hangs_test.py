"""Ranks of the 2 x 2 trainer that hang, stopped or asleep: named, ended, replaced; the others keep their processes.
Usage: grid_hangs_test.py CXXRUN GRID_ASLEEP

GRID_ASLEEP: the trainer, in which a rank that gets SIGUSR1 sleeps for ever. CXXRUN_KILLS: how many hang in each job;
CXXRUN_KILLS_SEED repeats a run. Nobody takes a stack: that is tested by hangs_test.py."""
import json
import os
import re
import signal
import time

import train_jobs
from grid_jobs import GridCase
from jobs import alive, wait_until

NAMED = "^did not arrive in time for [123] other"  # some of them may not have said so yet
TIMEOUT = 1.5  # seconds; longer than a rank sleeps on a busy machine


class GridHangs(GridCase):
    KILLS = int(os.environ.get("CXXRUN_KILLS", "1"))
    MARGIN = GridCase.MARGIN + 400 * KILLS  # for a busy machine: a job that is too short is played again

    def setUp(self):
        super().setUp()
        self.hung = []  # ranks, in the order of their hanging
        self.took = []  # seconds until it is ended, and until its place is taken

    def nodes(self, hosts, *options, op_timeout=None):
        """Starts the trainer on so many nodes; its last arguments are how many steps, and of what the sums are."""
        def start(steps, sums, max_restarts):
            agents = []
            for host in hosts:
                where = ["--standalone"] if len(hosts) == 1 else \
                    ["--nnodes", str(len(hosts)), "--rdzv-endpoint", f"127.0.0.1:{self.port}"]
                agents.append(self.start(
                    *where, "--nproc-per-node", str(4 // len(hosts)), "--max-restarts", str(max_restarts),
                    "--restart-delay", "0", "--log-dir", self.path(f"logs{len(self.agents)}"), *options, "--no-python",
                    train_jobs.TRAIN, steps, sums,
                    env={"CXXRUN_HOST_ID": host, "CXXRUN_OP_TIMEOUT": op_timeout, "PATH": "/nonexistent"}))
                if len(agents) < len(hosts):
                    agents[0].says("waiting for nodes")
            self.logs = self.path(f"logs{len(self.agents) - len(hosts)}")
            return agents
        return start

    def hang_one(self, job, rng):
        ranks = {pid: rank for rank, pid in self.workers().items()}
        pid = rng.choice(sorted(self.known))
        self.known.discard(pid)
        self.gone.add(pid)
        self.hung.append(ranks[pid])
        began = time.monotonic()
        os.kill(pid, rng.choice((signal.SIGSTOP, signal.SIGUSR1)))
        wait_until(lambda: self.over(job) or not alive(pid), f"rank {ranks[pid]} is ended")
        ended = time.monotonic() - began
        wait_until(lambda: self.over(job) or set(self.workers().values()) - set(ranks), "its place is taken")
        self.took.append((ended, time.monotonic() - began))

    def hang(self, job, rng):
        self.hung.clear()
        for _ in range(self.KILLS):
            self.step_on(job, rng.randrange(1, self.STEPS))
            self.look(job, 4)
            generation = self.last_told()[1]
            self.hang_one(job, rng)
            self.await_generation(job, generation)
        told = [int(step) for step in re.findall(r"step (\d+) of", job.stdout)]
        self.assertEqual(told, sorted(told), "it was started over")

    def blamed(self):
        """Rank and reason of each generation that failed, as the record of the job has them."""
        for root, _, files in os.walk(self.logs):
            if "events.jsonl" in files:
                with open(os.path.join(root, "events.jsonl")) as file:
                    ends = [event for event in map(json.loads, file) if event.get("kind") == "ended" and event["failed"]]
                return [re.match(r"rank (\d+) on \S+ (.*)", event["why"]).groups() for event in ends]
        return self.fail("no events.jsonl")

    def hangs(self, start, why):
        self.play(start, self.hang)
        blamed = self.blamed()
        self.assertEqual([int(rank) for rank, _ in blamed], self.hung, blamed)
        for _, reason in blamed:
            self.assertRegex(reason, why)
        for what, took in zip(("named and ended", "its place taken"), map(sorted, zip(*self.took))):
            print(f"{what} {len(took)} times, after {took[len(took) // 2]:.3f} s, at most {took[-1]:.3f} s", flush=True)

    def test_a_rank_that_its_groups_give_up_is_named_and_the_others_keep_their_processes(self):
        self.hangs(self.nodes("a", op_timeout=str(TIMEOUT)), NAMED)

    def test_the_same_on_two_nodes(self):
        self.hangs(self.nodes("ab", op_timeout=str(TIMEOUT)), NAMED)

    def test_a_rank_that_others_wait_for_longer_than_the_hang_timeout(self):
        self.hangs(self.nodes("a", "--hang-timeout", str(TIMEOUT)), NAMED)

    def test_that_on_two_nodes(self):
        self.hangs(self.nodes("ab", "--hang-timeout", str(TIMEOUT)), NAMED)


if __name__ == "__main__":
    train_jobs.main()
