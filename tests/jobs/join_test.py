"""Nodes that are added with --join while the job is between two coordinators. Usage: join_test.py CXXRUN"""
import json
import os
import signal
import socket
import sys
import unittest

import jobs
from attacker import VERSION, Caller
from job_succession_test import Losses
from jobs import children, read, wait_until

USAGE, LOST = 100, 113


class JoinCase(Losses):
    """A step of several agents on this machine, and agents that are added to it."""

    def environment(self, extra=None):
        return super().environment({"HOME": self.dir, "SLURM_CLUSTER_NAME": "lab", **(extra or {})})

    def step(self, nodes, *arguments, program=None):
        """The agents of step 12.0, the one that coordinates first."""
        def node(index):
            return self.start(*arguments, program or self.program, env={
                "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_NODEID": str(index), "SLURM_PROCID": str(index),
                "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": f"127.0.0.[1-{nodes}]" if nodes > 1 else "127.0.0.1",
                "SLURM_STEP_NUM_NODES": str(nodes), "SLURM_STEP_NUM_TASKS": str(nodes),
                "SLURM_STEP_TASKS_PER_NODE": f"1(x{nodes})" if nodes > 1 else "1", "SLURM_NO_KILL": "set"})
        return [node(index) for index in range(nodes)]

    def join(self, *arguments, program=None):
        return self.start("--join", "12", *arguments, program or self.program)

    @property
    def file(self):
        return self.path(".cxxrun/rendezvous/lab-12.0")

    def said(self):
        """What the file says; nothing when there is none."""
        text = read(self.file)
        return json.loads(text) if text else {}

    def write(self, text):
        os.makedirs(os.path.dirname(self.file), mode=0o700, exist_ok=True)
        with open(self.file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(text)

    def names(self, port, **more):
        """The file as a coordinator writes it that listens on this port, or has."""
        return json.dumps({"cxxrun_rendezvous": 1, "job": "12", "restarts": 0, "run_id": "12.0", "addresses": ["127.0.0.1"],
                           "port": port, "nonce": "0" * 32, "key": "", "elected": [0, 0, 0], "host": "gone", "pid": 1, **more})

    def coordinator(self, agents):
        """The agent that the file names."""
        try:
            return wait_until(lambda: next((a for a in agents if self.said().get("pid") in children(a.pid)), None),
                              "the file names one of these agents")
        except jobs.Hang as hang:
            texts = "\n".join(agent.stderr for agent in self.agents)
            raise jobs.Hang(f"{hang}\n{self.said()}\nstderr:\n{texts}") from None

    def lose_host(self, agent):
        """Every process of it at once, so that nobody tells of the others' death."""
        every = [agent.pid, agent.agent_pid()]
        for pid in every:
            self.kill(pid, signal.SIGSTOP)
        for pid in every + children(every[1]):
            self.kill(pid)

    def lose_agent(self, agent):
        """Its parent tells the others."""
        self.kill(agent.agent_pid())
        agent.wait()


class Comes(JoinCase):
    def test_while_the_coordinator_is_replaced(self):
        first, *others = self.step(3, "--nnodes", "2:3", "--heartbeat-timeout", "2")
        before, _ = self.formed(3)
        self.coordinator([first])
        self.lose_host(first)
        late = self.join()
        self.formed(3, before)
        self.release(*others, late)

    def test_and_is_asked_to_save_by_the_end_of_the_job_that_an_earlier_coordinator_has_told(self):
        program = self.worker('trap "note asked" USR1\n'
                              'note start "$WORLD_SIZE" "$GROUP_RANK" "$TORCHELASTIC_RESTART_COUNT" $$\n'
                              'while :; do sleep 1000 & wait; done', "asked")
        asks = ("--checkpoint-signal", "USR1@3600")
        first, *others = self.step(3, "--nnodes", "2:3", "--time-limit", "60", *asks, program=program)
        before, _ = self.formed(3)
        self.coordinator([first])
        self.lose_agent(first)
        self.formed(2, before)
        late = self.join(*asks, program=program)  # it does not know itself when the job ends
        generation, _ = self.formed(3, before)
        self.await_events(3, "asked", generation)
        self.coordinator(others).process.terminate()
        self.assert_codes([143] * 3, *others, late)

    def test_before_the_job_has_said_where_it_is(self):
        """There is no file yet, an empty one, half of one."""
        none = self.join()
        none.says("no such job can be joined")
        self.write("")
        empty = self.join()
        empty.says(f"{self.file} is no discovery file of cxxrun")
        self.write(self.names(1)[:100])
        half = self.join()
        half.says(f"{self.file} is no discovery file of cxxrun")
        late = [none, empty, half]
        for each in late:
            self.assertRegex(each.stderr, r"^cxxrun: --join 12: no such job .*; looking again for 30 s\n$")
        agents = self.step(1, "--nnodes", "1:4") + late
        self.await_all_in(4)
        self.release(*agents)

    def await_all_in(self, most):
        """Each runs, or waits as a spare: nodes that come later than 2 s after the first wait for a minute."""
        wait_until(lambda: all("joined 12.0" in agent.stderr for agent in self.agents if "--join" in agent.process.args),
                   "all have joined")

    def test_while_the_file_names_a_port_where_nobody_says_a_word(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.write(self.names(silent.getsockname()[1]))
            late = self.join()
            silent.accept()[0].recv(1)  # it has greeted
            agents = self.step(1, "--nnodes", "1:2")
            self.formed(2)
        self.release(*agents, late)

    def test_while_the_file_names_a_port_where_nobody_listens(self):
        self.write(self.names(jobs.free_port()))
        late = self.join()
        late.says("which is read again each second; for 30 s in all")
        agents = self.step(1, "--nnodes", "1:2")
        self.formed(2)
        self.release(*agents, late)
        self.assertEqual(late.stderr.count("read again"), 1)

    def test_while_the_file_names_one_who_coordinates_no_more(self):
        """It lets nobody in, or closes the connection of one that it has let in."""
        for answer in ({"answer": "other_job", "refused": "another agent coordinates 12.0"},
                       {"answer": "accepted", "refused": "", "terms": TERMS}):
            with self.subTest(answer["answer"]), socket.create_server(("127.0.0.1", 0)) as door:
                self.write(self.names(door.getsockname()[1]))
                late = self.join("--auth", "none")
                with Caller(None, door.accept()[0]) as caller:
                    caller.hear()
                    caller.send({"hello": "cxxrun", "version": VERSION, "coordinator": "0" * 32, "run_id": "12.0", **answer})
                    caller.hear()
                agents = self.step(1, "--nnodes", "1:2", "--auth", "none")
                self.formed(2, max((event[0] for event in self.events()), default=0))
            self.release(*agents, late)
            for name in ("events", "go"):
                os.remove(self.path(name))
            self.make_gate("go")

    def test_to_a_coordinator_of_another_version_and_ends_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.write(self.names(door.getsockname()[1]))
            late = self.join("--auth", "none", "--rdzv-conf", "join_timeout=600")
            with Caller(None, door.accept()[0]) as caller:
                caller.hear()
                caller.send({"hello": "cxxrun", "version": VERSION + 1, "coordinator": "0" * 32, "answer": "other_version",
                             "refused": "this coordinator speaks another version"})
                self.assertEqual(late.wait(), USAGE, late.stderr)
        self.assertIn("this coordinator speaks another version", late.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root gives files away")
    def test_and_never_calls_whom_another_users_file_names(self):
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.write(self.names(door.getsockname()[1]))
            os.chown(self.file, 65534, 65534)
            late = self.join("--rdzv-conf", "join_timeout=2")
            self.assertEqual(late.wait(), LOST)
            self.assertIn(f"{self.file} can be accessed by other users", late.stderr)
            door.setblocking(False)
            self.assertRaises(BlockingIOError, door.accept)


class Announced(JoinCase):
    """The file says who coordinates."""

    def test_who_is_elected_says_so_before_any_workers_start(self):
        """The generation cannot start as long as the health check of its nodes waits."""
        check = self.worker('[ ! -e "$DIR/wait" ] || gate healthy', name="check")
        first, *others = self.step(3, "--nnodes", "2:3", "--health-check", check)
        before, _ = self.formed(3)
        self.coordinator([first])
        self.assertEqual(self.said()["elected"], [0, 0, 0])
        self.make_file("wait")
        self.lose_agent(first)
        next_one = self.coordinator(others)
        generation, round_, rank = self.said()["elected"]
        self.assertEqual((generation, rank), (before, others.index(next_one) + 1))
        self.assertGreaterEqual(round_, 2)
        self.assertEqual({event[0] for event in self.events("start")}, {before})
        self.open_gate("healthy")
        self.formed(2, before)
        self.release(*others)
        self.assertFalse(os.path.exists(self.file))

    def test_a_file_that_cannot_be_written_any_more_is_one_warning_and_the_job_goes_on(self):
        first, *others = self.step(3, "--nnodes", "1:3")
        before, _ = self.formed(3)
        self.coordinator([first])
        directory = os.path.dirname(self.file)
        os.rename(directory, directory + "-gone")
        open(directory, "w").close()
        self.lose_agent(first)
        generation, workers = self.formed(2, before)
        self.kill(workers[1])  # the next generation is one more occasion to write it
        self.formed(2, generation)
        self.release(*others)
        said = "".join(agent.stderr for agent in others)
        self.assertEqual(said.count(f"no node can be added with --join: cannot write {self.file}"), 1, said)


class TakesOver(JoinCase):
    """The first nodes of the job are lost one after the other."""

    def only_added_ones_left(self, count, *arguments):
        """Returns the one of those that were added that coordinates, and the others."""
        firsts = self.step(2, "--nnodes", f"1:{2 + count}", "--heartbeat-timeout", "2", *arguments)
        self.formed(2)
        self.coordinator(firsts)
        added = [self.join() for _ in range(count)]
        for each in added:
            each.says("joined 12.0")
        wait_until(lambda: any(int(event[3]) > 2 for event in self.events("start")), "one of them is a member")
        left = firsts + added
        for lost in firsts:
            self.assertIs(self.coordinator(left), lost)
            left = self.left_without(lost, left)
        leader = self.coordinator(left)
        return leader, [each for each in left if each is not leader]

    def left_without(self, lost, agents):
        """Loses one that coordinates; the others, once they all run under another one."""
        left = [agent for agent in agents if agent is not lost]
        self.lose_agent(lost)
        self.coordinator(left)
        self.formed(len(left), self.said()["elected"][0])
        return left

    def test_a_node_that_was_added(self):
        leader, others = self.only_added_ones_left(3)
        self.assertEqual((self.said()["job"], self.said()["run_id"]), ("12", "12.0"))
        self.left_without(leader, others)
        late = self.join()
        self.formed(3, self.said()["elected"][0])
        self.release(*others, late)
        self.assertFalse(os.path.exists(self.file))

    def test_the_last_of_two_that_were_added_by_the_fence_of_which_the_job_told_it(self):
        leader, (last,) = self.only_added_ones_left(2, "--fence", self.dir)
        self.left_without(leader, [last])
        self.release(last)


TERMS = {"min_nodes": 1, "max_nodes": 2, "max_restarts": 3, "max_restarts_given": False, "join_window_ms": 5000,
         "rejoin_window_ms": 5000, "join_timeout_ms": 600000, "ack_timeout_ms": 30000, "heartbeat_timeout_ms": 5000,
         "stop_timeout_ms": 120000, "agent_store": True, "master_port": 0, "scale_out_now": True, "restart_window_ms": 0,
         "restart_delay_ms": 30000, "hang_timeout_ms": 0, "store_access": "user", "tie": "rank", "fence_dir": ""}

if __name__ == "__main__":
    sys.exit(jobs.main())
