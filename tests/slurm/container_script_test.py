"""The agent outside, workers inside of containers: examples/slurm/e_container with a stand-in for apptainer
(fake_apptainer), with CXXRUN_REAL_APPTAINER=1 the real one of the root that tests/support/containers makes.
Usage: container_script_test.py CXXRUN. Exit code 77: skipped, with the reason."""
import os
import re
import signal
import sys
import unittest

import slurm_case
from example_case import HERE, NO_TORCH, ExampleCase, has_torch, script
from slurm_case import jobs

REAL = bool(os.environ.get("CXXRUN_REAL_APPTAINER"))
ROOTS = os.environ.get("CXXRUN_ROOTS") or os.path.join(HERE, "../../build/roots")
IN_TRAINING = "python3 train.py --local-rank='${local_rank}'"
COUNTING = """
import signal
signal.signal(signal.SIGTERM, lambda *_: note("TERM"))
signal.signal(signal.SIGUSR1, lambda *_: note("USR1"))
note("ready", os.readlink("/proc/self/ns/mnt"), os.getpid(), os.environ.get("LOCAL_RANK"), *sys.argv[1:])
gate("end")
time.sleep(0.2)  # whatever is still on its way here
note("saved")
"""


def setUpModule():
    if REAL and not os.path.exists(os.path.join(ROOTS, "container_image/made")):
        raise unittest.SkipTest("no container runtimes (tests/support/containers make fetches them)")
    slurm_case.use_cluster(nodes=2, gpus=2)


class ContainerCase(ExampleCase):
    def setUp(self):
        super().setUp()
        self.make_file("image.sif")
        real = f'#!/bin/sh\nCXXRUN_ROOTS="{ROOTS}" exec "{HERE}/real_apptainer" "$@"\n'
        runtime = os.path.join(HERE, "fake_apptainer")
        if REAL:
            runtime = self.make_file("real_apptainer", real, 0o755)
        self.programs = [(runtime, "apptainer")]

    def start_workers(self, command, options="", cxxrun="cxxrun", **more):
        """Submits after.sh with another command in the container."""
        text = script("e_container", "after.sh").replace(IN_TRAINING, command)
        text = text.replace("exec --nv", f"exec --nv {options}").replace("srun cxxrun", f"srun {cxxrun}")
        return self.submit("e_container", text, programs=self.programs, **more)

    def counting(self):
        return " ".join(self.python_worker(COUNTING)) + " '${local_rank}'"


class Environment(ContainerCase):
    @unittest.skipIf(REAL, "the image has no PyTorch")
    @unittest.skipUnless(has_torch(), NO_TORCH)
    def test_the_job_and_node_script_become_one_line(self):
        text = self.run_example("e_container", "after.sh", programs=self.programs)
        self.assert_trained(text, world=4, steps=3)
        inside = set(re.findall(r"rank (\d) of 4, local rank (\d), in image.sif", text))
        self.assertEqual(inside, {(str(rank), str(rank % 2)) for rank in range(4)})
        self.row("containers", "srun cxxrun apptainer exec IMAGE python3 train.py --local-rank='${local_rank}'",
                 "agent outside, workers inside, each with its own rank")

    def test_workers_are_in_a_mount_namespace_of_their_own_and_have_their_variables(self):
        job = self.start_workers(self.counting())
        ready = self.await_events(4, "ready")
        self.open_gate("end")
        self.finish(job)
        self.assertEqual(len({e[3] for e in ready}), 4)
        self.assertNotIn(os.readlink("/proc/self/ns/mnt"), {e[3] for e in ready})
        self.assertEqual({(e[1], e[5], e[6]) for e in ready}, {(rank, str(rank % 2), str(rank % 2)) for rank in range(4)})

    def test_cleanenv_takes_the_ranks_away_and_the_wrapper_brings_them_back(self):
        show = self.worker('echo "worker: ${RANK-none} ${MASTER_ADDR-none} ${CXXRUN_RUN_ID-none} ${FOO-none}"', "show")
        self.assertEqual(re.findall("worker: (.*)", self.finish(self.start_workers(show, "--cleanenv"))), ["none none none none"] * 4)
        text = script("e_container", "after.sh").replace(IN_TRAINING, show).replace("srun", "export FOO=1\nsrun")
        text = text.replace("apptainer exec", "./in_container.sh")
        output = self.finish(self.submit("e_container", text, programs=self.programs))
        told = sorted(re.findall(r"worker: (\d) (\S+) (\S+) (\S+)", output))
        self.assertEqual([rank for rank, *_ in told], list("0123"), output)
        self.assertNotIn("none", {word for _, *words, _ in told for word in words})
        self.assertEqual({foo for *_, foo in told}, {"none"})
        self.row("containers", "srun cxxrun apptainer exec --cleanenv IMAGE ./train", "ranks are dropped: use in_container.sh")


class Ends(ContainerCase):
    def failed_with(self, command, options=""):
        job = self.start_workers(command, options, cxxrun="cxxrun --max-restarts 0")
        output = self.finish(job, "FAILED")
        return self.exit_code(job), output

    def test_an_exit_code_comes_out_of_the_container(self):
        worker = self.worker('[ "$RANK" != 2 ] || exit 7; exec sleep 1000')
        for options in ("", "--pid"):
            with self.subTest(options=options):
                code, output = self.failed_with(worker, options)
                self.assertEqual(code, (7, 0))
                self.assertRegex(output, r"rank 2 on node2: exit code 7")

    def test_a_process_killed_inside_counts_as_killed(self):
        worker = self.worker('[ "$RANK" != 2 ] || kill -9 $$; exec sleep 1000')
        for options, told in (("", "signal 9"), ("--pid", "exit code 137")):
            with self.subTest(options=options):
                code, output = self.failed_with(worker, options)
                self.assertEqual(code, (137, 0))
                self.assertRegex(output, rf"rank 2 on node2: {told}")
        self.row("containers", "a worker in a container dies", "its exit code or signal is the job's")

    def test_a_missing_image_is_told_by_the_containers_own_words(self):
        os.remove(self.path("image.sif"))
        code, output = self.failed_with("true")
        self.assertEqual(code, (255, 0))
        self.assertIn("could not open image", output[output.index("=" * 72):])

    def test_nothing_is_left_after_kill_9_of_the_agent(self):
        for options in ("", "--pid"):
            with self.subTest(options=options):
                job = self.start_workers("sleep 1000", options)
                victim = jobs.wait_until(self.agent_with_workers, "the workers run")
                os.kill(victim, signal.SIGKILL)
                self.finish(job, "FAILED")
                self.assertEqual(self.exit_code(job)[0], 137)
                self.assert_nothing_left(guard=3)
        self.row("containers", "kill -9 of the agent", "the containers die with it")

    def agent_with_workers(self):
        """A process whose children run the containers of a node, once all four workers of the job sleep."""
        def argv(pid):
            return [os.path.basename(word) for word in jobs.read(f"/proc/{pid}/cmdline").split("\0")]
        processes = {pid: argv(pid) for pid in jobs.processes_with(self.marker)}
        if sum(words[:1] == ["sleep"] for words in processes.values()) < 4:
            return None
        return next(pid for pid, words in processes.items() if words[0] == "cxxrun"
                    and any("apptainer" in argv(child) for child in jobs.children(pid)))


class AgentInside(ContainerCase):
    def in_container(self, options, *flags):
        """A job whose cxxrun is itself in the container, with a worker that tells its place."""
        show = self.worker('echo "rank $RANK of $WORLD_SIZE"', "show")
        words = " ".join(["apptainer exec", options, "image.sif", self.cluster.base + "/bin/cxxrun", *flags, show])
        text = script("e_container", "after.sh")
        return self.submit("e_container", text[:text.index("srun")] + f"srun {words}\n", programs=self.programs)

    def test_a_container_that_keeps_the_environment_is_no_different_from_none(self):
        output = self.finish(self.in_container(""))
        self.assertEqual(sorted(re.findall(r"rank \d of \d", output)), [f"rank {rank} of 4" for rank in range(4)])
        self.row("containers", "srun apptainer exec IMAGE cxxrun ./train", "one job over all nodes")

    def test_where_slurms_variables_are_dropped_no_node_trains_alone(self):
        for flags, line in ((["--nnodes 2"], "cxxrun: --nnodes 2"), ([], "none of its SLURM_* variables came through")):
            output = self.finish(self.in_container("--cleanenv", *flags), "FAILED")
            self.assertNotIn("rank", output)
            self.assertIn(line, output)
        self.row("containers", "srun apptainer exec --cleanenv IMAGE cxxrun ./train",
                 "exit 100: none of its SLURM_* variables came through; no node trains alone")


class Signals(ContainerCase):
    """As on most clusters: Slurm signals only the task, cxxrun the workers. (linuxproc signals every process, those in
    containers too, and apptainer passes on what it got: there each signal comes twice, with or without cxxrun.)"""
    cluster_options = {"nodes": 2, "gpus": 2, "proctrack": "cgroup"}

    def signalled(self, options, *scancel):
        job = self.start_workers(self.counting(), options)
        self.await_events(4, "ready")
        self.scancel(*scancel, job)
        return job

    def received(self, word):
        return sorted(e[1] for e in self.events(word))

    def assert_all_receive_usr1(self, options):
        job = self.signalled(options, "--signal=USR1")
        self.await_events(4, "USR1")
        self.open_gate("end")
        self.finish(job)
        self.assertEqual(self.received("USR1"), [0, 1, 2, 3])

    def test_usr1_reaches_every_process_inside_once_and_the_job_goes_on(self):
        self.assert_all_receive_usr1("")

    def test_usr1_goes_through_a_pid_namespace(self):
        self.assert_all_receive_usr1("--pid")

    def test_scancel_lets_the_processes_inside_save(self):
        job = self.signalled("")
        self.await_events(4, "TERM")
        self.open_gate("end")
        self.finish(job, "CANCELLED")
        self.assertEqual(self.received("saved"), [0, 1, 2, 3])
        self.assertEqual(self.received("TERM"), [0, 1, 2, 3])
        self.row("containers", "scancel while workers run in containers", "the programs inside get SIGTERM and may save")


if __name__ == "__main__":
    sys.exit(slurm_case.main())
