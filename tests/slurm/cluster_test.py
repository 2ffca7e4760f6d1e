"""The test cluster itself: it starts, fails as told, and leaves nothing. Usage: cluster_test.py CXXRUN"""
import glob
import os
import signal
import socket
import subprocess
import sys
import unittest
from unittest import mock

import cluster as clusters
import namespaces
import slurm_case
from cluster import LOGIN, Cluster, ClusterError
from slurm_case import SlurmCase, wait_until


def setUpModule():
    slurm_case.use_cluster(nodes=3)


def processes_in(base):
    """Processes that have a file of the cluster open or named, on any machine."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if base.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def groups(base):
    return glob.glob(f"/sys/fs/cgroup/*/{os.path.basename(base)}*")


class WholeCluster(SlurmCase):
    def test_srun_reaches_every_node(self):
        done = self.srun("-N3", "hostname")
        self.assertEqual((done.code, sorted(done.out.split())), (0, ["node1", "node2", "node3"]), done)

    def test_a_node_has_its_own_tmp_and_shares_the_directory_of_the_test(self):
        done = self.srun("-N2", "sh", "-c", "touch /tmp/$SLURMD_NODENAME $DIR/$SLURMD_NODENAME; ls /tmp | grep ^node")
        self.assertEqual(sorted(done.out.split()), ["node1", "node2"], done)
        self.assertIn("node2", os.listdir(self.dir))

    def test_gpus_are_handed_out(self):
        done = self.srun("--gpus-per-node=2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual(done.out, "0,1\n", done)

    def test_a_batch_job_runs_and_its_state_and_output_are_seen(self):
        job = self.sbatch("hostname; exit 3", "-N2", state="FAILED")
        self.assertEqual((self.output(job), self.job(job)["ExitCode"]), ("node1\n", "3:0"))

    def test_what_a_node_has_not_read_is_seen(self):
        """A server that reads nothing until it is told to, and a client that sends it six bytes."""
        server = ("import socket, sys; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection("
                  "s.getsockname()); a = s.accept()[0]; c.sendall(b'unread'); print(flush=True); sys.stdin.read(1); "
                  "a.recv(6); print(flush=True); sys.stdin.read()")
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.cluster.popen("node1", ["python3", "-c", server], **pipe) as process:
            process.stdout.readline()
            self.assertGreaterEqual(self.cluster.unread("node1"), 6)
            process.stdin.write(b" ")
            process.stdin.flush()
            process.stdout.readline()
            wait_until(lambda: self.cluster.unread("node1") == 0, "all has been read")

    def test_an_unprivileged_user_can_run_tasks(self):
        done = self.srun("-N2", "id", "-un", user="nobody")
        self.assertEqual(done.out, "nobody\nnobody\n", done)

    def test_a_signal_for_srun_reaches_the_task(self):
        running = self.start_srun(self.worker("trap 'note caught; exit 5' USR1; note up; while :; do sleep 0.1; done"),
                                  env={"CXXRUN_GENERATION": "1", "RANK": "0"})
        self.await_events(1, "up")
        running.kill(signal.SIGUSR1)
        self.assertEqual(running.wait(), 5, running.err)
        self.await_events(1, "caught")

    def test_the_host_sees_no_network_of_the_cluster(self):
        self.assertFalse([name for _, name in socket.if_nameindex() if name.startswith(("switch", "to-"))])


class Failures(SlurmCase):
    def reaches(self, node):
        with_python = "import socket; socket.create_connection(('%s', 6818), 2)" % node
        return self.on(LOGIN, "/usr/bin/python3", "-c", with_python).code == 0

    def test_a_killed_node_loses_all_and_can_be_revived(self):
        running = self.start_srun("-N2", "-w", "node1,node2", "--no-kill", "sleep", "1000")
        wait_until(lambda: len(slurm_case.processes_with(self.marker)) >= 4, "the tasks run")
        self.cluster.kill("node2")
        self.assertFalse(self.reaches("node2"))
        self.assertIsNone(running.process.poll())
        self.cluster.revive("node2")
        self.assertTrue(self.reaches("node2"))

    def test_a_node_that_dies_unnoticed_becomes_down(self):
        self.cluster.kill("node3", fin=True)
        self.cluster.await_nodes("node3", states=("down", "down*"))
        self.cluster.revive("node3")
        self.cluster.await_nodes("node3")
        self.assertEqual(self.srun("-w", "node3", "hostname").out, "node3\n")

    def test_a_partition_is_silent_and_heals(self):
        self.assertTrue(self.reaches("node1"))
        for fail in (self.cluster.partition, self.cluster.blackhole):
            fail("node1")
            self.assertFalse(self.reaches("node1"))
            self.assertIn("node1", self.cluster.pids)
            self.cluster.heal("node1")
            self.assertTrue(self.reaches("node1"))

    def test_slurmd_alone_can_die_and_come_back(self):
        self.cluster.stop_slurmd("node1")
        self.assertFalse(self.reaches("node1"))
        self.cluster.revive("node1")
        wait_until(lambda: self.reaches("node1"), "slurmd listens again")


class OtherCluster(unittest.TestCase):
    def assert_gone(self, base):
        wait_until(lambda: not os.path.exists(base), f"{base} is removed")
        wait_until(lambda: not processes_in(base), "its processes are gone")
        self.assertEqual(groups(base), [])

    def test_two_run_side_by_side_and_one_goes_without_the_other(self):
        with Cluster(nodes=1, gpus=0, config={"KillWait": "7"}) as other:
            base = other.base
            self.assertIn("7 sec", other.run(LOGIN, ["sh", "-c", "scontrol show config | grep KillWait"]).out)
            self.assertEqual(other.run(LOGIN, ["srun", "hostname"]).out, "node1\n")
        self.assert_gone(base)

    def test_nodes_may_differ_in_gpus(self):
        with Cluster(gpus=[2, 1, 0]) as other:
            told = other.run(LOGIN, ["sinfo", "-h", "-N", "-O", "nodelist:10,gres:10"]).out.split()
            self.assertEqual(told, ["node1", "gpu:2", "node2", "gpu:1", "node3", "(null)"])

    def test_a_daemon_that_does_not_start_is_named_with_the_end_of_its_log(self):
        with self.assertRaisesRegex(ClusterError, r"(?s)login does not boot: .*slurmctld ended with 1.*no_such_type"):
            Cluster(nodes=1, config={"SelectType": "select/no_such_type"}).up()

    def test_it_ends_with_its_owner_however_that_ends(self):
        for end in ("os._exit(0)", "sys.exit(1)", "os.kill(os.getpid(), 15)", "os.kill(os.getpid(), 9)"):
            code = f"import os, sys; import cluster; print(cluster.Cluster(1).up().base, flush=True); {end}"
            done = subprocess.run([sys.executable, "-c", code], cwd=slurm_case.HERE, capture_output=True, text=True)
            self.assertIn(clusters.PREFIX, done.stdout, done.stderr)
            self.assert_gone(done.stdout.strip())

    def test_what_a_dead_keeper_left_is_removed_by_the_next_cluster(self):
        old = Cluster(nodes=1)
        old.up()
        os.kill(old.keeper.pid, signal.SIGKILL)
        old.keeper.wait()
        wait_until(lambda: [pid for pid in processes_in(old.base)] == [], "its machines die with it")
        self.assertTrue(os.path.exists(old.base))
        with Cluster(nodes=1):
            self.assert_gone(old.base)

    def test_the_command_line_starts_one_that_stays(self):
        def verb(*words, base=""):
            return subprocess.run([sys.executable, clusters.__file__, *words], capture_output=True, text=True,
                                  env={"PATH": clusters.PATH, "CXXRUN_SLURM_DIR": base})
        base = verb("up", "--nodes", "2", "--gpus", "1").stdout.strip()
        self.addCleanup(verb, "down", base=base)
        self.assertEqual(verb("exec", "node2", "hostname", base=base).stdout, "node2\n")
        self.assertIn("node2", verb("status", base=base).stdout)
        self.assertEqual(verb("kill", "node2", base=base).returncode, 0)
        self.assertEqual(verb("revive", "node2", base=base).returncode, 0)
        self.assertEqual(verb("down", base=base).returncode, 0)
        self.assert_gone(base)


class WhyNot(unittest.TestCase):
    """What is missing is named, in one line."""

    def test_here_nothing_is_missing(self):
        self.assertIsNone(clusters.why_not())

    def test_root(self):
        with mock.patch("os.geteuid", return_value=1000):
            self.assertEqual(clusters.why_not(), "not root")

    def test_packages(self):
        with mock.patch.dict(clusters.PACKAGES, {"no-such-program": "some-package"}):
            self.assertEqual(clusters.why_not(), "packages missing: some-package (scripts/install-deps --tests)")

    def test_namespaces(self):
        def unshare(flags):
            if flags & namespaces.NEWNET:
                raise PermissionError("not permitted")
        with mock.patch("namespaces.unshare", unshare), mock.patch("namespaces.mount"):
            self.assertEqual(clusters.why_not(),
                             "this machine does not let us make a network namespace (not permitted)")


class Cgroup(SlurmCase):
    cluster_options = {"nodes": 1, "proctrack": "cgroup"}

    def test_what_a_task_leaves_behind_dies_with_it(self):
        self.assertEqual(self.srun("sh", "-c", "setsid sleep 1000 & sleep 0.1").code, 0)
        self.assert_nothing_left()


if __name__ == "__main__":
    slurm_case.main()
