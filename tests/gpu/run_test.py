"""tests/gpu/run: without a GPU every row says so; on the double every row that can runs. Usage: BUILD_DIR DOUBLE NVCC"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "jobs"))
from jobs import MARKER, processes_with  # noqa: E402

BUILD, DOUBLE, NVCC = sys.argv[1:4]
MINE = f"gpu-run-{os.getpid()}"
RUN = pathlib.Path(__file__).with_name("run")


OF_TWO = ("survival", "stop", "fault", "capture", "large", "abort-memory")
ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MAX_CTAS": "2", "NCCL_MNNVL_ENABLE": "0"}


def dry(*words):
    return subprocess.run([sys.executable, RUN, "--dry-run", *words, BUILD], text=True, capture_output=True, check=False)


def rows_of(text):
    """[(name, commands)] of a dry run."""
    rows = []
    for line in text.splitlines()[:-1]:
        if line.startswith("  "):
            rows[-1][1].append(line.strip())
        else:
            rows.append((line.split(":")[0], []))
    return rows


def table(*words, script="", build=(BUILD,), cwd=None, **variables):
    """(exit code, {what: result})"""
    environment = dict(os.environ, CXXRUN_CUDA_DOUBLE=script, **{MARKER: MINE}, **variables)
    done = subprocess.run([sys.executable, RUN, *words, *build], env=environment, cwd=cwd, text=True, stdout=subprocess.PIPE,
                          timeout=400, check=False)
    rows = [line.strip("| ").split(" | ", 1) for line in done.stdout.splitlines()[2:]]
    return done.returncode, dict(rows)


class GpuRun(unittest.TestCase):
    def test_without_a_gpu_every_row_says_so(self):
        code, rows = table("--quick", "--preload", DOUBLE, script="driver=missing")
        self.assertEqual(code, 77)
        self.assertEqual(len(rows), 21)
        for what, result in rows.items():
            self.assertRegex(result, "^no GPU: CUDA driver version is insufficient", what)

    def test_without_the_double_it_is_the_same_or_there_is_a_gpu(self):
        code, rows = table("--quick", "--only", "machine")
        self.assertIn(code, (0, 77))
        self.assertEqual(code == 77, rows["the machine"].startswith("no GPU"))

    def test_on_the_double_everything_runs(self):
        code, rows = table("--quick", "--preload", DOUBLE, script="deaths=seen,devices=1")
        self.assertEqual(code, 0, rows)
        self.assertIn("Double of a GPU", rows.pop("the machine"))
        for what in ("memory", "races"):
            self.assertRegex(rows.pop("compute-sanitizer: " + what), "^not run|ok")
        self.assertRegex(rows.pop("the trainer on CUDA"), "^final loss .* after 20 steps")
        killed = rows["SIGKILL of one of two ranks: abort, rebuild"]
        for part in ("noticed", "remote process exited", "aborted in", "a new communicator in"):
            self.assertIn(part, killed)
        for what in ("killed", "stopped"):
            self.assertIn(rows["the whole stack, two ranks on one GPU"] + ", as undisturbed; 1 times, ",
                          rows["the same, a rank " + what])
        for what, part in (("SIGSTOP of one of two ranks: abort", "3 aborts: median"),
                           ("a kernel of one rank fails: its end, rebuild", "thrown after .*; rebuilt in .*; ok: rank 1 has died"),
                           ("a capture in global mode beside calls", "under way; the capture ended with cudaSuccess"),
                           ("1 GiB of gradients: memory of the host, steps", "^16 MiB of gradients: steps of .*; afterwards .*Vm"),
                           ("50 aborts: memory of the GPU", "free after 4 aborts: 0.0 MiB less"),
                           ("calls of the driver beside a kernel, without NCCL", r"cudaFree [\d.]+ ms: [^;]*; \d+ answers of cudaEventQuery")):
            self.assertRegex(rows[what], part)
        for what, result in rows.items():
            self.assertRegex(result, "(^|; )ok", what)

    def test_calls_that_wait_behind_a_kernel_are_told_with_those_that_wait_for_them(self):
        said = "came too late"
        while "came too late" in said:  # the kernel was over before the call, on a machine that is that busy
            code, rows = table("--quick", "--preload", DOUBLE, "--only", "driver", script="driver=locks")
            self.assertEqual(code, 0, rows)
            said = rows["calls of the driver beside a kernel, without NCCL"]
        for call in ("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost"):
            longest = re.search(call + r" [\d.]+ ms: waits; \d+ answers of cudaEventQuery meanwhile, the longest question ([\d.]+)",
                                said)
            self.assertIsNotNone(longest, said)
            self.assertGreater(float(longest[1]), 10, said)  # of 50: who asks stands behind the call

    def test_by_arithmetic_the_kernels_are_as_fast_as_the_memory_where_there_are_units_for_f64(self):
        done = subprocess.run([RUN.with_name("estimate"), "--nvcc", NVCC], text=True, stdout=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
        needs = {row[0]: dict(zip(rows[0][1:], row[1:])) for row in rows if len(row) == len(rows[0])}
        self.assertEqual(len(needs), 1 + 14)  # encode, decode, scale, multiply and squares of each type, and the heading
        self.assertLess(int(needs["scale f32"]["H200"]), int(needs["squares f16"]["H200"]))
        self.assertGreater(int(needs["squares f16"]["T4"]), 111)

    def test_a_job_that_goes_wrong_has_its_words_in_the_row(self):
        code, rows = table("--quick", "--preload", DOUBLE, "--only", "capture", script="devices=1,error=1")
        self.assertEqual(code, 1)
        self.assertRegex(rows["a capture in global mode beside calls"], "^wrong; .*the job ended with [1-9]")

    def test_a_dry_run_says_what_each_row_would_start(self):
        self.assertEqual(dry().returncode, 0)
        done = dry("--preload", DOUBLE)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = rows_of(done.stdout)
        listed = subprocess.run([sys.executable, RUN, "--list"], text=True, stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual([name for name, _ in rows], [line.split(":")[0] for line in listed.splitlines()])
        for name, commands in rows:
            self.assertTrue(commands, name)
            if commands[0].startswith("not run: "):
                continue
            for command in commands:
                words = dict(word.split("=", 1) for word in shlex.split(command) if "=" in word)
                programs = [word for word in shlex.split(command) if word.startswith(BUILD)]
                self.assertTrue(all(map(os.path.exists, programs)) and programs, command)
                if name.endswith("-2") or name in OF_TWO or name.startswith("stack"):
                    self.assertEqual([words.get(name) for name in ONE_GPU], list(ONE_GPU.values()), command)
        commands = dict(rows)
        self.assertEqual([len(commands[name]) for name in ("alone", "all-reduce-2", "survival", "stack")], [1, 2, 3, 1])
        hosts = [re.search(r"NCCL_HOSTID=(\S+)", command)[1] for command in commands["all-reduce-2"]]
        self.assertEqual(len(set(hosts)), 2)
        for name in ("stack", "stack-kill", "stack-stop", "fault", "capture", "large"):
            self.assertIn("NCCL_HOSTID=cxxrun-$$ exec", commands[name][0])

    def test_pieces_are_all_rows_and_none_takes_more_than_nine_minutes(self):
        names, number = [], 0
        while (done := dry("--piece", str(number + 1))).returncode == 0:
            number += 1
            names += [name for name, _ in rows_of(done.stdout)]
            self.assertLessEqual(int(re.search(r"at most (\d+) s with", done.stdout)[1]), 9 * 60)
        self.assertEqual(names, [name for name, _ in rows_of(dry().stdout)])
        self.assertIn("invalid choice", done.stderr)

    def test_a_row_that_does_not_end_is_wrong_and_nothing_of_it_is_left(self):
        code, rows = table("--quick", "--preload", DOUBLE, "--only", "stack", "--limit", "3", script="init=stuck,devices=1")
        self.assertEqual(code, 1)
        self.assertIn("wrong: the job ended with nothing: it still runs", rows["the whole stack, two ranks on one GPU"])
        self.assertEqual(processes_with(MINE), [])

    def test_a_loss_that_is_not_noticed_is_said(self):
        code, rows = table("--quick", "--preload", DOUBLE, "--only", "survival")
        self.assertEqual(code, 0, rows)
        self.assertIn("not noticed within 5 s", rows["SIGKILL of one of two ranks: abort, rebuild"])

    def test_a_tool_that_cannot_look_at_the_device_finds_nothing_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "compute-sanitizer")
            for said, code, result in (("Error: Device not supported", 0, "not run: Error: Device not supported"),
                                       ("Race reported", 1, "wrong")):
                tool.write_text(f"#!/bin/sh\necho '========= {said}'\nexit 9\n")
                tool.chmod(0o755)
                got, rows = table("--quick", "--preload", DOUBLE, "--only", "racecheck",
                                  PATH=folder + ":" + os.environ["PATH"])
                self.assertEqual(got, code, rows)
                self.assertRegex(rows["compute-sanitizer: races"], "^" + result)

    def test_what_is_carried_is_small_and_is_found_where_there_is_no_build(self):
        with tempfile.TemporaryDirectory() as folder:
            release = pathlib.Path(folder, "build/release")
            release.parent.mkdir()
            release.symlink_to(BUILD)
            carried = subprocess.run([sys.executable, RUN, "--carry"], cwd=folder, text=True, capture_output=True, check=True)
            self.assertLess(float(re.search(r"carry: ([\d.]+) MiB", carried.stdout)[1]), 40)
            release.unlink()
            code, rows = table("--quick", "--preload", DOUBLE, "--only", "all-reduce-1", build=(), cwd=folder)
            self.assertEqual(code, 0, rows)
            planned = subprocess.run([sys.executable, RUN, "--dry-run"], cwd=folder, text=True, capture_output=True, check=True)
            self.assertNotIn("in the build", planned.stdout)
            self.assertIn(folder + "/build/carry/bin/examples/train_cuda", planned.stdout)

    def test_a_build_that_lacks_what_is_carried_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, RUN, "--carry", folder + "/build"], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not built in " + folder + "/build: tests/gpu_check, ", done.stderr)

    def test_what_goes_wrong_is_in_its_row_and_in_the_exit_code(self):
        code, rows = table("--quick", "--preload", DOUBLE, "--only", "all-reduce-2", "--only", "alone",
                           script="init=2")
        self.assertEqual(code, 1)
        self.assertIn("unhandled system error", rows["all_reduce, two ranks on one GPU"])
        self.assertIn("ok", rows["world of one: cost of a bucket"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
