"""tests/gpu/lease: without a GPU every row says so; on the double every row that can runs. Usage: BUILD_DIR DOUBLE NVCC"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from leases import BUILD, DOUBLE, LEASE, MINE, PATIENT, Table, lease, listed

from jobs import processes_with
from rows import ROWS
from torch_rows import FIRST, SECOND

NVCC = sys.argv[3]
OF_TORCH = {*FIRST, *SECOND}  # lease_torch_test.py has those
OF_TWO = ("survival", "stop", "fault", "capture", "large", "abort-memory")
ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MAX_CTAS": "2", "NCCL_MNNVL_ENABLE": "0"}


def planned(*words):
    """[(name, commands)] of a dry run."""
    done = lease("--dry-run", "--build", BUILD, *words)
    rows = []
    for line in done.stdout.splitlines():
        if line.startswith("  "):
            rows[-1][1].append(line.strip())
        else:
            rows.append((line.split(":")[0], []))
    return rows


class GpuLease(unittest.TestCase):
    def test_without_a_gpu_every_row_says_so(self):
        for words in ([], ["--second"]):
            table = Table("--preload", DOUBLE, *words, script="driver=missing")
            self.assertEqual(table.code, 77)
            self.assertIn("on a stand-in for the GPU", table.files["table.md"])
            for name, result in table.rows.items():
                self.assertRegex(result, "^no GPU: CUDA driver version is insufficient", name)

    def test_without_the_double_it_is_the_same_or_there_is_a_gpu(self):
        table = Table("--only", "machine")
        self.assertIn(table.code, (0, 77))
        self.assertEqual(table.code == 77, table.rows["machine"].startswith("no GPU"))

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_where_there_is_no_cuda_either_every_row_says_which_library_is_missing(self):
        said = "gpu_check: error while loading shared libraries: libcudart.so.13: cannot open shared object file"
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tests/gpu_check", "lib/libcxxrun_cuda.so"):
                file = pathlib.Path(folder, name)
                file.parent.mkdir()
                file.write_text(f"#!/bin/sh\necho '{said}'\nexit 127\n")
                file.chmod(0o755)
            table = Table(build=folder)
        self.assertEqual(table.code, 77)
        self.assertEqual(set(table.rows.values()), {"no GPU: " + said})

    def test_what_is_written_is_what_is_printed(self):
        table = Table("--quick", "--preload", DOUBLE, "--only", "alone,machine", "--only", "all-reduce-1")
        self.assertEqual(list(table.rows), ["alone", "machine", "all-reduce-1"])
        self.assertEqual(table.files["table.md"], table.stdout)
        for name, result in table.rows.items():
            self.assertRegex(table.stdout, rf"(?m)^\| {name} \| .* \| {re.escape(result)} \| [\d.]+ \|$")
        for words in (" all-reduce --quick", "ns for each bucket", "# ended with 0"):
            self.assertIn(words, table.files["said.txt"])
        self.assertIn("$ uname -a", table.files["machine.txt"])

    def test_on_the_double_everything_runs(self):
        names = [name for name in ROWS if name != "overlap" and name not in OF_TORCH]
        table = Table("--quick", "--preload", DOUBLE, *PATIENT, "--only", ",".join(names), script="deaths=seen,devices=1")
        self.assertEqual(table.code, 0, table.rows)
        rows = table.rows
        self.assertEqual(list(rows), names)
        self.assertIn("Double of a GPU", rows.pop("machine"))
        for name in ("memcheck", "racecheck"):
            self.assertRegex(rows.pop(name), "^not run|ok")
        self.assertRegex(rows.pop("trainer"), "^final loss .* after 20 steps")
        for part in ("noticed", "remote process exited", "drained in", "a new communicator in", "aborted in"):
            self.assertIn(part, rows["survival"])
        for name in ("stack-kill", "stack-stop"):
            self.assertRegex(rows[name], "^ok: final loss .*, as undisturbed; 1 of 1 times, ")
        for name, part in (("stop", "^3 aborts: drained in .*; median"),
                           ("fault", "thrown after .*; rebuilt in .*; ok: rank 1 has died"),
                           ("capture", "under way; the capture ended with cudaSuccess"),
                           ("large", "^16 MiB of gradients: steps of .*; afterwards .*Vm"),
                           ("abort-memory", "free after 4 aborts: 0.0 MiB less"),
                           ("driver", r"cudaFree [\d.]+ ms: [^;]*; \d+ answers of cudaEventQuery")):
            self.assertRegex(rows[name], part)
        for name in ("kernels", "kernels-quick"):
            self.assertNotIn("GB/s", rows[name])  # of small sizes they say nothing
        for name, result in rows.items():
            self.assertRegex(result, "(^|; )ok", name)

    def test_on_the_double_buckets_are_done_beside_the_computation(self):
        said = "buckets wait"
        while "buckets wait" in said:  # for a processor, on a machine that is that busy
            said = Table("--quick", "--preload", DOUBLE, "--only", "overlap").rows["overlap"]
        self.assertRegex(said, "ok: buckets are done while the next ones are computed$")

    def test_what_repeats_does_so_as_often_as_its_time_allows(self):
        table = Table("--preload", DOUBLE, "--only", "stop", "--limit", "7")
        self.assertEqual(table.code, 0, table.rows)
        aborts = re.match(r"(\d+) aborts: drained .*; ok", table.rows["stop"])
        self.assertLess(int(aborts[1]), 20)  # of 0.3 s each, in 2 s
        self.assertIn("- abort 1: ", table.files["said.txt"])

    def test_when_the_time_is_over_what_runs_is_ended_and_the_rest_is_not_begun(self):
        seconds = 15
        table = None
        while table is None or table.rows["stack"].startswith("not run"):  # a busy machine takes long to describe itself
            table = Table("--preload", DOUBLE, "--seconds", str(seconds), "--only", "stack,alone", script="init=stuck,devices=1")
            limit, seconds = seconds, seconds * 2
        self.assertEqual(table.code, 1, table.rows)
        self.assertRegex(table.rows["stack"], "^wrong: not done within the row's time|^wrong: the job ended with nothing")
        self.assertEqual(table.rows["alone"], "not run: the time for all rows was over")
        self.assertLess(table.seconds, limit + 10)
        self.assertEqual(processes_with(MINE), [])

    def test_calls_that_wait_behind_a_kernel_are_told_with_those_that_wait_for_them(self):
        said = "came too late"
        while "came too late" in said:  # the kernel was over before the call, on a machine that is that busy
            table = Table("--quick", "--preload", DOUBLE, "--only", "driver", script="driver=locks")
            self.assertEqual(table.code, 0, table.rows)
            said = table.rows["driver"]
        for call in ("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost"):
            longest = re.search(call + r" [\d.]+ ms: waits; \d+ answers of cudaEventQuery meanwhile, the longest question ([\d.]+)",
                                said)
            self.assertIsNotNone(longest, said)
            self.assertGreater(float(longest[1]), 10, said)  # of 50: who asks stands behind the call

    def test_by_arithmetic_the_kernels_are_as_fast_as_the_memory_where_there_are_units_for_f64(self):
        done = subprocess.run([LEASE.with_name("estimate"), "--nvcc", NVCC], text=True, stdout=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()]
        needs = {row[0]: dict(zip(rows[0][1:], row[1:])) for row in rows if len(row) == len(rows[0])}
        self.assertEqual(len(needs), 1 + 14)  # encode, decode, scale, multiply and squares of each type, and the heading
        self.assertLess(int(needs["scale f32"]["H200"]), int(needs["squares f16"]["H200"]))
        self.assertGreater(int(needs["squares f16"]["T4"]), 111)

    def test_a_job_that_goes_wrong_has_its_words_in_the_row(self):
        table = Table("--quick", "--preload", DOUBLE, "--only", "capture", script="devices=1,error=1")
        self.assertEqual(table.code, 1)
        self.assertRegex(table.rows["capture"], "^wrong; .*the job ended with [1-9]")

    def test_a_dry_run_says_what_each_row_would_start(self):
        rows = planned() + planned("--second")
        self.assertEqual(sorted(name for name, _ in rows), sorted(listed()))
        for name, commands in rows:
            self.assertTrue(commands, name)
            if name in OF_TORCH:
                continue
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

    def test_a_row_that_is_not_there_is_named(self):
        done = lease("--only", "machine,nosuch")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no row nosuch", done.stderr)

    def test_a_row_that_does_not_end_is_wrong_and_nothing_of_it_is_left(self):
        table = Table("--quick", "--preload", DOUBLE, "--only", "stack,alone", "--limit", "3", script="init=stuck,devices=1")
        self.assertEqual(table.code, 1, table.rows)
        self.assertRegex(table.rows["stack"], "^wrong: not done within the row's time, after step 0")
        self.assertRegex(table.rows["alone"], "ok$")
        self.assertEqual(processes_with(MINE), [])

    def test_a_loss_that_is_not_noticed_is_said(self):
        table = Table("--quick", "--preload", DOUBLE, "--only", "survival")
        self.assertEqual(table.code, 0, table.rows)
        self.assertIn("not noticed within 5 s", table.rows["survival"])

    def test_a_tool_that_cannot_look_at_the_device_finds_nothing_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "compute-sanitizer")
            for said, code, result in (("Error: Device not supported", 0, "not run: Error: Device not supported"),
                                       ("Race reported", 1, "wrong")):
                tool.write_text(f"#!/bin/sh\necho '========= {said}'\nexit 9\n")
                tool.chmod(0o755)
                table = Table("--quick", "--preload", DOUBLE, "--only", "racecheck", PATH=folder + ":" + os.environ["PATH"])
                self.assertEqual(table.code, code, table.rows)
                self.assertRegex(table.rows["racecheck"], "^" + result)

    def test_what_is_carried_is_small_and_is_found_where_there_is_no_build(self):
        with tempfile.TemporaryDirectory() as folder:
            release = pathlib.Path(folder, "build/release")
            release.parent.mkdir()
            release.symlink_to(BUILD)
            carried = lease("--carry", cwd=folder)
            self.assertLess(float(re.search(r"carry: ([\d.]+) MiB", carried.stdout)[1]), 40)
            self.assertEqual([os.path.exists(f"{folder}/build/carry/{file}")
                              for file in ("lib/libcxxrun_c.so.0", "python/cxxrun/torch/_elastic.py")], [True, True])
            release.unlink()
            table = Table("--quick", "--preload", DOUBLE, "--only", "all-reduce-1", build=f"{folder}/build/carry")
            self.assertEqual(table.code, 0, table.rows)
            self.assertIn(folder + "/build/carry/bin/examples/train_cuda", lease("--dry-run", cwd=folder).stdout)

    def test_a_build_that_lacks_what_is_carried_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = lease("--carry", "--build", folder + "/build")
        self.assertEqual(done.returncode, 2)
        self.assertIn("not built in " + folder + "/build: tests/gpu_check, ", done.stderr)

    def test_what_goes_wrong_is_in_its_row_and_in_the_exit_code(self):
        table = Table("--quick", "--preload", DOUBLE, "--only", "all-reduce-2,alone", script="init=2")
        self.assertEqual(table.code, 1)
        self.assertIn("unhandled system error", table.rows["all-reduce-2"])
        self.assertIn("ok", table.rows["alone"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
