"""An agent of a Slurm step that takes no part ends the wait of the others at once, with the cause on every node; jobs of
one node need no meeting. Usage: refusals_test.py CXXRUN"""
import resource

import jobs

USAGE, SYSTEM, TOO_FEW = 100, 111, 112
PROMPT = 30  # seconds: the guard; without a word of the refused agent the others wait for 600


class Refusals(jobs.JobCase):
    def node(self, index, nodes, *options, job="12", **more):
        return self.start("--auth", "none", *options, "true", **more, env={
            "SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_NODEID": str(index), "SLURM_PROCID": str(index),
            "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": f"127.0.0.[1-{nodes}]", "SLURM_STEP_NUM_NODES": str(nodes),
            "SLURM_STEP_NUM_TASKS": str(nodes), "SLURM_STEP_TASKS_PER_NODE": f"1(x{nodes})"})

    def step(self, *each):
        """An agent for each list of options."""
        return [self.node(index, len(each), *options) for index, options in enumerate(each)]

    def assert_all_end(self, codes, cause, agents):
        self.assertEqual([agent.wait(PROMPT) for agent in agents], codes, "\n".join(agent.stderr for agent in agents))
        for agent in agents:
            self.assertIn(cause, agent.stderr)

    def test_one_that_refuses_itself_ends_all(self):
        for bad, cause in ((["--max-restarts", "x"], "--max-restarts"), (["--node-rank", "7"], "--node-rank 7 contradicts"),
                           (["--log-dir", "/proc/nowhere"], "cannot create the log directory")):
            code = SYSTEM if bad[0] == "--log-dir" else USAGE
            with self.subTest(bad=bad):
                self.assert_all_end([TOO_FEW, code, TOO_FEW], cause, self.step([], bad, []))
                self.assert_all_end([code, TOO_FEW, TOO_FEW], cause, self.step(bad, [], []))  # the coordinator itself
                self.assert_all_end([code] * 3, cause, self.step(bad, bad, bad))

    def test_one_whose_limits_are_too_low_ends_all(self):
        little = dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10)))
        for codes in [SYSTEM, TOO_FEW], [TOO_FEW, SYSTEM]:
            agents = [self.node(index, 2, **(little if code == SYSTEM else {})) for index, code in enumerate(codes)]
            self.assert_all_end(codes, "the limit is 64 KiB of stack (ulimit -s)", agents)

    def test_one_that_the_coordinator_refuses_ends_all(self):
        self.assert_all_end([TOO_FEW, USAGE], "--heartbeat-timeout is 5 s in this run but 7 s here",
                            self.step([], ["--heartbeat-timeout", "7"]))

    def test_ids_that_each_node_makes_up_end_all(self):
        self.assert_all_end([TOO_FEW, USAGE], "--rdzv-id is 8 here, and 7 where the nodes of this step meet",
                            self.step(["--rdzv-id", "7"], ["--rdzv-id", "8"]))
        self.assert_all_end([TOO_FEW] * 2, "--rdzv-id is 8 here, and not given where", self.step([], ["--rdzv-id", "8"]))
        self.assert_all_end([USAGE, TOO_FEW], "unknown option --nosuch",
                            self.step(["--rdzv-id", "7", "--nosuch"], ["--rdzv-id", "7"]))

    def test_an_address_that_no_node_of_the_step_has_ends_all(self):
        for flag in "--rdzv-endpoint", "--master-addr":
            there = [flag, "203.0.113.9" + (f":{self.port}" if flag == "--rdzv-endpoint" else "")]  # RFC 5737: nobody's
            self.assert_all_end([USAGE, TOO_FEW, TOO_FEW], f"{flag} 203.0.113.9 is an address of no node of the Slurm step",
                                self.step([*there, "--rdzv-conf", "join_timeout=1"], there, there))

    def test_two_jobs_of_one_node_with_one_recipe_both_run(self):
        for name, more in ("none", []), ("same", ["--rdzv-id", "100"]):
            with self.subTest(id=name):
                self.make_gate(name)
                recipe = ["--auth", "none", "--nnodes", "1", "--rdzv-backend", "c10d", *more, "--rdzv-endpoint",
                          f"localhost:{self.port}", self.worker(f"gate {name}", "waits-" + name)]
                first = self.start(*recipe)
                first.says("generation 1 runs")
                second = self.start(*recipe)
                second.says("generation 1 runs")
                self.open_gate(name)
                self.assert_codes([0, 0], first, second)


if __name__ == "__main__":
    jobs.main()
