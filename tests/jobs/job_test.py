"""Whole jobs with the real program: ranks, restarts, causes, exit codes. Usage: job_test.py CXXRUN"""
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jobs
from jobs import JobCase, count_reports, wait_until

HOST = socket.gethostname().split(".")[0]
NOT_FATAL = {signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
             signal.SIGURG, signal.SIGWINCH}


def each(function, items):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(function, items))


class OneNode(JobCase):
    def environments(self, *arguments, env=None):
        """The environment of each worker of a job that runs `env`."""
        program = self.worker('env > "$DIR/env.$RANK"')
        self.run_job(*arguments, program, env=env, code=0)
        ranks = sorted(int(name[4:]) for name in os.listdir(self.dir) if name.startswith("env."))
        result = [dict(line.split("=", 1) for line in jobs.read(self.path(f"env.{rank}")).splitlines() if "=" in line)
                  for rank in ranks]
        for rank in ranks:
            os.unlink(self.path(f"env.{rank}"))
        return result

    def test_each_worker_gets_the_environment_that_torchrun_sets(self):
        workers = self.environments("--standalone", "--nproc-per-node", "3", "--max-restarts", "7", "--role", "actor")
        self.assertEqual(len(workers), 3)
        for rank, env in enumerate(workers):
            expected = {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3",
                "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "actor", "ROLE_RANK": str(rank),
                "ROLE_WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RESTART_COUNT": "0",
                "TORCHELASTIC_MAX_RESTARTS": "7", "TORCHELASTIC_USE_AGENT_STORE": "True",
                "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "CXXRUN_GENERATION": "1", "CXXRUN_HOST": HOST,
                "CXXRUN_STORE_ADDR": "127.0.0.1"}
            self.assertEqual({name: env.get(name) for name in expected}, expected)
            self.assertGreater(int(env["MASTER_PORT"]), 0)
            self.assertEqual(env["CXXRUN_STORE_PORT"], env["MASTER_PORT"])
            self.assertGreater(int(env["OMP_NUM_THREADS"]), 0)
            self.assertTrue(env["TORCHELASTIC_ERROR_FILE"].endswith(f"/attempt_1/{rank}/error.json"))
            self.assertTrue(env["TORCHELASTIC_RUN_ID"])
            self.assertEqual(env["CXXRUN_RUN_ID"], env["TORCHELASTIC_RUN_ID"])
        for name in ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS"):
            self.assertEqual(len({env[name] for env in workers}), 1, name)

    def test_what_the_user_has_set_in_the_environment_stays(self):
        [env] = self.environments("--standalone", env={"OMP_NUM_THREADS": "5", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
                                                       "EMPTY": "", "RANK": "17", "WORLD_SIZE": "18"})
        self.assertEqual((env["OMP_NUM_THREADS"], env["TORCH_NCCL_ASYNC_ERROR_HANDLING"], env["EMPTY"]), ("5", "3", ""))
        self.assertEqual((env["RANK"], env["WORLD_SIZE"]), ("0", "1"))

    def test_without_any_flag_one_worker_runs(self):
        self.assertEqual([env["WORLD_SIZE"] for env in self.environments()], ["1"])

    def test_flags_may_be_written_with_dashes_underscores_and_equal_signs(self):
        for arguments in (("--nproc-per-node", "2"), ("--nproc_per_node", "2"), ("--nproc-per-node=2",),
                          ("--nproc_per_node=2",)):
            with self.subTest(arguments):
                self.assertEqual(len(self.environments("--standalone", *arguments)), 2)

    def test_a_pet_variable_replaces_a_default_and_a_flag_replaces_the_variable(self):
        pet = {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "pet", "PET_STANDALONE": "1"}
        self.assertEqual([env["ROLE_NAME"] for env in self.environments(env=pet)], ["pet", "pet"])
        self.assertEqual([env["ROLE_NAME"] for env in self.environments("--role=flag", env=pet)], ["flag", "flag"])

    def test_the_program_gets_its_own_options_untouched(self):
        program = self.worker('for a in "$@"; do note "arg:$a"; done')
        self.run_job("--standalone", "--", program, "--nproc-per-node", "9", "--", "-x", "${local_rank}", code=0)
        self.assertEqual([event[2] for event in self.events()],
                         ["arg:--nproc-per-node", "arg:9", "arg:--", "arg:-x", "arg:0"])

    def test_a_job_in_a_pid_namespace_of_its_own_is_no_jobs_of_slurms(self):
        """There the ancestors are not known."""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", jobs.CXXRUN, "true"],
                              env=self.environment(), capture_output=True, text=True, timeout=jobs.GUARD)
        self.assertEqual((done.returncode, done.stderr.count("Slurm")), (0, 0), done.stderr)

    def test_fifty_jobs_at_once_finish_and_never_meet(self):
        program = self.worker('echo "$TORCHELASTIC_RUN_ID $MASTER_PORT $RANK" >> "$DIR/seen"')
        started = [self.start("--standalone", "--nproc-per-node", "2", program) for _ in range(50)]
        self.assert_codes([0] * 50, *started)
        seen = {}
        for line in jobs.read(self.path("seen")).splitlines():
            run_id, port, rank = line.split()
            seen.setdefault(run_id, []).append((rank, port))
        self.assertEqual(len(seen), 50)
        for ranks in seen.values():
            self.assertEqual(sorted(rank for rank, _ in ranks), ["0", "1"])
            self.assertEqual(len({port for _, port in ranks}), 1)


class SeveralNodes(JobCase):
    def run_nodes(self, nodes, workers):
        program = self.worker('note "$MASTER_PORT" "$WORLD_SIZE" "$GROUP_RANK" "$LOCAL_RANK" "$GROUP_WORLD_SIZE"')
        agents = [self.start_node("--nproc-per-node", str(workers), program, nnodes=str(nodes)) for _ in range(nodes)]
        self.assert_codes([0] * nodes, *agents)
        return self.events()

    def test_two_agents_share_out_the_ranks_and_one_store(self):
        events = self.run_nodes(2, 2)
        self.assertEqual([rank for _, rank, *_ in sorted(events, key=lambda e: e[1])], [0, 1, 2, 3])
        self.assertEqual({generation for generation, *_ in events}, {1})
        self.assertEqual(len({event[2] for event in events}), 1)
        self.assertEqual({event[3] for event in events}, {"4"})
        self.assertEqual(sorted((int(g), int(l), r) for _, r, _, _, g, l, _ in events),
                         [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)])

    def test_four_agents_share_out_the_ranks_and_one_store(self):
        events = self.run_nodes(4, 1)
        self.assertEqual(sorted(rank for _, rank, *_ in events), [0, 1, 2, 3])
        self.assertEqual({(event[0], event[3], event[6]) for event in events}, {(1, "4", "4")})
        self.assertEqual(len({event[2] for event in events}), 1)

    def test_node_ranks_decide_who_is_which_node(self):
        program = self.worker('note "$GROUP_RANK" "$NODE"')
        agents = [self.start_node("--node-rank", rank, program, env={"NODE": rank}) for rank in ("1", "0")]
        self.assert_codes([0, 0], *agents)
        self.assertEqual(sorted(event[2:] for event in self.events()), [("0", "0"), ("1", "1")])

    def test_agents_of_another_run_id_are_kept_out(self):
        program = self.worker("gate go")
        first = self.start_node("--rdzv-id", "mine", program)
        first.says("waiting for nodes")
        other = self.start_node("--rdzv-id", "theirs", "--rdzv-conf", "join_timeout=1", program)
        self.assertEqual(other.wait(), 111, other.stderr)
        self.assertIn("this is run mine, not run theirs", other.stderr)
        second = self.start_node("--rdzv-id", "mine", program)
        self.release(first, second)


class Restarts(JobCase):
    def test_a_killed_worker_restarts_the_job_once_on_all_agents(self):
        program = self.worker('note start "$TORCHELASTIC_RESTART_COUNT" "$WORLD_SIZE" "$MASTER_PORT" "$$"\n'
                              'test "$CXXRUN_GENERATION" = 2 || gate never')
        agents = self.start_two("--nproc-per-node", "2", program)
        for _, rank, _, _, _, _, pid in self.await_events(4, "start", generation=1):
            if rank == 3:
                os.kill(int(pid), signal.SIGKILL)
        self.assert_codes([0, 0], *agents)
        second = self.events("start", generation=2)
        self.assertEqual(sorted(rank for _, rank, *_ in second), [0, 1, 2, 3])
        self.assertEqual({event[3:5] for event in second}, {("1", "4")})
        self.assertEqual(len({event[5] for event in second}), 1)
        self.assertEqual(len(self.events()), 8)
        self.assertEqual(count_reports(*agents), 0)

    def test_when_no_restart_is_left_every_agent_ends_with_the_code_of_the_worker(self):
        program = self.worker('note start "$TORCHELASTIC_RESTART_COUNT"\ntest $RANK = 2 || gate never\n'
                              'for i in 1 2 3; do echo "last words $i" >&2; done; exit 42')
        agents = self.start_two("--nproc-per-node", "2", "--max-restarts", "2", program)
        self.assert_codes([42, 42], *agents)
        self.assertEqual({event[0]: event[3] for event in self.events()}, {1: "0", 2: "1", 3: "2"})
        self.assertEqual(count_reports(*agents), 1)
        report = agents[0].stderr[agents[0].stderr.index("=" * 72):]
        for text in (f"first failure: rank 2 on {HOST} (node 1, local rank 0, pid ", "exit code 42",
                     "    | last words 1\n    | last words 2\n    | last words 3\n",
                     "restarts used: 2 of 2, last generation 3", "exit code:     42"):
            self.assertIn(text, report)
        # The other node tells what happened to its own workers, in order, and repeats nothing of the report.
        other = [line.partition("]: ")[2] for line in agents[1].stderr.splitlines() if "cxxrun[" in line]
        failed = f"rank 2 on {HOST}: exit code 42"
        self.assertEqual(other, [line for number in (1, 2, 3) for line in (
            f"info: generation {number}: starting ranks 2 to 3", f"info: stopping workers: {failed}")])

    def test_a_signal_is_named_in_the_report_and_in_the_exit_code(self):
        program = self.worker("test $RANK = 1 && kill -SEGV $$\ngate never")
        job = self.run_job("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", program,
                           code=128 + signal.SIGSEGV)
        self.assertIn("signal 11 (SIGSEGV)", job.stderr)

    def test_the_report_shows_the_message_of_torchs_error_file(self):
        program = self.worker('echo \'{"message": {"message": "ValueError: no such layer", "extraInfo":'
                              ' {"py_callstack": "Traceback", "timestamp": "1"}}}\' > "$TORCHELASTIC_ERROR_FILE"\nexit 1')
        job = self.run_job("--standalone", "--max-restarts", "0", program, code=1)
        self.assertIn("ValueError: no such layer", job.stderr)

    def test_workers_that_failed_of_themselves_are_folded_under_the_first(self):
        # All have failed before the agent, which is stopped, can see the first.
        program = self.worker("note ready $$\ngate go\nexit $((10 + RANK))")
        job = self.start("--standalone", "--nproc-per-node", "3", "--max-restarts", "0", program)
        self.end_unseen(job, 3)
        self.assertIn(job.wait(), (10, 11, 12))
        self.assertEqual(job.stderr.count("  1 other:       rank "), 2, job.stderr)
        for code in (10, 11, 12):
            self.assertIn(f"exit code {code}", job.stderr)

    def test_a_generation_has_a_store_of_its_own(self):
        program = self.worker('note port "$MASTER_PORT"\ntest "$CXXRUN_GENERATION" = 3 || exit 1')
        self.assertEqual(self.run_job("--standalone", program).code, 0)
        self.assertEqual(len({event[3] for event in self.events("port")}), 3)


class Cause(JobCase):
    """A worker often exits with an error because its peer was killed, and may be heard of first."""

    def test_on_another_node_the_killed_peer_is_blamed_although_it_is_heard_of_later(self):
        program = self.worker("note ready $$\ntest $RANK = 0 && { gate go; exit 1; }\ngate never")
        first, second = self.start_two("--max-restarts", "0", program)
        pids = {rank: int(pid) for _, rank, _, pid in self.await_events(2, "ready")}
        os.kill(second.agent_pid(), signal.SIGSTOP)
        os.kill(pids[1], signal.SIGKILL)
        self.open_gate("go")
        first.says(f"rank 0 on {HOST}: exit code 1")
        os.kill(second.agent_pid(), signal.SIGCONT)
        self.assert_codes([137, 137], first, second)
        self.assertIn(f"first failure: rank 1 on {HOST}", first.stderr)
        self.assertIn("signal 9 (SIGKILL)", first.stderr)
        self.assertIn(f"1 other:       rank 0 on {HOST}: exit code 1\n", first.stderr)

    def test_on_the_same_node_the_killed_peer_is_blamed(self):
        program = self.worker("note ready $$\ntest $RANK = 0 && { gate go; exit 1; }\ngate never")
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", program)
        pids = {rank: int(pid) for _, rank, _, pid in self.await_events(2, "ready")}
        os.kill(job.agent_pid(), signal.SIGSTOP)
        self.open_gate("go")
        wait_until(lambda: not jobs.alive(pids[0]), "rank 0 has exited")
        os.kill(pids[1], signal.SIGKILL)
        os.kill(job.agent_pid(), signal.SIGCONT)
        self.assert_codes([137], job)
        self.assertIn(f"first failure: rank 1 on {HOST}", job.stderr)

    def kill_a_big_worker(self, *options):
        """Rank 1 holds 1 GiB, which the kernel takes long to free; rank 0 kills it and fails at once, before it is gone."""
        program = self.python_worker(
            "if RANK == '1':\n"
            "    memory = bytearray(1 << 30)\n"
            "    memory[::4096] = b'x' * (len(memory) // 4096)\n"
            "    note('ready', os.getpid())\n"
            "    signal.pause()\n"
            "gate('go')\n"
            "os.kill(int(open(DIR + '/victim').read()), signal.SIGKILL)\n"
            "os._exit(1)\n")
        job = self.start("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", *options, *program)
        (_, _, _, pid), = self.await_events(1, "ready")
        self.make_file("victim", pid)
        self.open_gate("go")
        self.assert_codes([137], job)
        self.assertIn(f"first failure: rank 1 on {HOST}", job.stderr)
        self.assertIn("signal 9 (SIGKILL)", job.stderr)
        return job

    def test_a_peer_that_is_still_dying_when_others_fail_of_it_is_blamed(self):
        self.assertIn(f"1 other:       rank 0 on {HOST}: exit code 1\n", self.kill_a_big_worker().stderr)

    def test_even_when_dying_takes_longer_than_the_survivors_are_given(self):
        self.kill_a_big_worker("--restart-timeout", "0")


class ExitCodes(JobCase):
    def test_every_exit_code_of_a_worker_comes_out(self):
        def code(number):
            return self.run_job("--standalone", "--max-restarts=0", "sh", "-c", f"exit {number}").code
        self.assertEqual(each(code, range(256)), list(range(256)))

    def test_every_fatal_signal_comes_out_as_128_plus_its_number(self):
        fatal = sorted(set(signal.valid_signals()) - NOT_FATAL)
        def code(number):
            return self.run_job("--standalone", "--max-restarts=0", "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$").code
        self.assertEqual(each(code, fatal), [128 + number for number in fatal])

    def test_a_program_that_is_not_there_is_127_without_a_restart(self):
        job = self.run_job("--standalone", self.path("nothing"), code=127)
        self.assertIn(self.path("nothing"), job.stderr)
        self.assertIn("restarts used: 0 of 3", job.stderr)

    def test_a_script_that_is_not_there_is_127_without_a_restart(self):
        job = self.run_job("--standalone", self.path("nothing.py"), code=127)
        self.assertIn("cannot read the script '%s'" % self.path("nothing.py"), job.stderr)
        self.assertIn("restarts used: 0 of 3", job.stderr)

    def test_a_program_that_cannot_be_executed_is_126_without_a_restart(self):
        self.make_file("data", "no program")
        for kind in (self.path("data"), self.dir):
            job = self.run_job("--standalone", kind, code=126)
            self.assertIn(kind, job.stderr)
            self.assertIn("restarts used: 0 of 3", job.stderr)

    def test_a_worker_that_exits_with_127_itself_is_restarted(self):
        job = self.run_job("--standalone", "--max-restarts=1", "sh", "-c", "exit 127", code=127)
        self.assertIn("restarts used: 1 of 1", job.stderr)

    def test_a_program_missing_on_one_node_only_ends_the_job_on_both(self):
        program = self.worker("gate never")
        first = self.start_node(program)
        first.says("waiting for nodes")
        second = self.start_node(self.path("nothing"))
        self.assert_codes([127, 127], first, second)

    def test_a_program_missing_on_one_node_excludes_that_node_when_the_others_suffice(self):
        program = self.worker("gate go")
        first = self.start_node(program, nnodes="1:2")
        first.says("waiting for more")
        second = self.start_node(self.path("nothing"), nnodes="1:2")
        first.says("the program, which runs on other nodes, could not be started")
        first.says("generation 2 runs: 1 node, 1 worker")
        self.release(first, second)


if __name__ == "__main__":
    sys.exit(jobs.main())
