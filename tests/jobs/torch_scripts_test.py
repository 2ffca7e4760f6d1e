"""Scripts as people write them for torchrun of today, unmodified, on one node and on two, killed and resumed: DDP, FSDP2
and torch.distributed.checkpoint (examples/02_pytorch), and the debug server. Usage: torch_scripts_test.py CXXRUN
Exit code 77: skipped, with the reason."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import jobs
import wires
from jobs import children, free_port, wait_until
from torch_job_test import TorchCase, variables

try:
    import tabulate  # which the debug server needs
    import torch.distributed.debug
    torch.distributed.TCPStore("127.0.0.1", 0, is_master=True)
except (ImportError, RuntimeError) as missing:
    jobs.skip(f"{missing}; a root that tests/support/todays_torch makes anew has what it takes")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/02_pytorch"
STEPS = 40
SLOWLY = ("--pause-ms", "200")  # so that there is time to kill it
PATIENCE = 300  # seconds; a worker takes 5 s of CPU to import torch
PORT = 29400  # a namespace has all ports for itself


def trained(text):
    """Losses by step, and weights by rank; of steps that were done again too, which have to come out the same.
    torchrun runs Python with -u, which writes a line's end by itself: two workers' lines may share one."""
    lines = set(re.findall(r"step (\d+): loss (\S+) over 2 ranks", text))
    losses = {int(step): loss for step, loss in lines}
    assert len(lines) == len(losses) == STEPS, text
    weights = re.findall(r"rank (\d+) ends with weights (-?\d+\.\d{9})", text)
    return losses, {int(rank): each for rank, each in weights}


class Scripts(TorchCase):
    def environment(self, extra=None):
        return {**super().environment(), **(extra or {})}

    def words(self, script, *more):
        return (str(EXAMPLES / script), "--steps", str(STEPS), "--checkpoint", self.path("saved"), *more)

    def undisturbed(self, script):
        """By torchrun."""
        port = free_port()
        run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2",
                              "--master-addr=127.0.0.1", f"--master-port={port}", *self.words(script)],
                             env=self.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             timeout=PATIENCE)
        self.assertEqual(run.returncode, 0, run.stderr)
        os.rename(self.path("saved"), self.path("undisturbed"))
        return trained(run.stdout)

    def on_one_node(self, *words):
        return [self.start("--standalone", "--nproc-per-node=2", *words)]

    def on_two_nodes(self, *words):
        return [self.start("--nnodes=2", "--nproc-per-node=1", f"--node-rank={n}",
                           f"--rdzv-endpoint={self.net.hosts[0].address}:{PORT}", *words,
                           behind=("nsenter", f"--net={host.net}"), env={"GLOO_SOCKET_IFNAME": "eth0"})
                for n, host in enumerate(self.net.hosts)]

    def text(self, agents):
        return "".join(agent.stdout for agent in agents)

    def await_steps(self, agents, count, start=""):
        """Until that many steps are done after a line that matches."""
        def done():
            return re.search(f"{start}(.*over 2 ranks\n){{{count}}}", self.text(agents))
        wait_until(lambda: done() or any(agent.process.poll() is not None for agent in agents), f"{count} steps",
                   PATIENCE)
        self.assertTrue(done(), "\n".join(agent.stderr for agent in agents))

    def kill_rank(self, agents, rank):
        pids = {variables(pid).get("RANK"): pid for agent in agents for pid in children(agent.agent_pid())}
        os.kill(pids[str(rank)], signal.SIGKILL)

    def killed_and_resumed(self, start, script):
        """A rank is killed, then every agent; what trained is started again. All texts."""
        agents = start(*self.words(script, *SLOWLY))
        self.await_steps(agents, 3)
        self.kill_rank(agents, 1)
        self.await_steps(agents, 3, r"goes on after step \d+\n")
        for pid in [agent.agent_pid() for agent in agents]:
            os.kill(pid, signal.SIGKILL)
        self.assertNotIn(0, [agent.wait(PATIENCE) for agent in agents])
        self.assert_nothing_left()
        again = start(*self.words(script))
        self.assertEqual({agent.wait(PATIENCE) for agent in again}, {0}, "\n".join(agent.stderr for agent in again))
        resumed = [int(step) for step in re.findall(r"goes on after step (\d+)", self.text(agents) + self.text(again))]
        self.assertEqual(len(resumed), 2, resumed)
        self.assertTrue(0 < resumed[0] < resumed[1] < STEPS, resumed)
        return self.text(agents) + self.text(again)

    def play(self, script):
        losses, weights = self.undisturbed(script)
        self.assertEqual((len(weights), len(set(weights.values()))), (2, 1), weights)
        self.assertEqual(trained(self.killed_and_resumed(self.on_one_node, script)), (losses, weights))
        if wires.missing():
            self.skipTest(f"only on one node: {wires.missing()}")
        os.rename(self.path("saved"), self.path("one_node"))
        self.net = wires.Wires(2)
        self.addCleanup(self.net.close)
        self.assertEqual(trained(self.killed_and_resumed(self.on_two_nodes, script)), (losses, weights))

    def test_ddp(self):
        self.play("train.py")

    def test_fsdp2(self):
        self.play("train_fsdp2.py")

    def test_distributed_checkpoint(self):
        self.play("train_dcp.py")


DEBUGGED = """import os
import sys
import torch.distributed as dist
from torch.distributed.debug import start_debug_server, stop_debug_server

def main():
    dist.init_process_group("gloo")
    start_debug_server(port=int(sys.argv[1]))
    dist.barrier()
    if dist.get_rank() == 0:
        dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])).set("loss", "0.25")
        print("serves", flush=True)
        sys.stdin.read()
        stop_debug_server()
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":  # this Python starts the server with the script as a module
    main()
"""


class DebugServer(TorchCase):
    def page(self, port, path):
        """Status and text; None while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                return None
            raise

    def test_the_debug_server_shows_every_rank_and_what_is_in_the_store(self):
        self.make_file("debugged.py", DEBUGGED)
        port = free_port()
        job = self.start("--standalone", "--nproc-per-node=2", "--stdin=rank0", self.path("debugged.py"), str(port),
                         stdin=subprocess.PIPE)
        wait_until(lambda: "serves" in job.stdout or "Traceback" in job.stderr, "the workers are up", PATIENCE)
        self.assertIn("serves", job.stdout, job.stderr)
        status, text = wait_until(lambda: self.page(port, "/tcpstore"), "the server answers", PATIENCE)
        self.assertEqual(status, 200)
        for found in ("debug_server/rank0", "debug_server/rank1", "loss", "0.25"):
            self.assertIn(found, text)
        status, text = self.page(port, "/stacks")
        self.assertEqual(status, 200)
        self.assertEqual(text.count(" in main\n"), 2, text)  # where each rank is
        job.process.stdin.close()
        self.assertEqual(job.wait(PATIENCE), 0, job.stderr)


if __name__ == "__main__":
    sys.exit(jobs.main())
