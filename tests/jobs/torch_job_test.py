"""An unmodified PyTorch script (examples/02_pytorch/train.py) under the real program. Usage: torch_job_test.py CXXRUN
Exit code 77: skipped, with the reason."""
import math
import os
import re
import signal
import sys

import jobs
import torch_here  # ends this script where there is no PyTorch
from jobs import JobCase, read, wait_until

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/02_pytorch/train.py")


def variables(pid):
    with open(f"/proc/{pid}/environ") as f:
        return dict(entry.split("=", 1) for entry in f.read().split("\0") if "=" in entry)


def listener(port):
    """The inode of the socket that listens on the port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return fields[9]
    return None


def sockets_of(pid):
    links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    return {match.group(1) for match in (re.match(r"socket:\[(\d+)\]", link) for link in links) if match}


class TorchCase(JobCase):
    def environment(self, extra=None):
        env = super().environment(extra)
        # USE_LIBUV: the default of newer releases needs a library that Debian builds torch without.
        env.update(PYTHON_EXEC="/usr/bin/python3", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                   USE_LIBUV="0")
        return env

    def arguments(self, steps, *more):
        return (TRAIN, "--steps", str(steps), "--checkpoint", self.path("checkpoint.pt"), *more)

    def assert_trained(self, steps, world, *agents):
        text = "".join(agent.stdout for agent in agents)
        losses = {int(step): float(loss) for step, loss in
                  re.findall(rf"step (\d+): loss (\S+) over {world} ranks", text)}
        self.assertEqual(sorted(losses), list(range(1, steps + 1)), text)
        self.assertTrue(all(map(math.isfinite, losses.values())), losses)
        weights = dict(re.findall(r"rank (\d+) ends with weights (\S+)", text))
        self.assertEqual(sorted(weights), [str(rank) for rank in range(world)])
        self.assertEqual(len(set(weights.values())), 1, weights)


class Training(TorchCase):
    def test_two_agents_and_the_loss_is_the_same_as_on_one(self):
        agents = self.start_two(*self.arguments(4))
        self.assert_codes([0, 0], *agents)
        self.assert_trained(4, 2, *agents)
        os.unlink(self.path("checkpoint.pt"))
        alone = self.run_job("--standalone", "--nproc-per-node=2", *self.arguments(4), code=0)
        self.assert_trained(4, 2, alone)
        lines = [sorted(re.findall(r"(?:loss|weights) (\S+)", "".join(a.stdout for a in group)))
                 for group in (agents, [alone])]
        self.assertEqual(lines[0], lines[1])

    def workers(self, job):
        """Process ids by rank, as soon as each has its own program."""
        def found():
            try:
                ranks = {int(variables(pid)["RANK"]): pid for pid in jobs.children(job.agent_pid())}
            except (OSError, KeyError):
                return None
            return ranks if len(ranks) == 2 else None
        return wait_until(found, "both workers run")

    def test_cxxruns_own_store_is_used_and_a_killed_rank_is_restarted_from_the_checkpoint(self):
        job = self.start("--standalone", "--nproc-per-node=2", *self.arguments(60, "--pause-ms", "100"))
        wait_until(lambda: "step 2:" in job.stdout or job.process.poll() is not None, "step 2")
        workers = self.workers(job)
        env = variables(workers[1])
        self.assertEqual(env["TORCHELASTIC_USE_AGENT_STORE"], "True")
        inode = listener(int(env["MASTER_PORT"]))
        self.assertIn(inode, sockets_of(job.agent_pid()))
        for pid in workers.values():
            self.assertNotIn(inode, sockets_of(pid))
        os.kill(workers[1], signal.SIGKILL)
        self.assert_codes([0], job)
        self.assertEqual(len(re.findall(r"goes on after step \d+", job.stdout)), 1, job.stdout)
        self.assertIn("restart 1 of 3", job.stderr)
        self.assert_trained(60, 2, job)

    def test_an_exception_is_shown_with_its_message_from_torchs_error_file(self):
        job = self.run_job("--standalone", "--nproc-per-node=2", "--max-restarts=0", TRAIN, "--steps", "2",
                           "--checkpoint", "/nowhere/checkpoint.pt", code=1)
        report = job.stderr[job.stderr.index("=" * 72):]
        self.assertRegex(report, r"exception: +RuntimeError: Parent directory /nowhere does not exist")

    def test_the_rank_that_raised_is_the_cause_although_gloos_error_of_its_peer_is_heard_of_first(self):
        program = self.make_file("raises.py",
                                 "import sys, torch, torch.distributed as dist\n"
                                 "dist.init_process_group('gloo')\n"
                                 "dist.barrier()\n"
                                 "if dist.get_rank() == 1:\n"
                                 "    def end(kind, error, trace):\n"
                                 "        sys.__excepthook__(kind, error, trace)\n"
                                 "        dist.destroy_process_group()  # the other rank sees it, and this process is still there\n"
                                 "        open(sys.argv[1]).read()\n"
                                 "    sys.excepthook = end\n"
                                 "    raise ValueError('bad sample 17')\n"
                                 "dist.all_reduce(torch.ones(1))\n")
        self.make_gate("never")
        first, second = self.start_two("--max-restarts", "0", program, self.path("never"))
        self.assert_codes([1, 1], first, second)
        self.assertRegex(first.stderr, r"error: rank 0 on .*: exit code 1\n")  # what the stop began with
        report = first.stderr[first.stderr.index("=" * 72):]
        self.assertRegex(report, r"first failure: rank 1 on ")
        self.assertRegex(report, r"how: +was failing when it was stopped, signal 15")
        self.assertIn("  why:           ValueError: bad sample 17\n", report)
        self.assertRegex(report, r"1 other: +rank 0 on .*: exit code 1, after losing a peer: RuntimeError: .*gloo")

    def test_a_module_run_with_m_trains_as_well(self):
        directory, name = os.path.split(os.path.splitext(TRAIN)[0])
        job = self.run_job("--standalone", "--nproc-per-node=2", "-m", name, *self.arguments(2)[1:],
                           env={"PYTHONPATH": directory}, code=0)
        self.assert_trained(2, 2, job)


if __name__ == "__main__":
    sys.exit(jobs.main())
