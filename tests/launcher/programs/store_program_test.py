"""cxxrun-store as a program: arguments, exit codes, descriptors. Usage: store_program_test.py CXXRUN_STORE"""
import ctypes
import errno
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

STORE = ""
GUARD = 30  # seconds; against hanging only


def start(*arguments, **more):
    return subprocess.Popen([STORE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def start_serving(**more):
    server = start("--port", "0", **more)
    return server, int(server.stdout.readline())


def run(*arguments):
    done = subprocess.run([STORE, *arguments], capture_output=True, text=True, timeout=GUARD)
    return done.returncode, done.stdout, done.stderr


def connect(port, host="127.0.0.1"):
    return socket.create_connection((host, port), timeout=GUARD)


def add(client, key=b"n"):
    client.sendall(b"\x03" + struct.pack("<Q", len(key)) + key + struct.pack("<q", 1))
    return client.recv(8)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


SET_AND_RESET = """
import os, socket, struct, sys
def keep(client): client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); return client
with keep(socket.socket()) as client:
    client.bind(("127.77.0.1", 0))  # nobody else's connections have a port there
    client.connect(("127.0.0.1", int(sys.argv[1])))
    print(client.getsockname()[1])
    client.sendall(b"\\0" + struct.pack("<Q", 4) + b"evil" + struct.pack("<Q", 3) + b"SET")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""
CALL = """
import socket, struct, sys
with socket.create_connection((sys.argv[2], int(sys.argv[1])), 30) as client:
    print(client.getsockname()[1])
    try:
        client.sendall(b"\\x06")
        print(len(client.recv(8)))
    except ConnectionError:
        print(0)
"""


def deny_netlink():
    """socket(AF_NETLINK, …) fails from here on, as in a container whose seccomp profile leaves it out."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 3, os.uname().machine == "x86_64" and 41 or 198), (0x20, 0, 0, 16),
            (0x15, 0, 1, socket.AF_NETLINK), (0x06, 0, 0, 0x00050000 | errno.EAFNOSUPPORT), (0x06, 0, 0, 0x7FFF0000)]
    filters = b"".join(struct.pack("HBBI", *each) for each in code)
    buffer = ctypes.create_string_buffer(filters)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class Access(unittest.TestCase):
    """--store-access user."""

    def serve(self, *before, **more):
        self.server = subprocess.Popen([*before, STORE, "--port", "0", "--store-access", "user"], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(self.server.communicate)
        self.addCleanup(self.server.kill)
        return self.server

    def start_store(self, **more):
        return int(self.serve(**more).stdout.readline())

    def as_nobody(self, code, *arguments):
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", sys.executable, "-c", code,
                               *map(str, arguments)], capture_output=True, text=True, timeout=GUARD, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        return list(map(int, done.stdout.split()))

    def test_the_own_user_gets_in_by_every_family(self):
        port = self.start_store()
        for host in ("127.0.0.1", "::ffff:127.0.0.1", "::1"):
            try:
                client = connect(port, host)
            except OSError:
                self.assertEqual(host, "::1")  # a machine may be without IPv6
                continue
            with client:
                self.assertEqual(len(add(client)), 8)

    @unittest.skipIf(os.geteuid() != 0, "needs root to be somebody else")
    def test_another_user_is_refused_by_name_and_the_own_one_is_served_on(self):
        port = self.start_store()
        with connect(port) as client:
            self.assertEqual(len(add(client)), 8)
            for host in ("127.0.0.1", "::ffff:127.0.0.1"):
                other, got = self.as_nobody(CALL, port, host)
                self.assertEqual(got, 0)
                self.assertIn(f"store refused 127.0.0.1 port {other}: it belongs to uid 65534, not 0\n",
                              self.server.stderr.readline())
            self.assertEqual(len(add(client)), 8)

    @unittest.skipIf(os.geteuid() != 0, "needs root to be somebody else")
    def test_without_netlink_the_tables_of_the_kernel_will_do(self):
        port = self.start_store(preexec_fn=deny_netlink)
        for host in ("127.0.0.1", "::ffff:127.0.0.1"):
            with connect(port, host) as client:
                self.assertEqual(len(add(client)), 8)
            other, got = self.as_nobody(CALL, port, host)
            self.assertEqual(got, 0)
            self.assertIn(f"port {other}: it belongs to uid 65534, not 0\n", self.server.stderr.readline())

    @unittest.skipIf(os.geteuid() != 0, "needs root to be somebody else")
    def test_what_another_user_sent_before_a_reset_is_not_read_for_whoever_gets_its_port(self):
        port = self.start_store()
        os.kill(self.server.pid, signal.SIGSTOP)  # nobody is accepted meanwhile
        [its_port] = self.as_nobody(SET_AND_RESET, port)
        with socket.socket() as victim:
            victim.settimeout(GUARD)
            victim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            victim.bind(("127.77.0.1", its_port))
            victim.connect(("127.0.0.1", port))
            os.kill(self.server.pid, signal.SIGCONT)
            victim.sendall(b"\x04" + struct.pack("<QQ", 1, 4) + b"evil")
            self.assertEqual(victim.recv(1), b"\1", "the key is there")
            self.assertIn(f"store refused 127.77.0.1 port {its_port}: it had ended before it was let in",
                          self.server.stderr.readline())

    def test_where_every_user_looks_alike_it_does_not_begin(self):
        if subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        server = self.serve("unshare", "-U")
        self.assertEqual(server.wait(GUARD), 111)
        self.assertEqual(server.stderr.read(), "cxxrun-store: --store-access user: cannot tell whose a connection is: in "
                         "this user namespace every user shows as uid 65534, its own, too; give --store-access any\n")

    def test_hosts_is_no_word_here(self):
        code, out, err = run("--port", "0", "--store-access", "hosts")
        self.assertEqual((code, out), (100, ""))
        self.assertIn("user", err)


class StoreProgram(unittest.TestCase):
    def test_each_ending_signal_gives_exit_code_0_and_no_output(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server, port = start_serving(stdin=subprocess.DEVNULL)
            with connect(port) as client:
                self.assertEqual(len(add(client)), 8)
                server.send_signal(number)
                self.assertEqual(server.wait(GUARD), 0)
            self.assertEqual(server.communicate(), ("", ""))

    def test_a_closed_stdin_does_not_matter(self):
        server, port = start_serving(stdin=subprocess.PIPE)
        server.stdin.close()
        server.stdin = None
        with connect(port) as client:
            self.assertEqual(len(add(client)), 8)
        server.terminate()
        self.assertEqual(server.wait(GUARD), 0)
        server.communicate()

    def test_both_address_families_are_served(self):
        server, port = start_serving()
        hosts = ["127.0.0.1"]
        try:
            socket.socket(socket.AF_INET6, socket.SOCK_STREAM).bind(("::1", 0))
            hosts.append("::1")
        except OSError:
            pass
        for host in hosts:
            with connect(port, host) as client:
                self.assertEqual(len(add(client)), 8)
        server.terminate()
        server.communicate(timeout=GUARD)

    def test_a_taken_port_is_named_in_one_line_with_exit_code_111(self):
        with socket.create_server(("0.0.0.0", 0)) as other:
            port = other.getsockname()[1]
            code, out, err = run("--port", str(port))
        self.assertEqual((code, out, err.count("\n")), (111, "", 1))
        self.assertIn(f"store port {port} is taken", err)

    def test_bad_arguments_are_one_line_with_exit_code_100(self):
        for arguments in ([], ["--port"], ["--port", "x"], ["--port=65536"], ["--port", "-1"], ["--prot", "1"], ["1"]):
            code, out, err = run(*arguments)
            self.assertEqual((code, out, err.count("\n")), (100, "", 1), arguments)
            self.assertTrue(err.startswith("cxxrun-store: "), err)

    def test_help_and_version_go_to_stdout(self):
        code, out, err = run("--help")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("--port PORT", out)
        code, out, err = run("--version")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^cxxrun-store \d+\.\d+\.\d+\n$")

    def test_the_soft_descriptor_limit_is_raised_to_the_hard_one(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        server, _ = start_serving(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard)))
        self.assertEqual(resource.prlimit(server.pid, resource.RLIMIT_NOFILE), (hard, hard))
        server.terminate()
        server.communicate(timeout=GUARD)

    def test_clients_beyond_the_descriptor_limit_wait_their_turn_and_cost_no_cpu(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        server, port = start_serving(preexec_fn=limit)
        clients = [connect(port) for _ in range(40)]
        self.assertEqual(len(add(clients[0])), 8)
        before, then = cpu_seconds(server.pid), time.monotonic()
        clients[-1].settimeout(0.6)
        with self.assertRaises(TimeoutError):
            add(clients[-1])
        share = (cpu_seconds(server.pid) - before) / (time.monotonic() - then)
        self.assertLess(share, 0.3, "accept spins")
        self.assertEqual(len(add(clients[0])), 8)

        for client in clients[:30]:
            client.close()
        clients[-1].settimeout(GUARD)
        self.assertEqual(len(clients[-1].recv(8)), 8)
        for client in clients[30:]:
            client.close()
        server.terminate()
        _, err = server.communicate(timeout=GUARD)
        self.assertIn("store cannot accept a connection", err)
        self.assertLess(err.count("\n"), 40)


if __name__ == "__main__":
    STORE = sys.argv.pop(1)
    unittest.main()
