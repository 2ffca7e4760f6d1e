"""Options that newer releases of torchrun have, in whole jobs. Usage: torchrun_flags_test.py CXXRUN"""
import glob
import os
import signal
import socket
import subprocess

import jobs
from jobs import JobCase, read

HOST = socket.gethostname().split(".")[0]
COMPLETIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/completion")


class Flags(JobCase):
    def run_alone(self, *arguments, workers=2, **more):
        job = self.run_job("--standalone", "--nproc-per-node", str(workers), *arguments, **more, code=0)
        return job

    def test_each_worker_is_local_rank_0_of_its_own_device(self):
        worker = self.worker("note $LOCAL_RANK $LOCAL_WORLD_SIZE $CUDA_VISIBLE_DEVICES $1")
        self.run_alone("--virtual-local-rank", worker, "${local_rank}", env={"CUDA_VISIBLE_DEVICES": "5, 3 ,7"})
        self.assertEqual(sorted(self.events()), [(1, 0, "0", "2", "5", "0"), (1, 1, "0", "2", "3", "1")])

    def test_a_script_of_any_name_runs_with_run_path(self):
        self.python_worker('note("ran", *sys.argv[1:])', name="script")
        self.run_alone("--run-path", "--no-python", "--redirect", "0", self.path("script"), "a", "--redirect", workers=1,
                       env={"PYTHON_EXEC": "/usr/bin/python3"})
        self.assertEqual(self.events(), [(1, 0, "ran", "a", "--redirect")])

    def test_lines_begin_as_the_template_says(self):
        worker = self.worker("echo said")
        template = "${role_name} ${local_rank} ${rank} ${hostname}: "
        for flags, env in ((["--log_line_prefix_template", template], None),
                           ([], {"PET_LOG_LINE_PREFIX_TEMPLATE": template}),
                           ([], {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": template})):
            job = self.run_alone("--role", "r", *flags, worker, env=env)
            self.assertEqual(sorted(job.stdout.splitlines()), [f"r 0 0 {HOST}: said", f"r 1 1 {HOST}: said"])

    def filtered(self, *flags, body='echo "out $RANK"; echo other; printf "error $RANK" >&2'):
        logs = self.path("logs")
        self.run_alone("--log-dir", logs, *flags, self.worker(body))
        [root] = glob.glob(f"{logs}/*_{HOST}")
        os.rename(root, root + "-seen")
        return {name.rsplit("/", 1)[1]: sorted(read(name).splitlines())
                for name in glob.glob(f"{root}-seen/attempt_1/filtered_*.log")}

    def test_lines_with_a_word_are_duplicated_to_a_file_of_all_workers(self):
        self.assertEqual(self.filtered("--duplicate-stdout-filters", "out,absent"),
                         {"filtered_stdout.log": [f"[{HOST}:0] out 0", f"[{HOST}:1] out 1"]})
        self.assertEqual(self.filtered("--duplicate-stderr-filters=error 1", "--tee", "3"),
                         {"filtered_stderr.log": [f"[{HOST}:1] error 1"]})
        self.assertEqual(self.filtered("--duplicate-stdout-filters", "absent"), {"filtered_stdout.log": []})
        self.assertEqual(self.filtered("--duplicate-stdout-filters", "out", "--redirects", "3"), {})
        self.assertEqual(self.filtered(), {})

    def test_a_filter_that_matches_every_line_copies_the_console(self):
        lines = 20_000
        found = self.filtered("--duplicate-stdout-filters", "t", body=f"seq -f 't %.0f' {lines}")
        self.assertEqual(found["filtered_stdout.log"],
                         sorted(f"[{HOST}:{rank}] t {i}" for rank in (0, 1) for i in range(1, lines + 1)))

    def test_a_filter_alone_keeps_the_temporary_directory(self):
        job = self.run_alone("--duplicate-stdout-filters", "out", self.worker("echo out"), workers=1)
        self.assertIn("logs are in ", job.stderr)
        [file] = glob.glob(f"{self.dir}/cxxrun-*/attempt_1/filtered_stdout.log")
        self.assertEqual(read(file), f"[{HOST}:0] out\n")

    def test_a_signal_that_is_named_stops_the_job(self):
        worker = self.worker("trap 'note saved; exit 0' USR1; note up; while :; do sleep 0.05; done")
        job = self.start("--standalone", "--nproc-per-node", "2", "--signals-to-handle", "SIGTERM,SIGUSR1", worker)
        self.await_events(2, "up")
        job.process.send_signal(signal.SIGUSR1)
        self.assertEqual(job.wait(), 128 + signal.SIGUSR1, job.stderr)
        self.assertEqual(sorted(self.events("saved")), [(1, 0, "saved"), (1, 1, "saved")])

    def test_the_completion_is_that_of_the_file(self):
        for shell, name in (("bash", "cxxrun.bash"), ("zsh", "_cxxrun"), ("fish", "cxxrun.fish")):
            printed = subprocess.run([jobs.CXXRUN, "--print-completion", shell], capture_output=True, text=True)
            self.assertEqual((printed.returncode, printed.stdout, printed.stderr),
                             (0, read(f"{COMPLETIONS}/{name}"), ""))

    def test_what_torchrun_names_itself_is_taken(self):
        job = self.run_alone("--event-log-handler=null", "--logs_specs=default", "--rdzv-conf='timeout=5'",
                             "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT", self.worker("note ran"), workers=1)
        self.assertEqual(self.events(), [(1, 0, "ran")])
        for name in ("--event-log-handler", "--logs-specs", "--rdzv-conf timeout"):
            self.assertIn(f"{name} has no effect: ", job.stderr)


class BadInput(JobCase):
    def refused(self, text, *arguments, env=None):
        with self.subTest(text):
            job = self.run_job("--standalone", *arguments, self.worker("note ran"), env=env, code=100)
            self.assertEqual(len(job.stderr.splitlines()), 1, job.stderr)
            self.assertIn(text, job.stderr)
            self.assertEqual(self.events(), [])

    def test_wrong_values_are_one_line_before_anything_starts(self):
        self.refused("CUDA_VISIBLE_DEVICES=0 has no device for local rank 1", "--virtual-local-rank",
                     "--nproc-per-node=2", env={"CUDA_VISIBLE_DEVICES": "0"})
        self.refused("takes no value", "--virtual-local-rank=yes")
        self.refused("PET_VIRTUAL_LOCAL_RANK=true: 0 or 1 is expected", env={"PET_VIRTUAL_LOCAL_RANK": "true"})
        self.refused("no GPU of Intel's is visible here", "--nproc-per-node", "xpu", env={"ZE_AFFINITY_MASK": ""})
        self.refused("an empty word is in every line", "--duplicate-stdout-filters", "a,")
        self.refused("drop --log-dir /dev/null", "--duplicate-stderr-filters", "a", "--log-dir", "/dev/null")
        self.refused("'SIGNOPE': SIGTERM, SIGINT", "--signals-to-handle", "SIGTERM,SIGNOPE")
        self.refused("'SIGKILL': SIGTERM, SIGINT", "--signals-to-handle", "SIGKILL")
        self.refused("null or console is expected", "--event-log-handler", "scuba")
        self.refused("default is expected", "--logs-specs", "mine")
        self.refused("bash, zsh or fish is expected", "--print-completion", "tcsh")
        self.refused("it may be --duplicate-stdout-filters or --duplicate-stderr-filters", "--duplicate", "a")

    def test_a_script_of_run_path_that_is_not_there_is_named(self):
        job = self.run_job("--standalone", "--nproc-per-node=1", "--max-restarts=0", "--run-path", "/nowhere/script",
                           code=127)
        self.assertIn("cannot read the script '/nowhere/script'", job.stderr)


if __name__ == "__main__":
    jobs.main()
