"""The trainer of examples/train started by others than cxxrun: a real torchrun (Debian's torch 1.13), and by hand as
mpirun would. Usage: runtime_launchers_test.py CXXRUN TRAIN"""
import re
import subprocess
import time
import unittest

try:
    import torch.distributed.run  # noqa: F401
    MISSING = None
except ImportError as missing:
    MISSING = f"{missing} (Debian: python3-torch)"

import jobs
import train_jobs
from jobs import free_port
from train_jobs import TrainCase

from torchrun import TORCHRUN  # noqa: E402

SMALL = ("--steps", "10", "--batch", "2", "--quiet")
INIT_TIMEOUT = 300  # seconds; Communicator's default, which the trainer leaves as it is


class ByHand(TrainCase):
    def assert_two_train(self, local):
        """Both ranks with RANK and so on, and what local(rank) adds; returns rank 0's last line."""
        env = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ranks = [subprocess.Popen([train_jobs.TRAIN, *SMALL],
                                  env=self.environment({**env, "RANK": str(rank), **local(str(rank))}),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for rank in range(2)]
        said = [rank.communicate(timeout=jobs.GUARD) for rank in ranks]
        self.assertEqual([(rank.returncode, err) for rank, (_, err) in zip(ranks, said)], [(0, "")] * 2)
        self.assertEqual(said[1][0], "")
        return self.final(said[0][0])

    def test_rank_0_hosts_the_store_and_it_is_the_same_training_as_under_cxxrun(self):
        final = self.assert_two_train(lambda rank: {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2"})
        self.assertEqual(final, self.trained(2, *SMALL))

    def test_mpiruns_local_numbers_are_taken_when_none_are_set(self):
        self.assert_two_train(lambda rank: {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "2",
                                            "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
        self.assert_two_train(lambda rank: {"PMI_RANK": rank, "PMI_SIZE": "2", "MPI_LOCALRANKID": rank,
                                            "MPI_LOCALNRANKS": "2"})


@unittest.skipIf(MISSING, MISSING)
class Torchrun(TrainCase):
    def torchrun(self, *options):
        return subprocess.run(["/usr/bin/python3", "-c", TORCHRUN, "--rdzv_endpoint", f"localhost:{free_port()}",
                               *options, "--nproc_per_node", "2", "--no_python", train_jobs.TRAIN, *SMALL],
                              env=self.environment({"OMP_NUM_THREADS": "1"}), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=2 * jobs.GUARD)

    def test_the_c10d_rendezvous_leaves_the_store_to_rank_0(self):
        done = self.torchrun("--rdzv_backend", "c10d", "--nnodes", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.final(done.stdout), self.trained(2, *SMALL))

    def test_the_static_rendezvous_of_an_old_torch_is_refused_in_one_line_at_once(self):
        if not torch.__version__.startswith("1."):
            self.skipTest(f"torch {torch.__version__} serves a store of today")
        began = time.monotonic()
        done = self.torchrun("--rdzv_backend", "static", "--nnodes", "1", "--node_rank", "0")
        self.assertLess(time.monotonic() - began, INIT_TIMEOUT / 5)
        self.assertNotEqual(done.returncode, 0)
        lines = re.findall(r"^train: (rank \d).*: store at localhost port \d+: (.*)", done.stderr, re.M)
        self.assertGreaterEqual(len(lines), 1, done.stderr)  # the first to end takes the other with it
        for _, text in lines:
            self.assertIn("PyTorch 2.0 and older", text)
            self.assertIn("--rdzv-backend c10d", text)


if __name__ == "__main__":
    train_jobs.main()
