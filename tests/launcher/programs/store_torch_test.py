"""The TCPStore client of the installed torch against cxxrun-store. Usage: store_torch_test.py CXXRUN_STORE
Exit code 77: skipped, with the reason."""
import os
import socket
import struct
import subprocess
import sys
import threading
import unittest
from datetime import timedelta

try:
    import torch
    import torch.distributed as dist
    if not dist.is_available():
        raise ImportError("torch was built without distributed")
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-torch)")
    sys.exit(77)

STORE = ""
GUARD = 60  # seconds; against hanging only
SHORT = timedelta(milliseconds=200)


# Newer releases ask for libuv unless told otherwise; Debian builds them without it.
OLD_CLIENT = {"use_libuv": False} if "use_libuv" in (dist.TCPStore.__init__.__doc__ or "") else {}


def client(port, seconds=GUARD, world=1, wait_for_workers=False):
    return dist.TCPStore("127.0.0.1", port, world, False, timedelta(seconds=seconds), wait_for_workers, **OLD_CLIENT)


class Torch(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([STORE, "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline())

    def tearDown(self):
        self.server.terminate()
        self.assertEqual(self.server.wait(GUARD), 0)
        self.server.stdout.close()

    def test_every_operation(self):
        s = client(self.port)
        s.set("k", "v")
        self.assertEqual(s.get("k"), b"v")
        s.set("k", b"\x00\xff" * 5000)
        self.assertEqual(s.get("k"), b"\x00\xff" * 5000)
        self.assertEqual((s.add("n", 5), s.add("n", -7), s.get("n")), (5, -2, b"-2"))
        self.assertEqual(s.compare_set("c", "", "new"), b"new")
        self.assertEqual(s.compare_set("c", "no", "x"), b"new")
        self.assertEqual(s.compare_set("c", "new", "x"), b"x")
        self.assertEqual(s.compare_set("missing", "old", "x"), b"old")
        self.assertEqual(s.num_keys(), 3)
        self.assertTrue(s.delete_key("c"))
        self.assertFalse(s.delete_key("c"))
        self.assertEqual(s.num_keys(), 2)
        s.wait(["k", "n"])

    @unittest.skipUnless(hasattr(dist.Store, "list_keys"), "this release has no list_keys")
    def test_the_keys_are_listed_and_a_barrier_opens_for_all(self):
        clients = [client(self.port) for _ in range(2)]
        clients[0].set("k", "v")
        clients[0].wait(["k"])  # SET has no answer
        self.assertEqual(clients[1].list_keys(), ["k"])
        early = threading.Thread(target=clients[0].barrier, args=("b", 2))
        early.start()
        clients[1].barrier("b", 2)
        early.join(GUARD)
        self.assertFalse(early.is_alive())
        self.assertEqual(clients[1].get("b"), b"2")
        with self.assertRaises(RuntimeError):
            clients[1].barrier("alone", 2, SHORT)
        self.assertEqual(clients[1].get("k"), b"v")

    def test_two_clients_see_the_same_keys(self):
        client(self.port).set("k", "v")
        self.assertEqual(client(self.port).get("k"), b"v")

    def test_a_prefix_store_writes_slash_prefix_slash_key(self):
        s = client(self.port)
        dist.PrefixStore("p", s).set("k", "v")
        self.assertEqual(s.get("p/k"), b"v")

    def test_a_wait_that_timed_out_leaves_the_client_usable(self):
        s = client(self.port)
        with self.assertRaises(RuntimeError):
            s.wait(["late"], SHORT)
        s.set_timeout(timedelta(seconds=GUARD))
        self.assertEqual(s.add("n", 5), 5)
        client(self.port).set("late", "v")  # a server that remembered the WAIT would now answer it
        self.assertEqual(s.add("n", 1), 6)
        self.assertEqual(s.get("late"), b"v")

    def test_clients_are_told_in_time_when_workers_arrive(self):
        # wait_for_workers: each client counts itself under "init/".
        workers = [subprocess.Popen([sys.executable, __file__, "--counted", str(self.port)]) for _ in range(2)]
        for worker in workers:
            self.assertEqual(worker.wait(GUARD), 0)

    def test_a_peer_with_half_a_request_stops_nobody(self):
        with socket.create_connection(("127.0.0.1", self.port)) as half:
            half.sendall(b"\x00\x02\x00")
            s = client(self.port)
            s.set("k", "v")
            self.assertEqual(s.get("k"), b"v")

    def test_a_greeted_client_and_torch_share_keys(self):
        client(self.port).set("k", "v")
        with socket.create_connection(("127.0.0.1", self.port), timeout=GUARD) as new:
            new.sendall(bytes.fromhex("00cef7853c") + b"\x0d" + struct.pack("<I", 4711))
            self.assertEqual(new.recv(4), struct.pack("<I", 4711))
            new.sendall(b"\x03" + struct.pack("<Q", 2) + b"/k")
            self.assertEqual(new.recv(9), struct.pack("<Q", 1) + b"v")

    def rendezvous(self, world):
        env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port), WORLD_SIZE=str(world),
                   TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RUN_ID="t", TORCHELASTIC_RESTART_COUNT="0",
                   OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", USE_LIBUV="0")
        ranks = [subprocess.Popen([sys.executable, __file__, "--rank"], env=dict(env, RANK=str(r), LOCAL_RANK=str(r)))
                 for r in range(world)]
        return [p.wait(2 * GUARD) for p in ranks]

    def test_a_gloo_process_group_of_4_forms_over_the_store(self):
        self.assertEqual(self.rendezvous(4), [0] * 4)


def rank_main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=GUARD))
    t = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(t)
    n = dist.get_world_size()
    ok = t.item() == n * (n + 1) / 2
    dist.barrier()
    dist.destroy_process_group()
    return 0 if ok else 1


if __name__ == "__main__":
    if sys.argv[1] == "--counted":
        client(int(sys.argv[2]), world=3, wait_for_workers=True)
        sys.exit(0)
    if sys.argv[1] == "--rank":
        sys.exit(rank_main())
    STORE = sys.argv.pop(1)
    unittest.main()
