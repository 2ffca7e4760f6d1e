"""An unmodified PyTorch script on two hosts, which are network namespaces, while another user on a third one calls every
port of the job. Usage: attacks_torch_test.py CXXRUN. Exit code 77: skipped, with the reason."""
import json
import os
import re
import subprocess

import jobs
import evidence
import wires
from attack_jobs import ATTACKER, PROGRAM, UNPROVEN, common
from attacker import hello, join
from jobs import children, read, wait_until
from torch_job_test import TorchCase

PORT = 29400  # a namespace has all ports for itself
WORDS = [[hello(), join()], [hello(asks="follow")], [hello(purpose="beat"), [1, 0, 1]],
         [hello(purpose="death_notice"), {"type": "gone", "generation": 1, "group_rank": 1}]]

# what did harm where everybody is let in: from another host, to every port given
CALL = """
import sys
for host, port in (each.rsplit(":", 1) for each in sys.argv[2:]):
    for words in json.loads(sys.argv[1]):
        print("told" if told(int(port), *words, host=host) else "nothing")
    try:
        with Sealed(int(port), key=b"k" * 32, host=host) as call:
            call.send(*words)
            print("nothing" if call.hear_frame() is None else "told")
    except ConnectionError:
        print("nothing")
"""


class Strangers(TorchCase):
    def setUp(self):
        super().setUp()
        self.net = wires.Wires(3)
        self.addCleanup(self.net.close)

    def environment(self, extra=None):
        return {**super().environment(), "GLOO_SOCKET_IFNAME": "eth0", **(extra or {})}

    def start_in(self, host, steps, pause):
        return self.start("--nnodes", "2", "--node-rank", str(host), "--rdzv-endpoint",
                          f"{self.net.hosts[0].address}:{PORT}", *self.arguments(steps, "--pause-ms", str(pause)),
                          behind=("nsenter", f"--net={self.net.hosts[host].net}"))

    def doors(self, agents):
        """ADDRESS:PORT of each port at which an agent listens, without the store's."""
        found = set()
        for host, agent in zip(self.net.hosts, agents):
            for line in self.on(host, "ss", "-Hltnp").splitlines():
                pids = {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
                if pids & {agent.pid, *children(agent.pid)}:
                    found.add(f"{host.address}:{line.split()[3].rsplit(':', 1)[1]}")
        return found

    def on(self, host, *command):
        """What it prints, in the namespace of that host."""
        return subprocess.run(["nsenter", f"--net={host.net}", *command], capture_output=True, text=True, check=True,
                                   timeout=jobs.GUARD).stdout

    def test_of_another_host_are_refused_and_the_figures_are_those_of_one_machine(self):
        agents = [self.start_in(0, 40, 100)]
        agents[0].says("waiting for nodes")
        agents.append(self.start_in(1, 40, 100))
        wait_until(lambda: "step 2:" in agents[0].stdout + agents[1].stdout, "step 2")
        [store] = {value for agent in agents for pid in children(agent.agent_pid())
                   for name, value in [line.split("=", 1) for line in read(f"/proc/{pid}/environ").split("\0") if "=" in line]
                   if name == "MASTER_PORT"}
        doors = {door for door in self.doors(agents) if not door.endswith(":" + store)}
        self.assertGreaterEqual(len(doors), 3)  # the coordinator's, and where each may be called to take over
        said = self.on(self.net.hosts[2], "setpriv", f"--reuid={ATTACKER}", "--clear-groups", "/usr/bin/python3", "-c",
                       PROGRAM + CALL, json.dumps(WORDS), *doors).split()
        self.assertEqual(said, ["nothing"] * (len(WORDS) + 1) * len(doors))
        self.assertNotIn("step 40:", agents[0].stdout + agents[1].stdout)  # it was in the middle of it
        self.assert_codes([0, 0], *agents)
        self.assert_trained(40, 2, *agents)
        line = UNPROVEN.replace("127.0.0.1", self.net.hosts[2].address)
        self.assertIn(line, agents[0].stderr + agents[1].stderr)
        self.assert_same_as_alone(agents)
        evidence.tell(area="agents", attack="calls every port of the agents of a PyTorch job from another host, in clear "
                      "and sealed", who=f"uid {ATTACKER} on a third host", code=0, line=common(line),
                      seen="nothing is answered; losses and weights are those of one machine")

    def assert_same_as_alone(self, agents):
        os.unlink(self.path("checkpoint.pt"))
        alone = self.run_job("--standalone", "--nproc-per-node=2", *self.arguments(40),
                                 env={"GLOO_SOCKET_IFNAME": "lo"})
        lines = [sorted(re.findall(r"(?:loss|weights) (\S+)", "".join(agent.stdout for agent in group)))
                 for group in (agents, [alone])]
        self.assertEqual(lines[0], lines[1])


if __name__ == "__main__":
    jobs.main(wires.missing("ss", "setpriv"))
