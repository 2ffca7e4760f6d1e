"""cxxrun-store as a program: arguments, exit codes, descriptors. Usage: store_program_test.py CXXRUN_STORE"""
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
