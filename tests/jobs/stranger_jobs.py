"""What the tests share in which strangers come to the doors of a job: the job, what its agents say, where they listen."""
import os
import re

import jobs
from attacker import RUN
from jobs import JobCase, children, read, wait_until

FORGED = "x\nFORGED cxxrun: verdict: success\x1b[2J\x9b31m"


class Strangers(JobCase):
    AUTH = ("--auth", "none")  # where everybody is let in who speaks well

    def setUp(self):
        super().setUp()
        self.program = self.worker("note start; gate go; note done")

    def start_one(self, *options):
        return self.start_node("--rdzv-id", RUN, "--nnodes", "3", *self.AUTH, *options, self.program)

    def form(self, *options):
        """Two agents that wait for the third; returns them. `options`: of the one that coordinates."""
        first = self.start_one(*options)
        first.says("waiting for nodes")
        return [first, self.start_one()]

    def complete(self, agents):
        """The third agent comes, and all start."""
        agents.append(self.start_one())
        self.await_events(3, "start", 1)
        return agents

    def run_three(self, *options):
        """Three agents whose workers run and wait at the gate."""
        return self.complete(self.form(*options))

    def finish(self, agents):
        """The third agent comes; all start and end well."""
        self.go_on(self.complete(agents))

    def go_on(self, agents):
        self.release(*agents)
        self.assertEqual([(e[0], e[2]) for e in self.events("done")], [(1, "done")] * 3)

    def coordinator(self, agents):
        return next(pid for agent in agents for pid in children(agent.pid) if self.port in listening(pid))

    def said(self, agents):
        return "\n".join(agent.stderr for agent in agents)

    def await_line(self, agents, pattern):
        def found():
            return re.search(pattern, self.said(agents))
        try:
            wait_until(found, f"a line '{pattern}'")
        except jobs.Hang as hang:
            raise AssertionError(f"{hang}; said:\n{self.said(agents)}") from None


def sockets_of(pid):
    """The inodes of its sockets."""
    inodes = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


def listening(pid, tables="/proc/net"):
    """Ports on which the process listens. `tables`: of its network namespace."""
    inodes = sockets_of(pid)
    ports = set()
    for table in (tables + "/tcp", tables + "/tcp6"):
        for line in read(table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports
