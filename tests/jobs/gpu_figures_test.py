"""The GPUs of workers in cxxrunctl, by a stand-in for NVIDIA's library.
Usage: gpu_figures_test.py CXXRUN CXXRUNCTL DIRECTORY_OF_THE_NVML_DOUBLE"""
import os
import pathlib
import sys

import jobs
from jobs import processes_with, read, wait_until
from live_jobs import LiveCase

NVML = os.path.abspath(sys.argv.pop(2))
STALLED = "the GPU driver does not answer"
WORKER = """
note("up")
while not os.path.exists(DIR + "/over"):
    time.sleep(0.01)
"""


class GpuFigures(LiveCase):
    def begin_with(self, mood, **more):
        """Two workers: rank 0 uses GPU 1, rank 1 GPU 0."""
        job = self.start_node("--nproc-per-node=2", "--rdzv-id", self.run_id(), *self.python_worker(WORKER), nnodes="1",
                              env={"LD_LIBRARY_PATH": NVML, "NVML_DOUBLE": mood, "CUDA_VISIBLE_DEVICES": "1,GPU-2f2c8d6a",
                                   **more})
        self.await_events(2, "up")
        return job

    def end_well(self, job):
        self.make_file("over")
        self.assertEqual(job.wait(), 0, job.stderr)

    def figures(self):
        return [[worker.get(name) for name in ("gpu_percent", "gpu_mhz", "gpu_max_mhz", "throttled")]
                for worker in self.table(self.run_id())["workers"]]

    def askers(self):
        return [pid for pid in processes_with(self.marker) if "--tell-gpus" in read(f"/proc/{pid}/cmdline").split("\0")]

    def test_each_rank_has_the_figures_of_its_own_gpu_while_somebody_watches(self):
        job = self.begin_with("hot")
        self.assertEqual(self.askers(), [])  # nobody has looked
        wait_until(lambda: self.figures() == [[97, 1290, 1980, "heat"], [61, 1980, 1980, ""]], "both GPUs are known")
        screen = self.ctl("status", self.run_id()).splitlines()
        self.assertLessEqual(len(screen), 24)
        self.assertLessEqual(max(map(len, screen)), 80)
        head = next(n for n, line in enumerate(screen) if line.startswith("node "))
        self.assertRegex(screen[head], "  CPU  GPU state$")
        self.assertRegex(screen[head + 1], r"%  61% [RSD]+$")
        metrics = self.ctl("metrics", self.run_id())
        self.assertRegex(metrics, r'cxxrun_rank_gpu_ratio\{run="\S+",rank="0",host="\S+"\} 0\.97\n')
        self.assertRegex(metrics, r'cxxrun_gpu_throttled\{run="\S+",rank="0",host="\S+",why="heat"\} 1\n')
        self.assertNotRegex(metrics, r'cxxrun_gpu_throttled\{run="\S+",rank="1"')
        self.assertEqual(len(self.askers()), 1)
        wait_until(lambda: not self.askers(), "nobody looks any more")
        self.end_well(job)

    def test_a_driver_that_does_not_answer_is_told_and_holds_up_neither_the_view_nor_the_end(self):
        gate = pathlib.Path(self.path("stalled"))
        gate.touch()
        job = self.begin_with("stalls", NVML_STALLED=str(gate))
        says = lambda: self.table(self.run_id())["says"]
        wait_until(lambda: STALLED in says(), "it is told that the driver does not answer")
        job.says(STALLED)
        self.assertEqual(self.figures(), [[None] * 4] * 2)
        self.ctl("status", "--check", self.run_id())
        gate.unlink()
        wait_until(lambda: STALLED not in says() and self.figures()[1][0] == 61, "it answers again")
        gate.touch()
        wait_until(lambda: STALLED in says(), "it does not answer any more")
        self.end_well(job)

    def test_without_a_driver_the_view_is_as_ever_and_nobody_asks_again(self):
        job = self.begin_with("mismatch")
        self.await_table(self.run_id(), lambda table: len(table["workers"]) == 2, "both workers are told of")
        wait_until(lambda: not self.askers(), "the one that has asked has ended")
        self.assertEqual(self.figures(), [[None] * 4] * 2)
        self.assertIn("  CPU state\n", self.ctl("status", self.run_id()))
        self.assertEqual(self.askers(), [])
        self.end_well(job)


if __name__ == "__main__":
    jobs.main()
