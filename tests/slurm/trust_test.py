"""A job on a real Slurm that asks for proof, which is the default: with MUNGE and no flag at all, and with another user
of the cluster at its doors. Usage: trust_test.py CXXRUN"""
import os

import slurm_case
from slurm_case import SlurmCase

# What did harm where everybody is let in: each as the first frames of a connection of its own, to every port given.
STRANGER = """
import json, socket, struct, sys
def frame(said): data = json.dumps(said).encode(); return struct.pack(">I", len(data)) + data
hello = {"hello": "cxxrun", "version": 1, "run_id": sys.argv[1], "nonce": "x", "purpose": "agent", "asks": "meet"}
gone = {"type": "gone", "generation": 1, "group_rank": 1}
node = {"incarnation": "x", "host": "x", "slots": 1, "role": "default", "coordinates": False, "announce": "",
        "standby_port": 0}
for port in sys.argv[3:]:
    for said in ([{**hello, "purpose": "death_notice"}, gone], [hello, {"type": "join", "node": node}],
                 [{**hello, "asks": "follow"}], [{**hello, "purpose": "beat"}, [1, 0, 1]]):
        with socket.create_connection((sys.argv[2], int(port)), 10) as call:
            call.settimeout(10)
            try:
                call.sendall(b"".join(map(frame, said)))
                heard = call.recv(65536)
            except ConnectionError:
                heard = b""
            print("told" if heard else "nothing")
"""


def setUpModule():
    slurm_case.use_cluster(nodes=4)


class Trust(SlurmCase):
    def worker_that_waits(self):
        return self.worker("note start $CXXRUN_RUN_ID; gate go; note done")

    def agent_ports(self, node):
        """Ports on which agents listen there."""
        lines = self.on(node, "ss", "-Hltnp").out.splitlines()
        return sorted({line.split()[3].rsplit(":", 1)[1] for line in lines if '"cxxrun"' in line})

    def test_munge_carries_the_key_with_no_flag_and_no_home_directory(self):
        self.srun("-N4", "--ntasks-per-node=1", "cxxrun", "--nproc-per-node=1", self.worker("note done"),
                  env={"HOME": None}, code=0)
        self.assertEqual(len(self.events("done")), 4)
        self.row("zero flags", "srun -N4 cxxrun ./train (without a home directory)",
                 "the agents prove themselves with a key that MUNGE carries")

    def test_the_home_directory_carries_the_key_where_no_node_reaches_munged(self):
        home = os.path.join(self.dir, "home")
        os.mkdir(home)
        for option in (), ("--auth", "file"):
            self.srun("-N4", "--ntasks-per-node=1", "unshare", "--mount", "sh", "-c",
                      'mount -t tmpfs none /run/munge && exec "$@"', "sh", "cxxrun", "--nproc-per-node=1", *option,
                      self.worker("note done"), env={"HOME": home}, code=0)
        self.assertEqual(len(self.events("done")), 8)
        self.assertEqual(os.stat(os.path.join(home, ".cxxrun/key")).st_mode & 0o777, 0o600)
        self.row("no munged", "srun -N4 cxxrun ./train (no node reaches munged)",
                 "the agents prove themselves with a key that lies in the home directory")

    def test_another_user_is_told_nothing_and_disturbs_nobody(self):
        job = self.start_srun("-N4", "--ntasks-per-node=1", "cxxrun", "--nproc-per-node=1", self.worker_that_waits())
        run_id = self.await_events(4, "start", 1)[0][3]
        for node in ("node1", "node3"):
            ports = self.agent_ports(node)
            self.assertTrue(ports)
            said = self.on("node2", "setpriv", "--reuid=65534", "--clear-groups", "python3", "-c", STRANGER, run_id, node,
                           *ports)
            self.assertEqual(set(said.out.split()), {"nothing"}, said)
        job.says("it does not speak cxxrun's handshake")
        self.open_gate("go")
        self.assertEqual(job.wait(), 0, job.err)
        self.assertEqual([event[0] for event in self.events("done")], [1] * 4)
        self.row("other users", "another user calls every port of a job and speaks as an agent, a parent, a voter",
                 "it is told nothing and named in the log; generation 1 ends well")


if __name__ == "__main__":
    slurm_case.main()
