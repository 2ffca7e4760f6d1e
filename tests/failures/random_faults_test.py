"""That a job's account is held to what has happened to it. Usage: random_faults_test.py"""
import copy
import unittest

from random_faults import COUNT, Fault, chosen, wrong

PLANNED = [Fault("kill", 0, 1), Fault("node", 2, 0), Fault("hang", 1, 0)]
VERDICT = {"account": {"wall_s": 10.5, "waiting_s": 0.5, "startup_s": 1, "training_s": 3, "checkpoint_s": 1, "lost_s": 5, "stopping_s": 0},
           "history": [{"why": "rank 1 on host0: signal 9 (SIGKILL)", "lost_s": 1.5},
                       {"why": "node lost: host2", "lost_s": 2},
                       {"why": "rank 3 on host1 did not enter all_reduce #9", "lost_s": 1.5},
                       {"why": "host0 was told to end by SIGTERM", "lost_s": 0}]}


def changed(change):
    verdict = copy.deepcopy(VERDICT)
    change(verdict)
    return wrong(PLANNED, verdict)


class Account(unittest.TestCase):
    def test_one_that_adds_up_and_names_each_fault_is_right(self):
        self.assertEqual(wrong(PLANNED, VERDICT), "")

    def test_a_millisecond_that_is_missing_is_wrong(self):
        self.assertIn("accounted for", changed(lambda verdict: verdict["account"].update(training_s=2.999)))

    def test_losses_that_differ_from_those_of_the_generations_are_wrong(self):
        self.assertIn("have lost", changed(lambda verdict: verdict["history"][1].update(lost_s=2.5)))

    def test_a_fault_without_a_generation_of_its_own_is_not_named(self):
        self.assertEqual(changed(lambda verdict: verdict["history"][2].update(why="node lost: host2")),
                         "not named: hang of host1, local rank 0")
        self.assertEqual(wrong([*PLANNED, PLANNED[-1]], VERDICT), "not named: hang of host1, local rank 0")

    def test_another_host_or_another_end_is_no_name(self):
        for why in ("rank 1 on host1: signal 9 (SIGKILL)", "rank 1 on host0: signal 11 (SIGSEGV)"):
            self.assertIn("not named: kill", changed(lambda verdict: verdict["history"][0].update(why=why)))


class Plan(unittest.TestCase):
    def test_whatever_the_seed_no_plan_loses_the_first_node_or_excludes_one(self):
        for seed in range(200):
            planned = chosen(seed)
            self.assertEqual(len(planned), COUNT)
            self.assertEqual(planned, chosen(seed))
            workers = [fault.host for fault in planned if fault.kind != "node"]
            self.assertTrue(all(a != b for a, b in zip(workers, workers[1:])), seed)
            for before, fault in zip(planned, planned[1:]):
                self.assertFalse(fault.kind == before.kind == "node", seed)
                self.assertFalse(before.kind == "node" and fault.host == before.host, seed)
            self.assertNotIn(("node", 0), [(fault.kind, fault.host) for fault in planned], seed)


if __name__ == "__main__":
    unittest.main()
