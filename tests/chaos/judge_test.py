"""Each rule of the judge, on evidence that is made up: it passes a run as it should be, and fails one that is wrong in
one thing. Usage: judge_test.py"""
import collections
import dataclasses
import random
import unittest

import hosts  # noqa: F401 (its folders are in the path from here on)
import judge
import mix
import strikes
import tables
from story import Event, Evidence, Fate, Fault, Step, parse_event, parse_steps

BOUNDS = judge.Bounds()


def state(step):
    value = 1
    for each in range(step):
        value = (value * judge.MULTIPLIER + each + 1) & judge.MASK
    return value


def steps(generation, first, last, at, ranks=("n0001", "n0002")):
    """Ten a second, from `at` on."""
    return [Step(host, generation, rank, len(ranks), step, at + (step - first) / 10, state(step))
            for step in range(first, last + 1) for rank, host in enumerate(ranks)]


def event(at, kind, by="n0001", **fields):
    return Event(by, at, kind, fields)


def right():
    """Generation 1 trains until the worker of n0002 is killed, generation 2 until its host vanishes, generation 3 to
    the end, with a joiner on n0003; n0004 came, and is a spare."""
    return Evidence(
        steps=steps(1, 1, 60, 1.0) + steps(2, 61, 100, 7.0) + steps(3, 101, 120, 16.1, ("n0001", "n0003")),
        events=[event(1.0, "started", generation=1),
                event(6.96, "worker_failed", host="n0002", rank=1, how="signal 9 (SIGKILL)"),
                event(6.98, "started", generation=2), event(16.0, "node_lost", host="n0002", how="silent for 5 s"),
                event(16.0, "ended", generation=2, why="node lost: n0002"), event(16.05, "started", generation=3)],
        faults=[Fault(1, "worker-killed", "", "n0002", 6.95, 1), Fault(2, "host-vanishes", "", "n0002", 10.95, 2)],
        fates=[Fate("n0001", False, 0.0, 0, samples=((1.0, 7000, 40), (18.0, 7400, 44))), Fate("n0002", False, 0.0),
               Fate("n0003", True, 12.0, 0, "info: joined 4711.0 on n0001\n"),
               Fate("n0004", True, 12.0, 0, "info: joined 4711.0 on n0001\n")],
        verdict={"verdict": "success", "summary": "all workers finished",
                 "account": {"wall_s": 19.0, "training_s": 11.7, "checkpoint_s": 0.1, "lost_s": 5.3}},
        began=0.0, finished=18.0, ended=19.0)


class Rules(unittest.TestCase):
    def broken(self, rule, words, **changes):
        """The evidence with other fields is wrong by that rule, and the line says so."""
        evidence = dataclasses.replace(right(), **changes)
        self.assertRegex("\n".join(rule(evidence, BOUNDS)), words)

    def faults(self, **changes):
        """Those of right(), the last one changed."""
        *others, last = right().faults
        return [*others, dataclasses.replace(last, **changes)]

    def fates(self, host, **changes):
        return [dataclasses.replace(fate, **changes) if fate.host == host else fate for fate in right().fates]

    def without(self, *kinds):
        return [each for each in right().events if each.kind not in kinds]

    def test_a_run_as_it_should_be_is_right(self):
        self.assertEqual(judge.judge(right(), BOUNDS), [])

    def test_a_step_of_an_older_generation_after_the_first_of_a_newer(self):
        late = Step("n0002", 1, 1, 2, 61, 7.2, state(61))
        self.broken(judge.one_generation_at_a_time, "step 61 of generation 1 on n0002 .* generation 2",
                    steps=[*right().steps, late])

    def test_a_thawed_host_may_write_down_its_last_step_and_no_later_one(self):
        evidence = right()
        evidence.faults.append(Fault(3, "frozen-long", "", "n0002", 6.0, 1, until=7.1))
        evidence.steps.append(Step("n0002", 1, 1, 2, 61, 7.2, state(61)))
        self.assertEqual([*judge.one_generation_at_a_time(evidence)], [])
        evidence.steps.append(Step("n0002", 1, 1, 2, 62, 8.3, state(62)))
        self.assertEqual(len([*judge.one_generation_at_a_time(evidence)]), 1)

    def test_steps_that_are_repeated_although_nothing_was_done(self):
        self.broken(judge.steps_go_on, "repeats steps 60 to 60", faults=[],
                    steps=steps(1, 1, 60, 1.0) + steps(2, 60, 70, 7.0))

    def test_steps_that_go_on_after_one_that_was_not_saved(self):
        self.broken(judge.steps_go_on, "begins with step 58 after step 60: that was not saved",
                    steps=steps(1, 1, 60, 1.0) + steps(2, 58, 70, 7.0))

    def test_steps_that_go_on_after_one_that_was_saved_are_right(self):
        saved = steps(1, 1, 60, 1.0) + steps(2, 51, 70, 7.0) + steps(3, 71, 80, 16.0)
        evidence = dataclasses.replace(right(), steps=saved)
        self.assertEqual([*judge.steps_go_on(evidence, BOUNDS)], [])

    def test_a_step_that_nobody_has_done(self):
        self.broken(judge.steps_go_on, "begins with step 62, and step 61 was done by nobody",
                    steps=steps(1, 1, 60, 1.0) + steps(2, 62, 70, 7.0))

    def test_a_rank_that_does_a_step_twice(self):
        twice = right().steps + [Step("n0003", 3, 1, 2, 120, 18.05, state(120))]
        self.broken(judge.steps_go_on, "rank 1 of generation 3 did not do each step once", steps=twice)

    def test_a_wrong_state(self):
        wrong = [*right().steps[:-1], dataclasses.replace(right().steps[-1], state=5)]
        self.broken(judge.states_are_right, "after step 120 of generation 3 the state on n0003 is 5", steps=wrong)

    def test_a_rank_on_two_hosts(self):
        self.broken(judge.ranks_are_whole, "rank 1 of generation 3 was",
                    steps=[*right().steps, Step("n0004", 3, 1, 2, 121, 18.2, state(121))])

    def test_two_worlds_in_one_generation(self):
        self.broken(judge.ranks_are_whole, r"generation 3 had worlds of \[2, 3\]",
                    steps=[*right().steps, Step("n0004", 3, 2, 3, 121, 18.2, state(121))])

    def test_a_generation_without_steps(self):
        self.broken(judge.each_generation_steps, "generation 4, started by n0001, did no step",
                    events=[*right().events, event(30.0, "started", generation=4)])

    def test_a_generation_without_steps_because_a_host_was_struck_is_right(self):
        evidence = right()
        evidence.events.append(event(30.0, "started", generation=4))
        evidence.faults.append(Fault(3, "agent-killed", "", "n0001", 30.1, 3))
        self.assertEqual([*judge.each_generation_steps(evidence)], [])

    def test_a_job_that_goes_on_too_late(self):
        late = {"faults": [Fault(2, "host-vanishes", "", "n0002", 0.95, 2)],
                "steps": steps(1, 1, 5, 0.1) + steps(2, 6, 20, 16.1)}
        self.broken(judge.it_goes_on_in_time, r"#2 host-vanishes of n0002 it took 15.15 s .* not 10 s", **late)
        self.broken(judge.it_goes_on_in_time, r"#2 agent-killed of n0002 it took 5.15 s .* not 4 s",
                    faults=self.faults(kind="agent-killed"))
        self.broken(judge.it_goes_on_in_time, r"#2 host-at-once of n0002, which coordinated, it took .* not 4 s",
                    faults=self.faults(kind="host-at-once", coordinated=True))

    def test_the_loss_of_a_whole_member_may_take_until_its_lease_ends(self):
        evidence = dataclasses.replace(right(), faults=self.faults(kind="host-at-once"))
        self.assertEqual([*judge.it_goes_on_in_time(evidence, BOUNDS)], [])

    def test_a_job_that_does_not_go_on(self):
        self.broken(judge.it_goes_on_in_time, "after #2 .* no generation trained any more", faults=self.faults(at=17.0))

    def test_the_time_counts_from_the_last_of_several_faults(self):
        third = Fault(3, "agent-killed", "", "n0001", 15.9, 2, True)
        evidence = dataclasses.replace(right(), faults=[*right().faults, third])
        found = {fault.number: seconds for fault, seconds in judge.recoveries(evidence)}
        self.assertEqual(sorted(found), [1, 3])
        self.assertAlmostEqual(found[3], 0.2)

    def test_a_fault_of_which_no_generation_comes_is_no_recovery(self):
        evidence = dataclasses.replace(right(), faults=self.faults(expects=False, kind="lossy"))
        self.assertEqual([fault.number for fault, _ in judge.recoveries(evidence)], [1])

    def test_a_loss_that_no_record_names(self):
        self.broken(judge.every_fault_is_named, "#2 host-vanishes of n0002 is named",
                    events=self.without("node_lost", "ended"))

    def test_a_failure_that_no_record_names_as_it_was(self):
        wrong = event(6.96, "worker_failed", host="n0002", how="exit code 1")
        self.broken(judge.every_fault_is_named, "#1 worker-killed", events=[*self.without("worker_failed"), wrong])

    def test_a_name_that_comes_too_late(self):
        late = event(60.0, "node_lost", host="n0002", how="silent")
        self.broken(judge.every_fault_is_named, "#2 ", events=[*self.without("node_lost", "ended"), late])

    def test_a_coordinator_is_named_in_what_its_successor_knows(self):
        told = event(16.0, "took_over", "n0003", history=[{"why": "node lost: n0002"}])
        evidence = dataclasses.replace(right(), events=[*self.without("node_lost", "ended"), told])
        self.assertEqual([*judge.every_fault_is_named(evidence)], [])

    def test_somebody_who_is_lost_falsely(self):
        for wrong in (event(16.0, "node_lost", host="n0003", how="silent"),
                      event(16.0, "ended", why="node lost: n0002, n0003")):
            self.broken(judge.nobody_is_lost_falsely, "n0003 as lost", events=[*right().events, wrong])

    def test_who_is_cut_off_himself_may_call_others_lost(self):
        lost = event(17.0, "node_lost", host="n0003", how="silent")
        for kind, lines in (("cut-long", 0), ("reset", 0), ("frozen-long", 1)):
            fault = Fault(3, kind, "", "n0001", 16.2, 3, True, until=18.2)
            evidence = dataclasses.replace(right(), faults=[*right().faults, fault], events=[*right().events, lost])
            self.assertEqual(len([*judge.nobody_is_lost_falsely(evidence)]), lines, kind)

    def test_who_leaves_a_successor_for_a_moment_when_the_coordinator_is_reset(self):
        lost = event(17.0, "node_lost", host="n0003", how="end of file")
        lost, back = (dataclasses.replace(each, by="n0002") for each in (lost, event(17.1, "node_joined", host="n0003")))
        next_one = dataclasses.replace(back, by="n0004")
        for kind, after, lines in (("reset", [back], 0), ("reset", [next_one], 0), ("reset", [], 1), ("frozen-long", [back], 1)):
            fault = Fault(3, kind, "", "n0001", 16.2, 3, True, until=18.2)
            evidence = dataclasses.replace(right(), faults=[*right().faults, fault],
                                           events=[*right().events, lost, *after])
            self.assertEqual(len([*judge.nobody_is_lost_falsely(evidence)]), lines, (kind, after))

    def test_who_was_lost_because_he_was_cut_off_is_not_lost_long_after_that(self):
        cut = Fault(3, "cut-short", "", "n0003", 16.2, 3, until=18.2)
        for at, lines in ((18.0, 0), (30.0, 0), (60.0, 1)):
            evidence = dataclasses.replace(right(), faults=[*right().faults, cut],
                                           events=[*right().events, event(at, "node_lost", host="n0003", how="silent")])
            self.assertEqual(len([*judge.nobody_is_lost_falsely(evidence)]), lines)

    def test_a_joiner_that_is_refused(self):
        self.broken(judge.everybody_gets_in, "n0004 came with --join and ended with 113: error: nobody there",
                    fates=self.fates("n0004", code=113, said="error: nobody there\n"))

    def test_a_joiner_that_waits_for_ever(self):
        self.broken(judge.everybody_gets_in, "n0004 came with --join and waits",
                    fates=self.fates("n0004", code=None, said=""))

    def test_a_cxxrun_that_ends_although_nothing_was_done_to_it(self):
        self.broken(judge.nobody_ends, "n0001 ended with 116: partitioned",
                    fates=self.fates("n0001", code=116, said="partitioned\n"))
        self.broken(judge.nobody_ends, "n0001 did not end", fates=self.fates("n0001", code=None))

    def test_a_job_that_fails(self):
        self.broken(judge.the_job_succeeds, "the verdict is too few nodes: 1 left",
                    verdict={"verdict": "too few nodes", "summary": "1 left"})
        self.broken(judge.the_job_succeeds, "the verdict is None", verdict=None)
        self.broken(judge.the_job_succeeds, "n0002 concluded before the end: too few nodes",
                    events=[*right().events, event(12.0, "verdict", "n0002", verdict="too few nodes", summary="")])
        self.broken(judge.the_job_succeeds, "not within 60 s", stuck="not within 60 s: something")

    def test_a_process_that_is_left(self):
        self.broken(judge.nothing_is_left, "on n0002, .*: chaos_worker",
                    fates=self.fates("n0002", left=("chaos_worker",)))

    def test_an_account_that_is_not_that_of_a_stopwatch(self):
        for part, told, words in (("training_s", 17.0, "17.1 s for training, a stopwatch 11.7 s"),
                                  ("wall_s", 12.0, "12.0 s for the whole, a stopwatch 19.0 s"),
                                  ("lost_s", 0.0, "0.0 s for lost, a stopwatch 5.3 s")):
            verdict = right().verdict
            verdict["account"][part] = told
            self.broken(judge.the_account_is_that_of_a_stopwatch, words, verdict=verdict)

    def test_an_agent_that_grows(self):
        for last, words in (((18.0, 27000, 40), "n0001 grew"), ((18.0, 7000, 500), "had 500 descriptors")):
            self.broken(judge.agents_do_not_grow, words, fates=self.fates("n0001", samples=((1.0, 7000, 40), last)))

    def test_every_rule_is_applied_and_says_no_more_than_a_few_lines(self):
        evidence = dataclasses.replace(right(), fates=[Fate(f"n{i:04}", False, 0.0, 1) for i in range(9)])
        more = [line for line in judge.judge(evidence, BOUNDS) if "more like this" in line]
        self.assertEqual(more, ["… and 4 more like this"])


class Reading(unittest.TestCase):
    def test_what_a_worker_writes_is_a_step(self):
        [step] = parse_steps("n0001", ["3 1 8 120 1340201991351 ff"])
        self.assertEqual(step, Step("n0001", 3, 1, 8, 120, 1340.201991351, 255))

    def test_what_a_coordinator_writes_is_an_event(self):
        line = '{"time":"1970-01-01T00:01:00.500Z","at_s":1.0,"kind":"formed","generation":2}'
        found = parse_event("n0001", line, 40.0)
        self.assertEqual((found.by, found.kind, found.at, found.get("generation")), ("n0001", "formed", 100.5, 2))


class Mix(unittest.TestCase):
    def test_the_counts_are_those_of_419_interruptions(self):
        self.assertEqual(sum(cause.count for cause in mix.LLAMA_3), 419)

    def test_all_kinds_are_drawn_and_known(self):
        self.assertEqual({kind for cause in mix.LLAMA_3 for kind in cause.kinds}, set(strikes.KINDS))

    def test_what_is_drawn_is_as_likely_as_in_the_table(self):
        rng = random.Random(7)
        drawn = collections.Counter(mix.draw(rng)[0] for _ in range(20000))
        for cause in mix.LLAMA_3:
            self.assertAlmostEqual(drawn[cause.name] / 20000, cause.count / 419, delta=0.015)

    def test_the_same_seed_draws_the_same(self):
        first, second = random.Random(7), random.Random(7)
        self.assertEqual([mix.draw(first) for _ in range(50)], [mix.draw(second) for _ in range(50)])


class Tables(unittest.TestCase):
    def test_the_table_has_each_kind_with_its_median_and_worst(self):
        text = tables.report(right())
        self.assertIn("| host-vanishes | no | 1 | 5.15 | 5.15 | 0 |", text)
        self.assertIn("| joiners | 2: 1 seated, 1 spare |", text)
        self.assertIn("| training: account, stopwatch | 11.8 s, 11.7 s |", text)


if __name__ == "__main__":
    unittest.main()
