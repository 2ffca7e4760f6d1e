"""The gradient runtime (examples/train) on a real Slurm: under srun cxxrun, and under plain srun with the line of
docs/use/environment.md. Usage: runtime_test.py CXXRUN; the trainer is beside it, in examples/."""
import os
import re
import shlex

import slurm_case
from slurm_case import SlurmCase, jobs, read, wait_until

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/use/environment.md")
TWO_BY_TWO = ("-N2", "--ntasks-per-node=2")
SMALL = ["--steps", "10", "--batch", "2"]
FINAL = re.compile(r"final loss .*$", re.M)


def setUpModule():
    slurm_case.use_cluster(nodes=2, gpus=0)


def variables(pid):
    return dict(entry.split("=", 1) for entry in read(f"/proc/{pid}/environ").split("\0") if "=" in entry)


def inodes(pid, kind):
    """The inodes of the open descriptors whose link begins so."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(kind):
                found.add(os.stat(f"/proc/{pid}/fd/{fd}").st_ino)
        except FileNotFoundError:
            continue
    return found


class Runtime(SlurmCase):
    @property
    def train(self):
        return self.cluster.base + "/bin/examples/train"

    def final(self, done):
        """The one last line of a job that ended well between two nodes."""
        self.assertEqual(done.code, 0, done)
        self.assertIn("rank 0 of 4 on node1: host backend, 2 nodes, 2 ranks share memory here", done.out, done)
        found = FINAL.findall(done.out)
        self.assertEqual(len(found), 1, done)
        return found[0]

    def documented(self):
        """The words of the line for plain srun, with this test's trainer."""
        with open(DOCS) as f:
            lines = [line.strip() for line in f if line.startswith("    srun sh -c ")]
        self.assertEqual(len(lines), 1)
        self.assertEqual(lines[0].count("./train"), 1)
        return shlex.split(lines[0].replace("./train", " ".join([self.train, *SMALL])))[1:]

    def test_plain_srun_trains_as_srun_cxxrun_does(self):
        plain = self.final(self.srun(*TWO_BY_TWO, *self.documented()))
        self.assertEqual(self.final(self.srun("-N2", "--ntasks-per-node=1", "cxxrun", "--nproc-per-node=2", self.train,
                                              *SMALL)), plain)
        self.assertEqual(self.final(self.srun(*TWO_BY_TWO, "cxxrun", self.train, *SMALL)), plain)
        self.row("Runtime", "srun sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_STEP_NUM_TASKS MASTER_ADDR=node1 "
                 "MASTER_PORT=29500 exec ./train'", "rank 0 serves the store; the same parameters as under cxxrun")

    def test_between_nodes_it_is_tcp_and_within_one_the_agents_memory(self):
        step = self.start_srun("-N2", "--ntasks-per-node=1", "cxxrun", "--nproc-per-node=2", self.train, "--steps",
                               "100000000", "--batch", "2", "--quiet", "--curve", self.path("curve.csv"))
        wait_until(lambda: len(read(self.path("curve.csv")).splitlines()) > 1 or step.process.poll() is not None,
                   "the first step")

        ranks = {int(variables(pid)["RANK"]): pid for pid in jobs.processes_with(self.marker)
                 if read(f"/proc/{pid}/comm").strip() == "train"}
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        memory = []
        for pid in ranks.values():
            maps = re.findall(r"^\S+ rw-s \S+ \S+ (\d+) +/memfd:", read(f"/proc/{pid}/maps"), re.M)
            agent = int(re.search(r"^PPid:\t(\d+)", read(f"/proc/{pid}/status"), re.M)[1])
            shared = set(map(int, maps)) & inodes(agent, "/memfd:")
            self.assertEqual(len(shared), 1, (pid, maps))
            memory += shared
        self.assertEqual(len(set(memory)), 2)  # one on each node
        self.assertEqual(memory[list(ranks).index(0)], memory[list(ranks).index(1)])
        for mine, peer in ((0, 2), (1, 3)):
            self.assertTrue(self.connections(ranks[mine]) & {(there, here) for here, there in
                                                             self.connections(ranks[peer])}, (mine, peer))

        step.kill(15)  # srun passes it on to the tasks
        self.assertNotEqual(step.wait(), 0)

    def connections(self, pid):
        """(local, remote) of its established connections."""
        own = inodes(pid, "socket:")
        rows = [line.split() for line in read(f"/proc/{pid}/net/tcp").splitlines()[1:]]
        return {(row[1], row[2]) for row in rows if row[3] == "01" and int(row[9]) in own}


if __name__ == "__main__":
    slurm_case.main()
