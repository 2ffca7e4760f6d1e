"""What a worker finds when it starts: standard input, descriptors, arguments, ports. Usage: job_worker_test.py CXXRUN"""
import os
import pty
import resource
import select
import signal
import subprocess
import sys

import jobs
from jobs import JobCase


class Worker(JobCase):
    def run_ok(self, *arguments, **more):
        job = self.run_job("--standalone", *arguments, **more, code=0)
        return job

    def words(self):
        """What each rank noted, by rank."""
        return {rank: words for _, rank, *words in self.events()}

    def test_stdin_is_the_null_device(self):
        job = self.start("--standalone", self.worker('note "$(readlink /proc/self/fd/0)"'), stdin=-1)
        job.process.stdin.write(b"typed\n")
        job.process.stdin.close()
        self.assert_codes([0], job)
        self.assertEqual(self.words(), {0: ["/dev/null"]})

    def test_stdin_rank0_gives_it_to_rank_0_only(self):
        job = self.start("--standalone", "--stdin", "rank0", "--nproc-per-node", "2",
                         self.worker('read -r line; note "$line"'), stdin=-1)
        job.process.stdin.write(b"typed\n")
        job.process.stdin.close()
        self.assert_codes([0], job)
        self.assertEqual(self.words(), {0: ["typed"], 1: [""]})

    UNREAD = "standard input has data that nobody reads: workers read /dev/null; `--stdin rank0`"

    def test_input_that_nobody_reads_is_said_once_and_only_where_it_was_meant_for_the_workers(self):
        self.make_file("list", "one\ntwo\n")
        late = self.worker(f"until [ -e {self.path('said')} ]; do sleep 0.05; done", name="late")
        said = ('seq 3 | RUN true', 'RUN true < list', 'RUN true <<< text', 'seq 3 | timeout 60 RUN cat',
                f'(sleep 0.3; echo late; touch said) | RUN {late}')
        silent = ('RUN true < /dev/null', 'RUN true <&-', 'RUN true < /dev/zero', 'sleep 0.5 | RUN true',
                  'while read x; do RUN true; break; done < list', 'seq 3 | while read x; do RUN true; break; done',
                  'seq 3 | while read x; do timeout 60 RUN true; break; done', 'seq 3 | RUN --stdin rank0 cat')
        for expected, commands in ((1, said), (0, silent)):
            for command in commands:
                command = command.replace("RUN", f"{jobs.CXXRUN} --standalone")
                job = subprocess.run(["bash", "-c", command], env=self.environment(), text=True, cwd=self.dir,
                                     stdin=subprocess.DEVNULL, capture_output=True, timeout=jobs.GUARD)
                self.assertEqual((job.returncode, job.stderr.count(self.UNREAD)), (0, expected), command + job.stderr)

    def test_a_program_on_standard_input_is_refused_and_starts_nothing(self):
        for words in (["python3", "-"], ["bash"], ["--run-path", "/dev/stdin"], ["-m", "pdb", "train.py"]):
            job = self.start("--standalone", *words, stdin=subprocess.PIPE)
            job.process.stdin.close()
            self.assert_codes([100], job)
            self.assertRegex(job.stderr, r"\Acxxrun: (python3|bash) would read what to run from standard input.*\n\Z")

    def in_terminal(self, *words):
        """The words as the process of a terminal of its own; its pid and the other end."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(words[0], words, self.environment())
        return pid, terminal

    def await_shown(self, terminal, text):
        shown = b""
        while text not in shown:
            self.assertTrue(select.select([terminal], [], [], jobs.GUARD)[0], shown)
            shown += os.read(terminal, 65536)

    def assert_ends_well(self, pid, terminal):
        try:
            while os.read(terminal, 65536):
                pass
        except OSError:  # everybody has closed it
            pass
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def test_in_the_background_of_a_terminal_what_is_typed_is_the_shells(self):
        program = self.worker("read -r line; note \"$line\"")
        pid, terminal = self.in_terminal(
            "/bin/bash", "-c", f"set -m; {jobs.CXXRUN} --standalone --stdin rank0 {program} & wait; "
                               "echo ready; read -r line; [ \"$line\" = typed ]")
        self.await_shown(terminal, b"in the background of its terminal")
        os.write(terminal, b"typed\n")
        self.assert_ends_well(pid, terminal)
        self.assertEqual(self.words(), {0: [""]})

    def test_a_prompt_is_on_the_terminal_before_one_types_and_the_answer_arrives(self):
        program = self.worker("printf 'your name? '; read -r line; note \"$line\"")
        pid, terminal = self.in_terminal(jobs.CXXRUN, "--standalone", "--nproc-per-node", "2", "--stdin", "rank0", program)
        self.await_shown(terminal, b"0] your name? ")
        os.write(terminal, b"Ada\n")
        self.assert_ends_well(pid, terminal)
        self.assertEqual(self.words(), {0: ["Ada"], 1: [""]})

    def test_no_descriptor_but_the_three_standard_ones_is_open(self):
        # os.listdir's own descriptor is the 3rd; a leaked one would push it up or be listed. That of the stacks, which the
        # package opens in a Python worker (--watch), is the worker's own.
        program = self.python_worker("note(*sorted(map(int, os.listdir('/proc/self/fd'))))")
        os.mkdir(self.path("logs"))
        for arguments in ((), ("-t", "3", "--log-dir", self.path("logs")), ("-r", "3", "--log-dir", self.path("logs")),
                          ("--stdin", "rank0")):
            self.run_ok("--nproc-per-node", "3", "--watch", "off", *arguments, *program)
            self.assertEqual(self.words(), {rank: ["0", "1", "2", "3"] for rank in range(3)}, arguments)
            os.unlink(self.path("events"))

    def test_descriptors_that_the_caller_left_open_are_not_passed_on(self):
        with open("/dev/null") as extra:
            job = self.start("--standalone", "--watch", "off",
                             *self.python_worker("note(*sorted(map(int, os.listdir('/proc/self/fd'))))"),
                             pass_fds=[extra.fileno()])
            self.assert_codes([0], job)
        self.assertEqual(self.words(), {0: ["0", "1", "2", "3"]})

    def test_a_process_managers_identity_and_descriptor_go_to_the_one_worker_of_a_task_once(self):
        """To two of them neither, nor to the health check; a restarted one cannot ask again, and fails at once."""
        tell = ('note ${PMI_RANK-none} ${PMIX_RANK-none} ${OMPI_MCA_btl-none} "$(readlink /proc/self/fd/9 || echo closed)"; '
                '[ $CXXRUN_GENERATION != $FAIL ] || exit 3')
        env = {"PMI_RANK": "5", "PMI_FD": "9", "PMIX_RANK": "5", "OMPI_MCA_btl": "tcp", "DIR": self.dir}
        behind = ("/bin/sh", "-c", 'exec 9</dev/null "$@"', "sh")
        for workers, fail, expected in ((1, 1, [("5", "5", "tcp", "/dev/null"), ("5", "5", "tcp", "closed")]),
                                        (2, 0, [("none", "none", "tcp", "closed")] * 2)):
            program = self.worker(tell)
            checked = 'echo ${PMI_RANK-none} >"$DIR/checked"; [ ! -e /proc/self/fd/9 ]'
            self.run_job("--standalone", "--nproc-per-node", str(workers), "--health-check", checked, program,
                         behind=behind, env={**env, "FAIL": str(fail)}, code=0)
            self.assertEqual([event[2:] for event in self.events()], expected)
            self.assertEqual(jobs.read(self.path("checked")), "none\n")
            os.unlink(self.path("events"))

    def test_no_signal_is_blocked_or_ignored(self):
        program = self.worker("note $(grep -E '^Sig(Blk|Ign):' /proc/self/status | cut -f 2)")
        self.run_ok(program)
        self.assertEqual(self.words(), {0: ["0" * 16, "0" * 16]})

    def test_a_caller_that_ignores_its_children_changes_nothing(self):
        self.run_job("--standalone", "--max-restarts=0", "sh", "-c", "exit 5",
                     preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), code=5)

    def test_the_limit_of_open_files_is_the_callers(self):
        program = self.worker('note "$(ulimit -n)"')
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.run_ok(program, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard)))
        self.assertEqual(self.words(), {0: ["300"]})

    def test_each_worker_leads_a_session_of_its_own(self):
        self.run_ok("--nproc-per-node", "2", *self.python_worker("note(os.getpid() == os.getsid(0) == os.getpgid(0))"))
        self.assertEqual(self.words(), {0: ["True"], 1: ["True"]})

    def test_workers_start_in_the_directory_of_the_caller(self):
        self.run_ok(self.worker('note "$(pwd -P)"'), cwd=self.dir)
        self.assertEqual(self.words(), {0: [os.path.realpath(self.dir)]})

    def test_local_rank_is_replaced_in_arguments(self):
        self.run_ok("--nproc-per-node", "2", self.worker('note "$@"'), "--device=${local_rank}", "a${local_rank}b${local_rank}")
        self.assertEqual(self.words(), {rank: [f"--device={rank}", f"a{rank}b{rank}"] for rank in (0, 1)})

    def script(self):
        """A Python program that notes how it is run."""
        return self.make_file("script.py",
                              jobs.PYTHON_PROLOGUE + "note(sys.executable, sys.stdout.write_through, *sys.argv[1:])\n")

    def test_a_py_file_is_run_by_python_unbuffered(self):
        self.run_ok(self.script(), "x", env={"PYTHON_EXEC": "/usr/bin/python3"})
        self.assertEqual(self.words(), {0: ["/usr/bin/python3", "True", "x"]})

    def test_a_py_file_is_run_by_the_python3_of_the_path(self):
        os.mkdir(self.path("bin"))
        os.symlink("/usr/bin/python3", self.path("bin/python3"))
        self.run_ok(self.script(), env={"PATH": self.path("bin") + ":" + os.environ["PATH"]})
        self.assertEqual(self.words(), {0: [self.path("bin/python3"), "True"]})

    def test_a_module_is_run_by_python(self):
        self.script()
        self.run_ok("-m", "script", "x", env={"PYTHON_EXEC": "/usr/bin/python3", "PYTHONPATH": self.dir})
        self.assertEqual(self.words(), {0: ["/usr/bin/python3", "True", "x"]})

    def test_no_python_executes_a_py_file_itself(self):
        program = self.worker('note shell "$@"', name="shell.py")
        self.run_ok("--no-python", program, "x")
        self.assertEqual(self.words(), {0: ["shell", "x"]})

    def test_agent_store_off_leaves_master_port_free_for_rank_0(self):
        body = """
import socket
if RANK == "0":
    server = socket.create_server(("", int(os.environ["MASTER_PORT"])))
note(os.environ["TORCHELASTIC_USE_AGENT_STORE"], os.environ["MASTER_PORT"])"""
        for env, flag in (({}, ["--agent-store=off"]), ({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, [])):
            self.run_ok("--nproc-per-node", "2", *flag, *self.python_worker(body), env=env)
            self.assertEqual({words[0] for words in self.words().values()}, {"False"})
            os.unlink(self.path("events"))
        self.run_ok("--agent-store=off", "--master-port", str(self.port), *self.python_worker(body))
        self.assertEqual(self.words(), {0: ["False", str(self.port)]})

    def test_the_store_listens_before_the_first_worker_starts(self):
        body = """
import socket
socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 10).close()
note("connected")"""
        self.run_ok("--nproc-per-node", "4", *self.python_worker(body))
        self.assertEqual(len(self.events("connected")), 4)

    def test_a_fixed_master_port_is_used_in_every_generation(self):
        program = self.worker('note "$MASTER_PORT"; test $CXXRUN_GENERATION = 3')
        self.run_job("--master-port", str(self.port), program, code=0)
        self.assertEqual(self.events(), [(g, 0, str(self.port)) for g in (1, 2, 3)])

    def test_dry_run_starts_nothing(self):
        os.mkdir(self.path("fence"))
        job = self.run_ok("--dry-run", "--nproc-per-node", "2", "--log-dir", self.path("logs"),
                          "--fence", self.path("fence"), self.worker("note ran"))
        self.assertEqual((self.events(), os.listdir(self.path("fence"))), ([], []))
        self.assertIn(self.path("worker"), job.stdout)
        self.assertFalse(os.path.exists(self.path("logs")))

    def test_help_and_version_end_with_0_on_stdout(self):
        for flag in ("--help", "-h", "--version"):
            job = self.run_ok(flag)
            self.assertEqual((job.stderr, job.stdout.split()[0]), ("", "usage:" if "h" in flag else "cxxrun"))

    def test_output_that_cannot_be_written_is_one_line_and_code_111(self):
        for words in (["--version"], ["--help"], ["--dry-run", "--standalone", "true"]):
            with open("/dev/full", "w") as full:
                job = self.run_job(*words, stdout=full)
            self.assertEqual((job.code, job.stderr),
                             (111, "cxxrun: cannot write to standard output: No space left on device\n"))

    def test_closed_standard_descriptors_do_no_harm(self):
        job = self.start("--standalone", "--watch", "off",
                             *self.python_worker("note(*sorted(map(int, os.listdir('/proc/self/fd'))))"),
                             preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
        self.assert_codes([0], job)
        self.assertEqual(self.words(), {0: ["0", "1", "2", "3"]})


if __name__ == "__main__":
    sys.exit(jobs.main())
