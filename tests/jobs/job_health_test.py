"""Jobs with --health-check: passing, failing on one node or on all, hanging, again before a restart, killed.
Usage: job_health_test.py CXXRUN"""
import glob
import signal

import jobs
from jobs import JobCase, read


class Health(JobCase):
    """A check tells `check` with its generation; workers tell `start`."""

    NOTE = 'echo "$CXXRUN_GENERATION 0 check $CXXRUN_HOST $CXXRUN_RUN_ID $LOCAL_WORLD_SIZE" >> "$DIR/events"; '

    def setUp(self):
        super().setUp()
        self.program = self.worker("note start $WORLD_SIZE")

    def two(self, check, *arguments, nnodes="1:2"):
        """Two agents, `a` which hosts and `b`; the check knows them by the variable NODE."""
        options = ("--rdzv-conf", "last_call_timeout=60", "--health-check", self.NOTE + check, *arguments)
        first = self.start_node(*options, self.program, nnodes=nnodes, env={"NODE": "a"})
        first.says("waiting for")
        return first, self.start_node(*options, self.program, nnodes=nnodes, env={"NODE": "b"})

    def test_a_check_that_passes_runs_before_the_workers_with_its_variables(self):
        agent = self.run_job("--nproc-per-node", "2", "--rdzv-id", "job7", "--health-check", self.NOTE + "echo all well",
                             self.program, code=0)
        words = [event[2] for event in self.events()]
        self.assertEqual(words, ["check", "start", "start"])
        _, _, _, host, run_id, local = self.events("check")[0]
        self.assertEqual((run_id, local), ("job7", "2"))
        self.assertIn(f"[{host}:health] all well", agent.stderr)

    def test_its_output_is_kept_with_the_logs(self):
        self.run_job("--log-dir", self.path("logs"), "--health-check", "echo out; echo err >&2", self.program)
        [file] = glob.glob(self.path("logs/*/attempt_1/health.log"))
        self.assertEqual(read(file), "out\nerr\n")

    def test_a_node_that_fails_is_excluded_and_the_other_one_goes_on(self):
        first, second = self.two('test $NODE = a || { echo "GPU 3 is gone"; exit 9; }', "--log-dir", self.path("logs"),
                                 "--rdzv-conf", "last_call_timeout=1")
        self.assert_codes([0, 0], first, second)
        self.assertIn("excluded", first.stderr)
        self.assertIn("health check: exit code 9: GPU 3 is gone", first.stderr)
        self.assertIn(":health] GPU 3 is gone", second.stderr)
        self.assertEqual([event[3] for event in self.events("start")], ["1"])
        self.assertEqual(len(self.events("check")), 2)  # the passed check of the first attempt counts
        self.assertIn("GPU 3 is gone", self.verdict()["excluded"][0])

    def test_the_host_of_the_rendezvous_may_be_the_one_excluded(self):
        first, second = self.two("test $NODE = b", "--rdzv-conf", "last_call_timeout=1")
        self.assert_codes([0, 0], first, second)
        self.assertEqual([event[3] for event in self.events("start")], ["1"])

    def test_an_excluded_node_stays_until_the_end_and_leaves_with_the_code_of_the_job(self):
        self.program = self.worker("note start\ngate go\nexit 7")
        first, second = self.two("test $NODE = a", "--rdzv-conf", "last_call_timeout=1", "--max-restarts", "0")
        self.await_events(1, "start")
        self.assertIsNone(second.process.poll())
        self.open_gate("go")
        self.assert_codes([7, 7], first, second)

    def test_an_excluded_node_that_is_told_to_end_disturbs_nobody_unless_it_hosts(self):
        self.program = self.worker("note start\ngate go")
        first, second = self.two("test $NODE = a", "--rdzv-conf", "last_call_timeout=1")
        self.await_events(1, "start")
        second.process.terminate()
        self.assertEqual(second.wait(), 143, second.stderr)
        self.release(first)

    def test_the_host_that_was_excluded_ends_the_job_when_it_is_told_to_end(self):
        self.program = self.worker("note start\ngate go")
        first, second = self.two("test $NODE = b", "--rdzv-conf", "last_call_timeout=1")
        self.await_events(1, "start")
        first.process.terminate()
        self.assert_codes([143, 143], first, second)

    def test_a_fixed_size_that_loses_a_node_to_its_check_ends_at_once(self):
        first, second = self.two("test $NODE = a", nnodes="2")
        self.assert_codes([112, 112], first, second)
        self.assertIn("too few nodes", first.stderr)
        self.assertIn("health check: exit code 1", first.stderr)
        self.assertEqual(self.events("start"), [])

    def test_all_nodes_fail(self):
        first, second = self.two("kill -SEGV $$", "--rdzv-conf", "last_call_timeout=1")
        self.assert_codes([112, 112], first, second)
        self.assertIn("health check: signal 11 (SIGSEGV)", first.stderr)
        self.assertEqual(self.events("start"), [])

    def test_a_check_that_hangs_is_killed_with_everything_it_started(self):
        agent = self.run_job("--health-check", "echo waiting for the GPU; sleep 1000 & setsid sleep 1000 & wait",
                             "--health-check-timeout", "0.5", self.program, code=112)
        self.assertIn("health check: still ran after 0.5 s: waiting for the GPU", agent.stderr)
        self.assertEqual(self.events("start"), [])

    def test_it_runs_again_before_each_restart(self):
        self.program = self.worker("note start\nexit 3")
        self.run_job("--max-restarts", "2", "--health-check", self.NOTE, self.program, code=3)
        self.assertEqual([event[:3:2] for event in self.events()],
                         [(g, word) for g in (1, 2, 3) for word in ("check", "start")])

    def test_a_node_that_fails_before_a_restart_does_not_start_again(self):
        self.program = self.worker("note start\nexit 3")
        agent = self.run_job("--health-check", self.NOTE + "test $CXXRUN_GENERATION = 1", self.program, code=112)
        self.assertIn("excluded", agent.stderr)
        self.assertEqual(len(self.events("start")), 1)

    def test_a_job_that_is_told_to_end_while_it_checks_leaves_nothing(self):
        first, second = self.two("trap '' TERM; sleep 1000", nnodes="2")
        self.await_events(2, "check")
        first.process.send_signal(signal.SIGTERM)
        self.assert_codes([143, 143], first, second)

    def test_a_killed_agent_takes_its_check_with_it(self):
        agent = self.start("--health-check", self.NOTE + "setsid sleep 1000", self.program)
        self.await_events(1, "check")
        agent.process.kill()
        agent.wait()  # tearDown finds what is left over

    def test_a_check_that_leaves_a_process_behind_passes_without_it(self):
        self.run_job("--health-check", "setsid sleep 1000 & true", self.program, code=0)


if __name__ == "__main__":
    jobs.main()
