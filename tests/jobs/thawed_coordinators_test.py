"""Coordinators that fall silent, or whose connections are reset: what they and others conclude and write of it, and
whether the job goes on. Usage: thawed_coordinators_test.py CXXRUN"""
import glob
import sys
import time

import jobs
from jobs import wait_until
from loss_jobs import LossCase, connections, reset, why_no_resets

T = ("--heartbeat-timeout", "2")


class Frozen(LossCase):
    """The coordinator's host is frozen for longer than the timeout: parent, agent and worker. The others go on."""

    def freeze_first(self, workers_end=()):
        """Its processes, its generation, and that of the others. `workers_end`: on which of them they do meanwhile."""
        before, workers = self.formed("abc")
        frozen = self.pids("a")
        self.stop(*frozen)
        for name in workers_end:
            self.end_worker(name, workers[name], before)
        return frozen, before, self.formed("bc", before)[0]

    def logs(self):
        return {name: ("--log-dir", self.path(name)) for name in "abc"}

    def test_whoever_takes_over_writes_how_a_generation_ended_of_which_no_worker_ran_any_more(self):
        self.start_nodes("abc", "2:3", *T, each=self.logs())
        frozen, before, after = self.freeze_first("bc")
        events = self.await_record(self.leader(after), "started", generation=after)
        ended = [event for event in events if event["kind"] == "ended" and event["generation"] == before]
        self.assertEqual([event["failed"] for event in ended], [True], events)
        self.kill(*frozen)
        self.finish("b", "c")

    def test_a_coordinator_that_is_thawed_writes_of_no_node_that_it_was_lost(self):
        self.start_nodes("abc", "2:3", *T, each=self.logs())
        frozen, _, after = self.freeze_first()
        self.go_on(*frozen)
        self.formed("abc", after)
        events = self.await_record("a", "stepped_down")
        self.assertEqual([event for event in events if event["kind"] == "ended" and "node lost" in event["why"]], [])
        self.finish(*"abc")

    def test_a_coordinator_that_is_thawed_in_a_step_of_slurm_concludes_nothing(self):
        self.start_step("abc", "2:3", *T, each=self.logs())
        frozen, _, after = self.freeze_first()
        self.go_on(*frozen)
        self.assert_concludes_nothing("a", "abc", after)
        self.finish(*"abc")

    def test_one_that_is_frozen_for_a_part_of_the_timeout_goes_on_and_so_do_all_workers(self):
        self.start_nodes("abc", "2:3", "--heartbeat-timeout", "10")
        before, workers = self.formed("abc")
        frozen = self.pids("a")
        self.stop(*frozen)
        time.sleep(3)  # that is the fault
        self.go_on(*frozen)
        self.kill(workers["b"])
        generation, _ = self.formed("abc", before)
        self.assertEqual((self.leader(generation), generation), ("a", before + 1), self.said())
        self.finish(*"abc")


class Reset(LossCase):
    """Connections are reset, as by a firewall that has forgotten them."""

    def setUp(self):
        if why := why_no_resets():
            self.skipTest(why)
        super().setUp()

    def connections_of(self, names):
        return set().union(*(connections(self.nodes[name].agent_pid()) for name in names))

    def test_a_coordinator_whose_connections_are_all_reset_concludes_nothing(self):
        self.start_step("abcd", "3:4", each={name: ("--log-dir", self.path(name)) for name in "abcd"})
        before, _ = self.formed("abcd")
        first = self.nodes["a"]
        far_away = [self.nodes[name].agent_pid() for name in "bcd"]  # it hears of the resets before they do
        self.stop(*far_away)
        reset(self.connections_of("bcd"))
        heard = ("node lost: ", "stepped down: ", "verdict: ")
        wait_until(lambda: any(text in first.stderr for text in heard), "the coordinator hears of it")
        self.go_on(*far_away)
        self.assert_concludes_nothing("a", "abcd", before)
        self.finish(*"abcd")

    def test_a_job_of_fixed_size_goes_on_though_all_of_its_connections_are_reset(self):
        self.start_nodes("abc", "3")
        before, _ = self.formed("abc")
        reset(self.connections_of("abc"))
        self.formed("abc", before)
        self.finish(*"abc")

    def test_a_job_goes_on_though_all_of_its_connections_are_reset_twice(self):
        self.start_nodes("abc", "2:3")
        generation, _ = self.formed("abc")
        for _ in range(2):
            reset(self.connections_of("abc"))
            generation, _ = self.formed("abc", generation)
        self.finish(*"abc")

    def test_a_job_goes_on_though_its_connections_are_reset_one_after_the_other(self):
        self.start_nodes("abc", "1:3")  # no generation on the way is one of MIN, which its coordinator's loss would end
        generation, _ = self.formed("abc")
        for _ in range(2):
            for one in sorted(self.connections_of("abc")):
                reset([one])
            generation, _ = self.formed("abc", generation)
        self.finish(*"abc")

    def test_a_coordinator_that_was_cut_off_from_its_own_agent_can_be_succeeded(self):
        self.start_nodes("abc", "2:3")
        before, _ = self.formed("abc")
        own = self.connections_of("a")
        reset({(near, far) for near, far in own if (far, near) in own})
        self.lose_leader("abc", before)

    def test_a_node_whose_connections_are_reset_just_before_the_end_ends_as_the_job_does(self):
        self.program = self.worker('note start "$NODE" "$WORLD_SIZE" $$ "$MASTER_ADDR"\ntest "$NODE" = c || gate go')
        self.start_step("abcd", "2:4", "--join-window", "2", *T, missing="d")  # for it the coordinator stays a while
        self.await_events(3, "start")
        last = self.nodes["c"]
        last.says("generation 1: every worker has ended")
        agent = last.agent_pid()
        self.stop(agent)
        reset(connections(agent))
        self.open_gate("go")
        self.nodes["a"].says("verdict: success")
        self.go_on(agent)
        self.assert_codes([0, 0, 0], *self.nodes.values())


class Joining(LossCase):
    def test_a_node_that_comes_with_join_while_nobody_leads_finds_whoever_is_elected(self):
        self.start_step("abc", "2:3", "--heartbeat-timeout", "8")
        before, _ = self.formed("abc")
        wait_until(lambda: glob.glob(self.path(".cxxrun/rendezvous/[!.]*")), "the file that says where the job is")
        self.lose_node("a")
        self.add("j", "--join", self.job, env={"SLURM_CLUSTER_NAME": "lab"}, start=self.start)
        self.formed("bcj", before)
        self.finish(*"bcj")

    def test_it_finds_a_coordinator_that_is_elected_for_the_second_time(self):
        self.start_step("abc", "1:4", *T)
        generation, _ = self.formed("abc")
        led = set()
        while (leader := self.leader(generation)) not in led:
            led.add(leader)
            frozen = self.pids(leader)
            self.stop(*frozen)
            generation, _ = self.formed(sorted(set("abc") - {leader}), generation)
            self.go_on(*frozen)
            generation, _ = self.formed("abc", generation)
        self.add("j", "--join", self.job, env={"SLURM_CLUSTER_NAME": "lab"}, start=self.start)
        self.nodes["j"].says("joined ")
        self.finish(*"abcj")


if __name__ == "__main__":
    sys.exit(jobs.main())
