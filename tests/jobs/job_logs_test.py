"""Where the output of whole jobs goes: files, console, trouble with either. Usage: job_logs_test.py CXXRUN"""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys

import jobs
from jobs import JobCase, read

HOST = socket.gethostname().split(".")[0]
LINES = 25_000


class Files(JobCase):
    def setUp(self):
        super().setUp()
        self.logs = self.path("logs")

    def run_logged(self, program, *arguments, workers=2, **more):
        return self.run_job("--standalone", "--log-dir", self.logs, "--nproc-per-node", str(workers), *arguments, program,
                            **more)

    def found(self):
        """{path below the run's directory: text} of the workers' files."""
        [root] = glob.glob(f"{self.logs}/*_{HOST}*")
        return {name[len(root) + 1:]: read(name) for name in glob.glob(f"{root}/attempt_*/*/*.log")}

    def test_redirected_streams_go_to_files_named_by_generation_and_local_rank_only(self):
        program = self.worker('echo "out $RANK"; echo "err $RANK" >&2; test $CXXRUN_GENERATION = 2')
        job = self.run_logged(program, "-r", "3", code=0)
        files = self.found()
        for generation in (1, 2):
            for rank in (0, 1):
                for name, text in (("stdout", f"out {rank}\n"), ("stderr", f"err {rank}\n")):
                    file = f"attempt_{generation}/{rank}/{name}.log"
                    # In generation 1 the failure of one worker may come before the other has spoken.
                    self.assertIn(files.get(file), (text,) if generation == 2 else (text, "", None), file)
        self.assertEqual(job.stdout, "")
        self.assertNotIn("err ", job.stderr)

    def test_no_stream_goes_through_a_link_that_was_there_before(self):
        self.make_file("precious", "as it was")
        for flags in (("-r", "3"), ("-r", "2", "-t", "1")):
            program = self.worker('[ $CXXRUN_GENERATION = 2 ] && echo forged && exit 0\n'
                                  'next=$(echo $TORCHELASTIC_ERROR_FILE | sed s/attempt_1.*/attempt_2/)/0; mkdir -p $next\n'
                                  'ln -s $DIR/precious $next/stdout.log; exit 3')
            job = self.run_logged(program, *flags, workers=1, code=0)
            self.assertRegex(job.stderr, r"cannot write .*/attempt_2/0/stdout\.log.*: Too many levels of symbolic links")
            self.assertEqual(read(self.path("precious")), "as it was")

    def test_teed_streams_go_to_files_and_to_the_console_with_host_and_rank(self):
        job = self.run_logged(self.worker('echo "out $RANK"; echo "err $RANK" >&2'), "-t", "3")
        self.assertEqual(sorted(job.stdout.splitlines()), [f"[{HOST}:0] out 0", f"[{HOST}:1] out 1"])
        self.assertEqual(sorted(line for line in job.stderr.splitlines() if line.startswith("[")),
                         [f"[{HOST}:0] err 0", f"[{HOST}:1] err 1"])
        self.assertEqual(self.found(), {"attempt_1/0/stdout.log": "out 0\n", "attempt_1/0/stderr.log": "err 0\n",
                                        "attempt_1/1/stdout.log": "out 1\n", "attempt_1/1/stderr.log": "err 1\n"})

    def test_streams_are_chosen_by_local_rank(self):
        job = self.run_logged(self.worker('echo "out $RANK"; echo "err $RANK" >&2'), "-r", "0:1,1:2")
        self.assertEqual(job.stdout, f"[{HOST}:1] out 1\n")
        self.assertIn(f"[{HOST}:0] err 0", job.stderr)
        self.assertNotIn("err 1", job.stderr)
        self.assertEqual(self.found(), {"attempt_1/0/stdout.log": "out 0\n", "attempt_1/1/stderr.log": "err 1\n"})

    def test_the_filter_silences_the_other_local_ranks_on_the_console_but_not_in_files(self):
        job = self.run_logged(self.worker('echo "out $RANK"'), "-t", "3", "--local-ranks-filter", "1", workers=3)
        self.assertEqual(job.stdout, f"[{HOST}:1] out 1\n")
        self.assertEqual([self.found()[f"attempt_1/{rank}/stdout.log"] for rank in range(3)],
                         ["out 0\n", "out 1\n", "out 2\n"])

    def test_ranks_shows_those_of_the_whole_job_and_leaves_the_files(self):
        program = self.worker('echo "out $RANK"')
        agents = self.start_two("--log-dir", self.logs, "--nproc-per-node", "2", "-t", "3", "--ranks", "0,3-9", program)
        self.assert_codes([0, 0], *agents)
        self.assertEqual(sorted(agent.stdout for agent in agents), [f"[{HOST}:0] out 0\n", f"[{HOST}:3] out 3\n"])
        texts = [read(name) for name in glob.glob(f"{self.logs}/*/attempt_1/*/stdout.log")]
        self.assertEqual(sorted(texts), [f"out {rank}\n" for rank in range(4)])

    def check_rotated(self, directory, first, most):
        """The files of a worker that counts hold whole lines, none missing from `first` on; returns how many are full."""
        full = sorted(glob.glob(directory + "/stdout.log.*"), key=lambda name: int(name.rsplit(".", 1)[1]))
        texts = [read(name) for name in full] + [read(directory + "/stdout.log")]
        for text in texts:
            self.assertLessEqual(len(text), most)
            self.assertTrue(text.endswith("\n"))
        self.assertEqual([int(line) for line in "".join(texts).splitlines()][-1], 19_999)
        lines = [int(line) for line in "".join(texts).splitlines()]
        self.assertEqual(lines, list(range(lines[0], 20_000)))
        if first is not None:
            self.assertEqual(lines[0], first)
        return len(full)

    def test_files_are_rotated_by_size_and_no_line_is_lost_or_cut(self):
        program = self.python_worker("for i in range(20_000): print(i)")
        for option, first in (("8K", 0), ("8K:3", None)):
            logs = self.path("logs of " + option)
            job = self.run_job("--standalone", "--log-dir", logs, "-r", "1", "--log-rotate", option, *program)
            self.assertEqual((job.code, job.stderr.count("cannot")), (0, 0), job.stderr)
            [directory] = glob.glob(f"{logs}/*/attempt_1/0")
            full = self.check_rotated(directory, first, 8192)
            self.assertTrue(full == 3 if first is None else full > 10, full)

    def test_two_agents_with_one_log_directory_do_not_share_a_file(self):
        program = self.worker('echo "rank $RANK"')
        agents = self.start_two("--log-dir", self.logs, "--rdzv-id", "run7", "-r", "3", program)
        self.assert_codes([0, 0], *agents)
        texts = [read(name) for name in glob.glob(f"{self.logs}/run7_{HOST}*/attempt_1/0/stdout.log")]
        self.assertEqual(sorted(texts), ["rank 0\n", "rank 1\n"])

    def test_a_second_run_deletes_nothing_of_the_first(self):
        for text in ("first", "second"):
            self.run_job("--standalone", "--rdzv-id", "same", "--log-dir", self.logs, "-r", "3",
                         self.worker(f"echo {text}"), code=0)
        texts = [read(name) for name in glob.glob(f"{self.logs}/*/attempt_1/0/stdout.log")]
        self.assertEqual(sorted(texts), ["first\n", "second\n"])

    def test_the_verdict_is_in_the_log_directory_as_json(self):
        self.run_logged(self.worker("test $RANK = 0 || { echo broken >&2; exit 9; }\ngate never"),
                        "--max-restarts", "0", code=9)
        verdict = self.verdict(self.logs)
        self.assertEqual((verdict["verdict"], verdict["exit_code"], verdict["generation"]), ("worker failed", 9, 1))
        self.assertEqual([(f["rank"], f["exit_code"], f["stderr"].strip()) for f in verdict["failures"]],
                         [(1, 9, "broken")])


class Folded(JobCase):
    """Equal lines of the workers of one node."""

    COUNT = "for i in range(3000): print('step', i)\nprint('mine', RANK)"

    def expand(self, text, workers=8):
        """{rank: its lines}, and how many lines were folded."""
        ranks, folded = {rank: [] for rank in range(workers)}, 0
        for line in text.splitlines():
            label, said = re.fullmatch(r"\[(.*?)\] (.*)", line).groups()
            if label.startswith("×"):
                folded += 1
                listed = label.split(": ")[1] if ": " in label else f"0-{workers - 1}"
                spans = [span.split("-") for span in listed.split(",")]
                named = [rank for span in spans for rank in range(int(span[0]), int(span[-1]) + 1)]
                self.assertEqual(label.split(":")[0], f"×{len(named)}")
            else:
                named = [int(label.split(":")[1])]
            for rank in named:
                ranks[rank].append(said)
        return ranks, folded

    def test_equal_lines_of_eight_workers_are_folded_and_none_is_lost(self):
        job = self.run_job("--standalone", "--nproc-per-node", "8", *self.python_worker(self.COUNT), code=0)
        ranks, folded = self.expand(job.stdout)
        self.assertGreater(folded, 0)
        for rank, lines in ranks.items():
            self.assertEqual(lines, [f"step {i}" for i in range(3000)] + [f"mine {rank}"])

    def test_fewer_workers_and_fold_lines_off_leave_lines_alone(self):
        for workers, option in (("7", "auto"), ("8", "off")):
            job = self.run_job("--standalone", "--nproc-per-node", workers, "--fold-lines", option, self.worker("echo same"))
            self.assertEqual(sorted(job.stdout.splitlines()), [f"[{HOST}:{rank}] same" for rank in range(int(workers))])

    def test_what_is_held_stands_before_the_report(self):
        job = self.run_job("--standalone", "--nproc-per-node", "8", "--max-restarts", "0",
                           self.worker("echo the last words >&2; exit 3"), code=3)
        before, report = job.stderr.split("=" * 72, 1)
        self.assertIn("the last words", before)
        self.assertNotRegex(report, r"(?m)^\[")


class Console(JobCase):
    def check_flood(self, lines):
        """Every line of every rank is there, whole and in order."""
        seen = {}
        for line in lines:
            prefix, rank, number, filler = line.split(" ")
            self.assertEqual((prefix, filler), (f"[{HOST}:{rank}]", "x" * 60))
            seen.setdefault(int(rank), []).append(int(number))
        self.assertEqual(sorted(seen), [0, 1, 2, 3])
        for rank in seen:
            self.assertEqual(seen[rank], list(range(LINES)))

    FLOOD = "for i in range(%d): sys.stdout.write(f'{RANK} {i} ' + 'x' * 60 + '\\n')" % LINES

    def test_100000_lines_of_four_workers_arrive_whole_on_console_and_in_files(self):
        job = self.run_job("--standalone", "--nproc-per-node", "4", "-t", "1", "--log-dir", self.path("logs"),
                           *self.python_worker(self.FLOOD), code=0)
        self.check_flood(job.stdout.splitlines())
        for rank in range(4):
            [file] = glob.glob(self.path(f"logs/*/attempt_1/{rank}/stdout.log"))
            self.assertEqual(read(file), "".join(f"{rank} {i} {'x' * 60}\n" for i in range(LINES)))

    def test_100000_lines_arrive_whole_without_files(self):
        job = self.run_job("--standalone", "--nproc-per-node", "4", "--log-dir", "/dev/null",
                           *self.python_worker(self.FLOOD), code=0)
        self.check_flood(job.stdout.splitlines())

    def test_a_last_line_without_newline_arrives_before_the_others_next_line(self):
        job = self.run_job("--standalone", "--nproc-per-node", "2", self.worker('printf "last of $RANK"'))
        self.assertEqual(sorted(job.stdout.splitlines()), [f"[{HOST}:0] last of 0", f"[{HOST}:1] last of 1"])

    def test_the_words_of_a_worker_that_is_killed_arrive(self):
        job = self.run_job("--standalone", "--max-restarts=0", self.worker('echo before; printf "cut off"; kill -9 $$'),
                           code=137)
        self.assertEqual(job.stdout, f"[{HOST}:0] before\n[{HOST}:0] cut off\n")

    def test_a_grandchild_that_keeps_the_pipe_does_not_keep_the_job(self):
        program = self.worker("(trap '' TERM HUP; note child; sleep 1000) &\necho parent")
        job = self.run_job("--standalone", program, code=0)
        self.assertEqual(job.stdout, f"[{HOST}:0] parent\n")

    def test_a_failure_is_acted_upon_while_nobody_reads_the_console(self):
        # Rank 0 floods the console until its write blocks; rank 1 fails when the test lets it.
        self.make_gate("end")
        program = self.python_worker(f"""
note("start")
if GENERATION == "1" and RANK == "0":
    for i in range(100):
        sys.stdout.write("flood " * 20000 + "\\n")
        sys.stdout.flush()
        note("wrote", i)
    gate("never")
gate("go" if GENERATION == "1" else "end")
sys.exit(GENERATION == "1")""")
        job = self.start("--standalone", "--nproc-per-node", "2", *program, stdout=subprocess.PIPE)
        self.addCleanup(job.process.stdout.close)
        self.await_events(2, "start", 1)
        self.await_events(1, "wrote", 1)
        self.open_gate("go")
        self.await_events(2, "start", 2)  # with the console still unread
        self.open_gate("end")
        self.assertIn(b"flood", job.process.stdout.read())
        self.assert_codes([0], job)

    def test_a_console_that_is_gone_does_not_end_the_job(self):
        job = self.start("--standalone", self.worker('note start; gate go; echo "into the void"; echo more'),
                         stdout=subprocess.PIPE)
        self.await_events(1, "start")
        job.process.stdout.close()
        self.release(job)

    def test_output_that_is_lost_at_the_end_is_told_on_stderr(self):
        with open("/dev/full", "w") as full:
            job = self.run_job("--standalone", self.worker("echo into a full disk"), stdout=full)
        self.assertEqual(job.code, 0, job.stderr)
        self.assertIn("cxxrun: output of the workers is lost: the console was not read, or its disk is full\n", job.stderr)


class Trouble(JobCase):
    def assert_refused(self, *arguments, names, **more):
        job = self.run_job("--standalone", *arguments, self.worker("note ran"), **more, code=111)
        self.assertEqual(len(job.stderr.splitlines()), 1, job.stderr)
        for text in names:
            self.assertIn(text, job.stderr)
        self.assertEqual(self.events(), [])

    def test_a_log_directory_that_is_a_file_is_named_before_anything_starts(self):
        self.make_file("file")
        self.assert_refused("--log-dir", self.path("file"), names=(self.path("file"), "--log-dir"))
        self.assert_refused("--log-dir", self.path("file/below"), names=(self.path("file/below"), "--log-dir"))

    def test_a_log_directory_that_may_not_be_written_is_named_before_anything_starts(self):
        where = "/proc/nowhere"  # root may write everywhere else
        self.assert_refused("--log-dir", where, names=(where, "--log-dir"))

    def test_without_a_temporary_directory_there_is_still_tmp(self):
        self.run_job("--standalone", self.worker('note "$TORCHELASTIC_ERROR_FILE"'),
                     env={"TMPDIR": self.path("missing")}, code=0)
        file = self.events()[0][2]
        self.assertTrue(file.startswith("/tmp/cxxrun-"), file)
        self.assertFalse(os.path.exists(file.rsplit("/", 3)[0]))

    def test_a_run_whose_directory_is_taken_away_goes_on_without_files_with_one_line(self):
        logs = self.path("logs")
        job = self.run_job("--standalone", "--max-restarts", "1", "--nproc-per-node", "2", "--log-dir", logs, "-r", "3",
                           "--health-check", "true", self.worker(
                               'test $CXXRUN_GENERATION = 2 && echo "second $RANK" && exit 4\n'
                               "test $RANK = 0 || gate never\nmv $DIR/logs $DIR/away; exit 3"), code=4)
        said = [line for line in job.stderr.splitlines() if "attempt_2" in line]
        self.assertEqual(len(said), 1, job.stderr)
        self.assertRegex(said[0], r"cannot create the log directory .*: No such file or directory")
        self.assertRegex(job.stdout, rf"(?m)^\[{HOST}:[01]\] second [01]$")
        self.assertRegex(job.stderr, r"(?m)^  log:           not kept")

    def test_a_full_disk_at_run_time_is_said_once_per_file_and_the_job_goes_on(self):
        tiny = self.mount_small("size=64k,nr_inodes=24")
        program = self.python_worker("for i in range(5000): print(i, 'x' * 60)\nnote('done')")
        for how, shown in (("-t", 5000), ("-r", 0)):
            job = self.run_job("--standalone", "--max-restarts=0", how, "1", "--log-dir", tiny, *program, code=0)
            self.assertEqual(len(self.events("done")), 1)
            self.assertEqual(len(job.stdout.splitlines()), shown)
            said = [line for line in job.stderr.splitlines() if tiny in line]
            files = [name for line in said for name in ("stdout.log", "events.jsonl", "verdict.json") if name in line]
            self.assertIn("stdout.log", files)
            self.assertEqual(len(said), len(set(files)), job.stderr)
            for line in said:
                self.assertIn("No space left", line)
            os.unlink(self.path("events"))
            shutil.rmtree(tiny, ignore_errors=True)  # but the mount point

    def test_a_console_file_on_a_full_disk_goes_on_when_there_is_room(self):
        tiny = self.mount_small("size=64k,nr_inodes=24")
        out, ballast = tiny + "/out", tiny + "/ballast"
        with self.assertRaises(OSError), open(ballast, "wb", 0) as file:
            file.write(b"x" * 65536)
            file.write(b"x")
        much = "yes a line | head -c 8000000"  # more than pipes and console hold
        program = self.worker(f"{much}; note wrote; gate room\nuntil [ -e $DIR/seen ]; do echo later; sleep 0.05; done")
        with open(out, "w") as console:
            job = self.start("--standalone", program, stdout=console)
        self.await_events(1, "wrote")
        subprocess.run(["mount", "-o", "remount,size=64m", tiny], check=True)  # also for what is still in the pipes
        self.open_gate("room")
        jobs.wait_until(lambda: "later" in read(out), "lines in the file that had no room")
        self.make_file("seen")
        self.assert_codes([0], job)
        self.assertRegex(read(out), r"(?m)^cxxrun: [0-9]+ bytes of output are missing here: the disk was full$")
        self.assertIn("output of the workers is lost", job.stderr)

    def test_a_full_disk_at_the_start_is_one_line_and_code_111(self):
        tiny = self.mount_small("size=64k,nr_inodes=24")
        with self.assertRaises(OSError):
            for number in range(100):
                os.mkdir(f"{tiny}/{number}")
        self.assert_refused("--log-dir", f"{tiny}/logs", names=(f"{tiny}/logs", "--log-dir"))


if __name__ == "__main__":
    sys.exit(jobs.main())
