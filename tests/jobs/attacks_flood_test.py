"""Floods: what another user costs a job that sends much, or calls often. Takes a minute; labelled slow.
Usage: attacks_flood_test.py CXXRUN"""
import re
import resource

import attack_jobs
import jobs
from attack_jobs import NO_LINE, VICTIM, Attack, SocketAttack, as_user
from jobs import read

SILENT = 10_000
STORE_CAP = (1 << 30) + (256 << 20)  # docs/design/store_protocol.md: what it keeps, and replies that nobody takes
SLACK = 256 << 20  # of the program itself, and one request of each connection


def setUpModule():
    attack_jobs.share_programs()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))


class Floods(Attack):
    AREA = "floods"

    # Connections that say nothing; whoever is closed calls again.
    CROWD = """
import resource, select
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
port, count = int(sys.argv[1]), int(sys.argv[2])
poll, calls = select.epoll(), {}
def call():
    there = socket.socket()
    there.setblocking(False)
    there.connect_ex(("127.0.0.1", port))
    calls[there.fileno()] = there
    poll.register(there, select.EPOLLIN | select.EPOLLRDHUP)
for _ in range(count): call()
print("ready", flush=True)
while True:
    for fd, _ in poll.poll():
        poll.unregister(fd)
        calls.pop(fd).close()
        call()
"""

    def test_silent_connections_while_an_agent_joins(self):
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < SILENT + 100:
            self.skipTest(f"needs {SILENT + 100} descriptors (ulimit -Hn)")
        agents = self.form()
        self.start_ready(self.CROWD, self.port, SILENT)
        self.finish(agents)
        self.row(f"keeps {SILENT} connections open and says nothing, while the third of three agents joins",
                 "it joins", NO_LINE)

    # 4 GB of values, and as much asked for and not taken, on as many connections as it likes.
    FILL = """
text = lambda data: struct.pack("<Q", len(data)) + data
closed, calls = 0, []
for i in range(64):
    call = socket.create_connection(("127.0.0.1", int(sys.argv[1])), GUARD)
    call.settimeout(1)
    calls.append(call)
    try:
        call.sendall(bytes.fromhex("00cef7853c"))
        for j in range(2): call.sendall(bytes([1]) + text(b"/%d.%d" % (i, j)) + text(bytes(32 << 20)))
        call.sendall(bytes([10]) + struct.pack("<Q", 7) + text(b"/%d.0" % i) * 7)
    except OSError: closed += 1
print("ready", closed, flush=True)
time.sleep(GUARD)
"""

    def test_four_gigabytes_of_values_and_replies(self):
        """By who is let in: another user's connection is not served."""
        job = self.start("--standalone", self.worker("note at $CXXRUN_STORE_PORT; gate go; note done"))
        port = self.await_events(1, "at", 1)[0][3]
        other = self.start_other(self.FILL, port, **as_user(VICTIM))
        closed = int(other.stdout.readline().split()[1])
        self.assertGreater(closed, 30)
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", read(f"/proc/{job.agent_pid()}/status")).group(1)) << 10
        self.assertLess(peak, STORE_CAP + SLACK)
        self.open_gate("go")
        self.assert_codes([0], job)
        self.assertEqual(self.events("done"), [(1, 0, "done")])
        self.row("sends the store 4 GB of values and asks for as many, on 64 connections",
                 "what goes beyond 1 GiB is closed; the agent's memory stays below 1.5 GiB and the job goes on",
                 self.line([job], "the store would hold more than"), who="a process of the same user")


class Sockets(SocketAttack):
    AREA = "floods"

    def test_six_flooders_for_15_seconds(self):
        job, names = self.job_with_sockets()
        others = [self.start_other(self.CALL, 15, *names) for _ in range(6)]
        for other in others:
            self.assertEqual(other.communicate(timeout=jobs.GUARD)[0].split(), ["PermissionError"])
        self.row("calls the sockets at which workers meet their agent, from six processes for 15 s without a pause",
                 "none of them gets there", NO_LINE)
        self.end(job)


if __name__ == "__main__":
    jobs.main()
