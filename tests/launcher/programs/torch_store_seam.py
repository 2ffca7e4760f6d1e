"""Runs PyTorch's test_store.py where a TCPStore that is to be a server is a client of cxxrun-store, which is started
for it. Nothing else of a test changes.

    torch_store_seam.py CXXRUN_STORE test_store.py

Prints lines of JSON: what the client has, then for each test its name, passed, failed or skipped, and why."""
import importlib.util
import json
import os
import subprocess
import sys
import unittest

import torch
import torch.distributed as dist

PROGRAM = ""
connect = dist.TCPStore.__init__
programs = {}  # by port; until the end, because some tests share a store
libuv_wanted = {}


class Program:
    """A running cxxrun-store."""

    def __init__(self, port):
        self.process = subprocess.Popen([PROGRAM, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.port = int(self.process.stdout.readline()) if port == 0 else self.await_port(port)

    def await_port(self, port):
        while self.process.poll() is None:
            if self.listens():
                return port
        # The words of the test are those of torch's own server.
        raise dist.DistNetworkError(f"The server socket has failed to listen on any local network address: port {port}."
                                    + self.process.stderr.read())

    def listens(self):
        fds = f"/proc/{self.process.pid}/fd"
        try:
            sockets = {os.readlink(f"{fds}/{fd}") for fd in os.listdir(fds)}
        except FileNotFoundError:  # one of them was closed just now
            return False
        with open("/proc/net/tcp6") as table, open("/proc/net/tcp") as older:
            rows = [line.split() for line in [*table, *older]]
        return any(row[3] == "0A" and f"socket:[{row[9]}]" in sockets for row in rows)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def as_client(self, host_name, port, world_size=None, is_master=False, timeout=None, wait_for_workers=True,
              multi_tenant=False, master_listen_fd=None, use_libuv=True):
    if is_master:
        if port == 0 or not (multi_tenant and port in programs):
            program = Program(port)
            port = program.port
            programs[port] = program
        libuv_wanted[port] = use_libuv
    more = {} if timeout is None else {"timeout": timeout}
    connect(self, host_name, port, world_size, False, wait_for_workers=wait_for_workers, use_libuv=False, **more)


class Tell(unittest.TestResult):
    def tell(self, test, outcome, why=""):
        print(json.dumps([test.id().split(".", 1)[1], outcome, why]), flush=True)

    def stopTest(self, test):
        super().stopTest(test)
        if dist.is_initialized():  # the test failed
            dist.destroy_process_group()

    def addSuccess(self, test):
        self.tell(test, "passed")

    def addFailure(self, test, error):
        self.tell(test, "failed", f"{error[0].__name__}: {error[1]}".splitlines()[0])

    addError = addFailure

    def addSkip(self, test, reason):
        self.tell(test, "skipped", reason)


if __name__ == "__main__":
    PROGRAM, path = sys.argv[1], sys.argv[2]
    dist.TCPStore.__init__ = as_client
    # Debian builds torch without it; the bytes are the same.
    dist.TCPStore.libuvBackend = property(lambda self: libuv_wanted.get(self.port, False))
    sys.argv = [path]
    specification = importlib.util.spec_from_file_location("test_store", path)
    tests = importlib.util.module_from_spec(specification)
    sys.modules["test_store"] = tests
    specification.loader.exec_module(tests)
    print(json.dumps([torch.__version__.split("+")[0], [name for name in dir(dist.TCPStore) if name[0] != "_"]]))
    unittest.defaultTestLoader.loadTestsFromModule(tests).run(Tell())
    for each in programs.values():
        each.end()
