"""cxxrun-rendezvous: runs one after another and at once, relaunches, --join, its end. Usage: rendezvous_test.py CXXRUN"""
import json
import os
import signal
import subprocess
import sys
import unittest
from unittest import mock

import hanging_dir
import jobs
from jobs import JobCase, alive, read, wait_until

USAGE, LOST = 100, 113
SOON = ("--rdzv-conf", "join_timeout=1")  # a node that is added gives up then


def program():
    return jobs.CXXRUN + "-rendezvous"


def step(number, job=12, **more):
    """What Slurm tells the only task of a step."""
    return {"SLURM_JOB_ID": str(job), "SLURM_CLUSTER_NAME": "lab", "SLURM_STEP_ID": str(number), "SLURM_NODEID": "0",
            "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_NODES": "1",
            "SLURM_STEP_TASKS_PER_NODE": "1", **more}


class Rendezvous(JobCase):
    def setUp(self):
        super().setUp()
        self.started = []

    def tearDown(self):
        for process in self.started:
            process.kill()
            process.wait()
        super().tearDown()

    def start_rendezvous(self, *arguments, env=None):
        """Returns the process, with .endpoint and .err once it listens."""
        out, err = self.path("rendezvous.out"), self.path("rendezvous.err")
        with open(out, "w") as o, open(err, "w") as e:
            process = subprocess.Popen([program(), *arguments], env=self.environment(env), stdout=o, stderr=e,
                                       stdin=subprocess.DEVNULL)
        self.started.append(process)
        wait_until(lambda: read(out).endswith("\n") or process.poll() is not None, "it says where it listens")
        process.endpoint = read(out).strip()
        process.port = process.endpoint.rsplit(":", 1)[-1]
        return process

    @property
    def said(self):
        return read(self.path("rendezvous.err"))

    def environment(self, extra=None):
        return super().environment({"HOME": self.dir, **(extra or {})})

    def start_agent(self, rendezvous, *arguments, run="r", **more):
        return self.start("--rdzv-endpoint", f"127.0.0.1:{rendezvous.port}", "--rdzv-id", run, *arguments, **more)

    def end(self, rendezvous):
        rendezvous.terminate()
        self.assertEqual(rendezvous.wait(jobs.GUARD), 0, self.said)

    def file(self, name="lab-12"):
        return self.path(f".cxxrun/rendezvous/{name}")


class Runs(Rendezvous):
    def test_a_relaunch_keeps_the_restart_count_and_a_success_resets_it_while_generations_go_on(self):
        rendezvous = self.start_rendezvous("--port", "0")
        program = self.worker('note start "$TORCHELASTIC_RESTART_COUNT"; [ ! -e "$DIR/good" ]; exit $(($? ? 0 : 3))')
        for code in (3, 3):
            self.assert_codes([code], self.start_agent(rendezvous, "--max-restarts", "1", program))
        self.make_file("good")
        for _ in range(2):
            self.assert_codes([0], self.start_agent(rendezvous, "--max-restarts", "1", program))
        self.assertEqual([(e[0], e[3]) for e in self.events()],
                         [(1, "0"), (2, "1"), (3, "1"), (4, "1"), (5, "0")])
        self.assertEqual(self.said.count("cxxrun: r: worker failed"), 2)
        self.end(rendezvous)

    def test_each_run_leaves_its_story_where_it_is_asked_to(self):
        logs = self.path("logs/of rendezvous")
        rendezvous = self.start_rendezvous("--port", "0", "--log-dir", logs, env={"SLURMD_NODENAME": "n7"})
        program = self.worker('[ ! -e "$DIR/good" ]; exit $(($? ? 0 : 3))')
        self.assert_codes([3], self.start_agent(rendezvous, "--max-restarts", "0", program))
        self.make_file("good")
        self.assert_codes([0], self.start_agent(rendezvous, program))
        self.end(rendezvous)
        self.assertEqual(sorted(os.listdir(logs)), ["r_n7", "r_n7-2"])
        for name, verdict in (("r_n7", "worker failed"), ("r_n7-2", "success")):
            head, *events = [json.loads(line) for line in read(f"{logs}/{name}/events.jsonl").splitlines()]
            self.assertEqual((head["run_id"], head["host"]), ("r", "n7"))
            self.assertEqual((events[0]["kind"], events[-1]["kind"]), ("node_joined", "verdict"))
            self.assertEqual(json.loads(read(f"{logs}/{name}/verdict.json"))["verdict"], verdict)
            self.assertIn(f"the record of the job: n7:{logs}/{name}/{{events.jsonl,verdict.json}}", self.said)

    def test_a_log_directory_that_cannot_be_made_is_refused_at_the_start(self):
        self.make_file("file")
        rendezvous = self.start_rendezvous("--port", "0", "--log-dir", self.path("file/logs"))
        self.assertEqual(rendezvous.wait(jobs.GUARD), 111)
        self.assertIn(f"cannot create the log directory {self.path('file/logs')} (", self.said)
        self.assertEqual(len(self.said.splitlines()), 1)

    def test_runs_at_once_do_not_meet_and_have_stores_of_their_own(self):
        rendezvous = self.start_rendezvous("--port", "0")
        program = self.worker('note start "$TORCHELASTIC_RUN_ID" "$WORLD_SIZE" "$CXXRUN_STORE_PORT"; gate go')
        agents = [self.start_agent(rendezvous, "--nnodes", "2", program, run=run) for run in ("a", "a", "b", "b")]
        events = self.await_events(4, "start")
        self.assertEqual({(e[3], e[4]) for e in events}, {("a", "2"), ("b", "2")})
        self.assertEqual(len({e[5] for e in events}), 2)
        self.release(*agents)
        self.end(rendezvous)

    def test_a_run_whose_agents_are_all_killed_ends_and_a_new_one_goes_on(self):
        rendezvous = self.start_rendezvous("--port", "0")
        program = self.worker('note start; gate go')
        elastic = ("--nnodes", "1:3", "--rdzv-conf", "last_call_timeout=1")
        first = [self.start_agent(rendezvous, *elastic, program) for _ in range(2)]
        wait_until(lambda: self.events("start"), "workers run")
        for agent in first:
            agent.process.kill()
        wait_until(lambda: "too few nodes" in self.said, "the run has ended")
        before = max(e[0] for e in self.events())
        second = self.start_agent(rendezvous, *elastic, program)
        self.await_events(1, "start", before + 1)
        self.release(second)
        self.end(rendezvous)

    def test_an_agent_that_wants_something_else_is_refused_by_name(self):
        rendezvous = self.start_rendezvous("--port", "0")
        program = self.worker("note start; gate go")
        first = self.start_agent(rendezvous, "--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=1", program)
        self.await_events(1, "start")
        other = self.start_agent(rendezvous, "--nnodes", "4", program)
        self.assertEqual(other.wait(), USAGE, other.stderr)
        self.assertIn("--nnodes is 1:2 in this run but 4 here", other.stderr)
        self.release(first)
        self.end(rendezvous)

    def test_only_the_id_it_was_given_is_served(self):
        rendezvous = self.start_rendezvous("--port", "0", "--rdzv-id", "mine")
        program = self.worker("note start")
        self.assert_codes([0], self.start_agent(rendezvous, program, run="mine"))
        other = self.start_agent(rendezvous, program, run="other")
        self.assert_codes([0], other)  # by itself: a job of one node needs no meeting
        self.assertIn("this is run mine, not run other", other.stderr)
        self.end(rendezvous)

    def test_with_a_port_range_stores_are_in_it_too(self):
        first = jobs.free_port()
        rendezvous = self.start_rendezvous("--port-range", f"{first}-{first + 20}")
        self.assertIn(int(rendezvous.port), range(first, first + 21))
        program = self.worker('note port "$MASTER_PORT"')
        self.assert_codes([0], self.start_agent(rendezvous, program))
        self.assertIn(int(self.events("port")[0][3]), range(first, first + 21))
        self.end(rendezvous)


class End(Rendezvous):
    def test_sigterm_stops_what_runs_and_ends_with_0(self):
        rendezvous = self.start_rendezvous("--port", "0")
        program = self.worker('trap "note term; exit 0" TERM; note start; while :; do sleep 0.05; done')
        agent = self.start_agent(rendezvous, program)
        self.await_events(1, "start")
        self.end(rendezvous)
        self.assertEqual(agent.wait(), 143, agent.stderr)
        self.assertEqual(len(self.events("term")), 1)
        self.assertIn("the coordinator was told to end by SIGTERM", agent.stderr)

    def test_signals_of_one_moment_are_one(self):
        """Slurm's time limit sends two; a script that is told to end passes its own on."""
        rendezvous = self.start_rendezvous("--port", "0")
        program = self.worker('trap "note term" TERM; note start; while :; do sleep 0.05; done')
        agent = self.start_agent(rendezvous, "--shutdown-timeout", "2", program)
        self.await_events(1, "start")
        rendezvous.terminate()
        rendezvous.terminate()
        self.assertEqual(agent.wait(), 143, agent.stderr)
        self.assertEqual(rendezvous.wait(jobs.GUARD), 0)

    def test_an_agent_that_does_not_leave_is_left_behind(self):
        """Its run is closed with it, and with its second connection, for heartbeats."""
        rendezvous = self.start_rendezvous("--port", "0")
        agents = [self.start_agent(rendezvous, "--nnodes", "3", "--heartbeat-timeout", "60", "true") for _ in range(2)]
        jobs.wait_until(lambda: "2 of at least 3" in self.said, "both agents have joined")
        frozen = agents[1].agent_pid()
        os.kill(frozen, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{frozen}") and os.kill(frozen, signal.SIGCONT))
        self.end(rendezvous)
        self.assertEqual(agents[0].wait(), 143, agents[0].stderr)
        os.kill(frozen, signal.SIGCONT)
        self.assertNotEqual(agents[1].wait(), 0)

    def test_a_later_signal_does_not_wait(self):
        rendezvous = self.start_rendezvous("--port", "0")
        program = self.worker('trap "note term" TERM; note start; while :; do sleep 0.05; done')
        agent = self.start_agent(rendezvous, "--shutdown-timeout", "40", "--restart-timeout", "1", program)
        self.await_events(1, "start")
        rendezvous.terminate()
        self.await_events(1, "term")
        jobs.wait_until(lambda: rendezvous.poll() is not None or rendezvous.terminate(), "the rendezvous has ended")
        self.assertEqual(rendezvous.wait(jobs.GUARD), 0)
        self.assertEqual(agent.wait(), LOST, agent.stderr)

    def test_it_ends_with_the_script_that_started_it_even_one_that_is_killed(self):
        for end in (signal.SIGTERM, signal.SIGKILL):
            script = subprocess.Popen(["/bin/bash", "-c", '"$0" --port 0 >"$DIR/where" 2>"$DIR/why" & echo $! > '
                                       '"$DIR/pid.tmp"; mv "$DIR/pid.tmp" "$DIR/pid"; sleep 1000', program()],
                                      env=self.environment(), start_new_session=True)
            wait_until(lambda: read(self.path("where")).endswith("\n") and read(self.path("pid")), "it listens")
            pid = int(read(self.path("pid")))
            script.send_signal(end)
            script.wait(jobs.GUARD)
            wait_until(lambda: not alive(pid), "it has ended")
            os.killpg(script.pid, signal.SIGKILL)
            self.assertIn("the process that started this has ended", read(self.path("why")))
            for name in ("where", "pid"):
                os.remove(self.path(name))


    def test_in_the_background_it_returns_once_it_can_be_found_and_ends_with_the_script(self):
        env = self.environment(InSlurm.job)
        script = subprocess.Popen(["/bin/bash", "-c", 'where=$("$0" --background); echo "$? $where"; '
                                   'ls "$HOME/.cxxrun/rendezvous"; read -r line', program()],
                                  env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(script.wait)
        where = script.stdout.readline()
        self.assertRegex(where, r"^0 localhost:\d+\n$")
        self.assertEqual(script.stdout.readline(), "lab-12\n")
        pid = json.loads(read(self.file()))["pid"]
        self.assert_codes([0], self.start(self.worker("note start"), env=step(0)))
        second = subprocess.run([program(), "--background"], env=env, capture_output=True, text=True)
        self.assertEqual((second.returncode, second.stdout), (USAGE, ""), second.stderr)
        script.communicate("end\n")
        wait_until(lambda: not alive(pid) and not os.path.exists(self.file()), "it has ended")


class InSlurm(Rendezvous):
    job = {"SLURM_JOB_ID": "12", "SLURM_CLUSTER_NAME": "lab", "SLURMD_NODENAME": "localhost"}

    def test_steps_find_it_by_themselves_and_its_file_goes_with_it(self):
        rendezvous = self.start_rendezvous(env=self.job)
        found = json.loads(read(self.file()))
        self.assertEqual((found["job"], found["port"], found["pid"]), ("12", int(rendezvous.port), rendezvous.pid))
        self.assertEqual(os.stat(self.file()).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(os.path.dirname(self.file())).st_mode & 0o777, 0o700)
        program = self.worker('note start "$TORCHELASTIC_RUN_ID"; exit 5')
        for number in (0, 1):
            self.assert_codes([5], self.start("--max-restarts", "0", program, env=step(number)))
        self.assertEqual(self.events(), [(1, 0, "start", "12.0"), (2, 0, "start", "12.1")])
        self.assertIn("12.1: generation 2 runs", self.said)
        self.end(rendezvous)
        self.assertFalse(os.path.exists(self.file()))

    def test_one_serves_a_job(self):
        rendezvous = self.start_rendezvous(env=self.job)
        second = subprocess.run([program()], env=self.environment(self.job), capture_output=True, text=True)
        self.assertEqual((second.returncode, second.stdout), (USAGE, ""), second.stderr)
        self.assertIn(f"it already runs in this job, as process {rendezvous.pid}", second.stderr)
        self.assertTrue(os.path.exists(self.file()))
        self.end(rendezvous)

    def test_a_file_whose_writer_was_killed_is_said_and_ignored(self):
        rendezvous = self.start_rendezvous(env=self.job)
        rendezvous.kill()
        rendezvous.wait()
        agent = self.run_job(self.worker("note start"), env=step(0), code=0)
        self.assertIn(f"{self.file()} is ignored: ", agent.stderr)
        # One that is of an earlier run of the job is not even tried.
        agent = self.run_job(self.worker("note start"), env=step(0, SLURM_RESTART_COUNT="1"))
        self.assertEqual((agent.code, agent.stderr.count("is ignored")), (0, 0), agent.stderr)

    def test_somebody_else_at_the_port_is_recognised(self):
        first = self.start_rendezvous(env=self.job)
        content = json.loads(read(self.file()))
        self.end(first)
        other = self.start_rendezvous("--port", str(content["port"]))
        with open(self.file(), "w") as f:
            json.dump(content, f)
        os.chmod(self.file(), 0o600)
        agent = self.run_job(self.worker("note start"), env=step(0), code=0)
        self.assertIn(f"this is any run at port {content['port']}, not job lab-12", agent.stderr)
        self.assertNotIn("generation", self.said)
        self.end(other)

    def test_garbage_in_its_place_is_named_and_ignored(self):
        os.makedirs(os.path.dirname(self.file()))
        os.mkfifo(self.file())
        agent = self.run_job(self.worker("note start"), env=step(0), code=0)
        self.assertIn(f"{self.file()} is no regular file", agent.stderr)
        os.remove(self.file())
        self.make_file(self.file(), "{" * 100000, 0o600)
        agent = self.run_job(self.worker("note start"), env=step(0), code=0)
        self.assertIn(f"{self.file()} is no discovery file", agent.stderr)

    def test_one_that_others_may_read_is_named_and_ignored(self):
        """It holds the key of the runs."""
        rendezvous = self.start_rendezvous(env=self.job)
        self.assertRegex(json.loads(read(self.file()))["key"], "^[0-9a-f]{64}$")
        for mode in (0o640, 0o604):
            os.chmod(self.file(), mode)
            agent = self.run_job(self.worker("note start"), env=step(0), code=0)
            self.assertIn(f"{self.file()} can be accessed by other users: remove it; it is ignored", agent.stderr)
            self.assertNotIn("generation", self.said)
            joins = self.run_job("--join", "12", *SOON, self.worker("note start"), env=step(1), code=LOST)
            self.assertIn("can be accessed by other users", joins.stderr)
        self.end(rendezvous)

    @unittest.skipUnless(os.getuid() == 0 and os.path.exists("/dev/fuse"), "a directory that hangs needs root and FUSE")
    # LeakSanitizer would wait for ever for the thread that hangs in the directory.
    @mock.patch.dict(os.environ, ASAN_OPTIONS="detect_leaks=0")
    def test_a_directory_whose_server_is_gone_keeps_no_step_from_running_and_nobody_from_ending(self):
        os.mkdir(self.path("hung"))
        said = "did not answer within 5 s (choose another directory that all nodes share with CXXRUN_DISCOVERY_DIR)"
        with hanging_dir.hanging(self.path("hung")) as hung:
            env = step(0, CXXRUN_DISCOVERY_DIR=hung + "/d")
            runs = self.run_job(self.worker("note ran"), env=env)
            self.assertEqual((runs.code, len(self.events("ran"))), (0, 1), runs.stderr)
            self.assertIn(f"{hung}/d {said}; it is ignored", runs.stderr)
            joins = self.run_job("--join", "12", *SOON, "true", env=env)
            self.assertEqual((joins.code, joins.stderr.count(said)), (111, 1), joins.stderr)
            host = subprocess.run([program()], env=self.environment({**self.job, "CXXRUN_DISCOVERY_DIR": hung + "/d"}),
                                  capture_output=True, text=True, timeout=jobs.GUARD)
            self.assertEqual((host.returncode, host.stdout), (111, ""))
            self.assertEqual(host.stderr, f"cxxrun-rendezvous: {hung}/d {said}\n")

    def test_a_home_that_cannot_be_written_is_one_line(self):
        self.make_file("file")
        done = subprocess.run([program()], env=self.environment({**self.job, "CXXRUN_DISCOVERY_DIR": self.path("file")}),
                              capture_output=True, text=True, timeout=jobs.GUARD)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (111, "", 1))
        self.assertIn("CXXRUN_DISCOVERY_DIR", done.stderr)


class Join(Rendezvous):
    job = InSlurm.job

    def setUp(self):
        super().setUp()
        self.program = self.worker('note start "$WORLD_SIZE" "$GROUP_RANK" "$TORCHELASTIC_RUN_ID"; gate go')

    def check_joined(self, first, *more, env=None):
        late = self.start("--join", "12", self.program, env=env)
        events = self.await_events(2, "start", 2)
        self.assertEqual(sorted(e[3:] for e in events), [("2", "0", "12.0"), ("2", "1", "12.0")])
        late.says("joined 12.0 on localhost")
        self.release(first, late)

    def test_a_node_enters_a_step_of_a_job_with_a_rendezvous(self):
        rendezvous = self.start_rendezvous(env=self.job)
        first = self.start("--nnodes", "1:2", self.program, env=step(0))
        self.await_events(1, "start", 1)
        self.check_joined(first, env=step(7, job=99))
        self.end(rendezvous)

    def test_a_node_enters_an_elastic_step_that_hosts_itself_and_its_file_goes_with_it(self):
        first = self.start("--nnodes", "1:2", self.program, env=step(0))
        self.await_events(1, "start", 1)
        wait_until(lambda: os.path.exists(self.file("lab-12.0")), "it says where it is")
        self.check_joined(first)
        self.assertFalse(os.path.exists(self.file("lab-12.0")))

    def test_a_step_of_fixed_size_writes_no_file(self):
        agent = self.start(self.program, env=step(0))
        self.await_events(1, "start")
        self.assertFalse(os.path.exists(self.path(".cxxrun")))
        self.release(agent)

    def test_no_such_job_is_one_line_that_says_where_was_looked_and_one_at_the_end(self):
        agent = self.run_job("--join", "12", *SOON, self.program)
        self.assertEqual((agent.code, agent.stderr.count("\n")), (LOST, 2))
        for line in agent.stderr.splitlines():
            self.assertIn(f"--join 12: no such job can be joined (looked in {self.dir}/.cxxrun/rendezvous)", line)

    def test_a_job_whose_coordinator_is_gone_is_one_line(self):
        rendezvous = self.start_rendezvous(env=self.job)
        rendezvous.kill()
        rendezvous.wait()
        agent = self.run_job("--join", "12", *SOON, self.program)
        self.assertEqual((agent.code, agent.stderr.count("\n")), (LOST, 1))
        self.assertIn(self.file(), agent.stderr)

    def test_a_job_in_which_nothing_runs_cannot_be_joined(self):
        rendezvous = self.start_rendezvous(env=self.job)
        agent = self.run_job("--join", "12", *SOON, self.program, code=LOST)
        self.assertIn("there is no run here to join", agent.stderr)
        self.end(rendezvous)

    def test_of_two_steps_one_has_to_be_named(self):
        rendezvous = self.start_rendezvous(env=self.job)
        steps = [self.start("--nnodes", "1:2", self.program, env=step(number)) for number in (0, 1)]
        self.await_events(2, "start")
        agent = self.run_job("--join", "12", self.program, code=USAGE)
        self.assertRegex(agent.stderr, r"several steps run here: 12\.[01], 12\.[01]; say which one with --join")
        late = self.start("--join", "12.1", self.program)
        wait_until(lambda: len([e for e in self.events() if e[3] == "2" and e[5] == "12.1"]) == 2, "it is in step 1")
        self.release(*steps, late)
        self.end(rendezvous)


class Arguments(Rendezvous):
    def run_program(self, *arguments, env=None):
        done = subprocess.run([program(), *arguments], env=self.environment(env), capture_output=True, text=True,
                              timeout=jobs.GUARD)
        return done.returncode, done.stdout, done.stderr

    def test_bad_arguments_are_one_line_with_exit_code_100(self):
        for arguments in (["--port"], ["--port", "x"], ["--port=65536"], ["--port-range", "9-5"], ["--port-range", "0-5"],
                          ["--rdzv-id="], ["--log-level", "loud"], ["--prot", "1"], ["1"]):
            code, out, err = self.run_program(*arguments)
            self.assertEqual((code, out, err.count("\n")), (100, "", 1), arguments)
            self.assertTrue(err.startswith("cxxrun-rendezvous: "), err)

    def test_help_and_version_go_to_stdout(self):
        code, out, err = self.run_program("--help")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("--port-range", out)
        code, out, err = self.run_program("--version")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^cxxrun-rendezvous \d+\.\d+\.\d+\n$")

    def test_a_taken_port_is_named_with_exit_code_111(self):
        rendezvous = self.start_rendezvous("--port", "0")
        code, out, err = self.run_program("--port", rendezvous.port)
        self.assertEqual((code, out), (111, ""), err)
        self.assertIn(rendezvous.port, err)
        self.end(rendezvous)


if __name__ == "__main__":
    sys.exit(jobs.main())
