"""The examples of groups and of ZeRO-1 end with data parallelism's parameters. Usage: parallel_test.py GRID ZERO1"""
import os
import socket
import subprocess
import sys
import unittest

GRID, ZERO1 = sys.argv[1:3]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(program, nodes, *arguments):
    """One process for each letter; equal letters share a node. Their exit codes and outputs."""
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(len(nodes)),
             "LOCAL_WORLD_SIZE": str(len(nodes)), "CXXRUN_OP_TIMEOUT": "60"}
    ranks = [subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=os.environ | world | {"RANK": str(rank), "LOCAL_RANK": str(rank),
                                                        "CXXRUN_HOST_ID": node})
             for rank, node in enumerate(nodes)]
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    return [rank.returncode for rank in ranks], outputs


class Parallel(unittest.TestCase):
    def test_tensor_and_data_parallelism_give_what_data_parallelism_gives(self):
        for nodes, *sums in (["aaaa"], ["aabb"], ["abab"], ["abcc"], ["aaaa", "f16"], ["aabb", "f16"], ["abab", "f16"]):
            codes, outputs = run(GRID, nodes, "50", *sums)
            self.assertEqual(codes, [0] * 4, outputs)
            for rank, output in enumerate(outputs):
                self.assertRegex(output, f"^half {rank % 2} after 50 steps: [0-9a-f]{{16}}, the same as data parallel's\n$")
            self.assertEqual([outputs[0], outputs[1]], [outputs[2], outputs[3]])

    def test_zero1_gives_what_data_parallelism_gives(self):
        for nodes in ("aaaa", "aab", "a"):
            codes, outputs = run(ZERO1, nodes)
            self.assertEqual(codes, [0] * len(nodes), outputs)
            self.assertEqual(len({output.split(":")[1] for output in outputs}), 1, outputs)

    def test_a_grid_of_other_sizes_is_refused(self):
        codes, outputs = run(GRID, "aa")
        self.assertEqual(codes, [1, 1])
        self.assertIn("needs 4 ranks", outputs[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
