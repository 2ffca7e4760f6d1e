"""Who is let in to the store of a job whose nodes are network namespaces: its own workers, and nobody else. Usage:
store_access_test.py CXXRUN. Needs root, else exit code 77."""
import os
import re
import signal
import subprocess
import sys

import jobs
import wires
from jobs import JobCase, children

PORT = 29400  # a namespace has all ports for itself
NOBODY = 65534

# Adds 1 to a key by the protocol of the store, from an address if one is given.
STORE = """
import socket, struct, sys
def add(host, port, source=None):
    at = (source, 0) if source else None
    with socket.create_connection((host, int(port)), 30, at) as client:
        name = client.getsockname()[:2]
        try:
            client.sendall(b"\\x03" + struct.pack("<Q", 1) + b"n" + struct.pack("<q", 1))
            data = client.recv(8)
        except ConnectionError:
            data = b""
        return name, struct.unpack("<q", data)[0] if len(data) == 8 else "nothing"
"""
WORKER = STORE + """
note("store", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], add(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])[1])
gate("go")
"""
TORCH = """
from torch.distributed import TCPStore
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, False)
store.set("rank" + RANK, "here")
store.get("rank" + str(1 - int(RANK)))
note("store", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], store.add("n", 1))
gate("go")
"""
CALLER = STORE + """
(address, port), got = add(*sys.argv[1:])
print(address, port, got)
"""


class StoreAccess(JobCase):
    IPV6 = False

    def setUp(self):
        super().setUp()
        self.net = wires.Wires(3, ipv6=self.IPV6)  # the last one is nobody's node
        self.addCleanup(self.net.close)
        self.make_gate("go")

    def start_in(self, host, *options, worker=WORKER):
        address = self.net.hosts[0].address
        endpoint = f"[{address}]:{PORT}" if ":" in address else f"{address}:{PORT}"
        return self.start("--nnodes", "2", "--node-rank", str(host), "--no-python", "--rdzv-endpoint", endpoint, *options,
                          *self.python_worker(worker), behind=("nsenter", f"--net={self.net.hosts[host].net}"))

    def start_job(self, *options, **more):
        """Two nodes; returns their agents. All of their workers have used the store."""
        first = self.start_in(0, *options, **more)
        first.says("waiting for")
        self.both = [first, self.start_in(1, *options, **more)]
        told = self.await_events(2, "store")
        self.store = told[0][3:5]
        self.assertEqual(sorted(event[5] for event in told), ["1", "2"])
        return self.both

    def end_well(self):
        self.release(*self.both)

    def call(self, host, *source, user=NOBODY, address=None, net=None):
        """What another user gets out of the store from there, and the end that it called from."""
        done = subprocess.run(["nsenter", f"--net={net or self.net.hosts[host].net}", "setpriv", "--reuid", str(user),
                               "--clear-groups", sys.executable, "-c", CALLER, address or self.store[0], self.store[1],
                               *source], capture_output=True, text=True, timeout=jobs.GUARD, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def assert_refused(self, called, why):
        address, port, got = called
        self.assertEqual(got, "nothing")
        self.both[0].says(f"store refused {address.removeprefix('::ffff:')} port {port}: {why}")


class Ipv4(StoreAccess):
    def test_the_jobs_own_workers_and_nobody_else(self):
        self.start_job()
        other = f"it belongs to uid {NOBODY}, not 0"
        self.assert_refused(self.call(0), other)
        self.assert_refused(self.call(0, address="127.0.0.1"), other)
        self.assert_refused(self.call(1), other)
        self.assert_refused(self.call(1, address="::ffff:" + self.store[0]), other)
        self.assert_refused(self.call(2), "no agent of this job is at that address (--store-access hosts|any)")
        self.assert_refused(self.call(2, user=0), "no agent of this job is at that address (--store-access hosts|any)")
        self.assertEqual(self.call(1, user=0)[2], "3")
        self.assertEqual(self.call(0, user=0)[2], "4")
        self.end_well()

    def test_a_host_with_several_addresses_is_known_by_all_of_them(self):
        for i, host in enumerate(self.net.hosts):
            host.run("ip", "address", "add", f"10.78.0.{i + 1}/24", "dev", "eth0")
            host.run("ip", "address", "add", f"10.79.0.{i + 1}/32", "dev", "lo")
            host.run("ip", "route", "add", "10.79.0.0/24", "dev", "eth0")
        self.start_job()
        for source in ("10.78.0.2", "10.79.0.2", self.net.hosts[1].address):
            self.assert_refused(self.call(1, source), f"it belongs to uid {NOBODY}, not 0")
            self.assertNotEqual(self.call(1, source, user=0)[2], "nothing")
        self.end_well()

    def test_clients_of_pytorch_notice_nothing(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True).returncode != 0:
            self.skipTest("no PyTorch here (Debian: python3-torch)")
        self.start_job(worker=TORCH)
        self.end_well()

    def test_hosts_lets_in_whom_a_node_of_the_job_has(self):
        self.start_job("--store-access", "hosts")
        self.assertEqual([self.call(0)[2], self.call(1)[2], self.call(0, address="127.0.0.1")[2]], ["3", "4", "5"])
        self.assert_refused(self.call(2), "no agent of this job is at that address (--store-access hosts|any)")
        self.end_well()

    def test_any_lets_in_everybody(self):
        self.start_job("--store-access", "any")
        self.assertEqual([self.call(host)[2] for host in range(3)], ["3", "4", "5"])
        self.end_well()

    def test_a_node_that_does_not_answer_is_waited_for_and_named(self):
        self.start_job("--heartbeat-timeout", "0")
        agent = children(self.both[1].pid)[0]
        os.kill(agent, signal.SIGSTOP)
        try:
            self.assert_refused(self.call(1, user=0), "its host did not say whose it is within 2 s")
        finally:
            os.kill(agent, signal.SIGCONT)
        self.assertNotEqual(self.call(1, user=0)[2], "nothing")
        self.end_well()

    def test_a_flood_of_strangers_keeps_nobody_out_and_is_told_in_few_lines(self):
        self.start_job()
        flood = ("import socket, sys\nfor i in range(2000):\n"
                 "    socket.create_connection((sys.argv[1], int(sys.argv[2])), 30).close()")
        floods = [subprocess.Popen(["nsenter", f"--net={self.net.hosts[host].net}", "setpriv", "--reuid", str(NOBODY),
                                    "--clear-groups", sys.executable, "-c", flood, *self.store], cwd="/")
                  for host in (0, 1, 2)]
        for got in range(3, 13):
            self.assertEqual(self.call(1, user=0)[2], str(got))
        self.assertEqual([each.wait(jobs.GUARD) for each in floods], [0, 0, 0])
        self.end_well()
        self.assertLess(len(re.findall("store refused", self.both[0].stderr)), 60)


class Ipv6(StoreAccess):
    IPV6 = True

    def test_the_jobs_own_workers_and_nobody_else(self):
        self.net.hosts[1].run("ip", "address", "add", "fd77::22/64", "dev", "eth0", "nodad")
        self.start_job()
        for called in (self.call(0), self.call(0, address="::1"), self.call(1), self.call(1, "fd77::22")):
            self.assert_refused(called, f"it belongs to uid {NOBODY}, not 0")
        self.assert_refused(self.call(2), "no agent of this job is at that address (--store-access hosts|any)")
        self.assertEqual([self.call(1, user=0)[2], self.call(1, "fd77::22", user=0)[2]], ["3", "4"])
        self.end_well()

    def test_hosts_lets_in_whom_a_node_of_the_job_has(self):
        self.start_job("--store-access", "hosts")
        self.assertEqual([self.call(0)[2], self.call(1)[2], self.call(0, address="::1")[2]], ["3", "4", "5"])
        self.assert_refused(self.call(2), "no agent of this job is at that address (--store-access hosts|any)")
        self.end_well()


if __name__ == "__main__":
    jobs.main(wires.missing("setpriv"))
