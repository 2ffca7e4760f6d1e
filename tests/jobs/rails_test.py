"""Ranks of different nodes and who stands between them: a stranger of the own user who has read in the store whatever
there is, ranks without an agent, ranks behind a shell script. Usage: rails_test.py CXXRUN TRAIN"""
import socket
import struct

import jobs
import train_jobs
from jobs import read, wait_until
from train_jobs import TrainCase

SMALL = ("--steps", "10", "--batch", "2", "--quiet")
GREETING = struct.Struct("=QIIiiQQI16sH16sH32s")
MAGIC = 0x6C69617278786301
PROOF = 16


def text(data):
    return struct.pack("<Q", len(data)) + data


class Store:
    """Reads what ranks tell each other there."""

    def __init__(self, variables):
        self.prefix = f"/cxxrun/{variables['TORCHELASTIC_RUN_ID']}/1/0/0/"
        address = (variables["CXXRUN_STORE_ADDR"], int(variables["CXXRUN_STORE_PORT"]))
        self.socket = socket.create_connection(address, jobs.GUARD)
        self.socket.settimeout(jobs.GUARD)
        self.socket.sendall(bytes.fromhex("00cef7853c"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def take(self, size):
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data)) or self.fail()
        return data

    def fail(self):
        raise AssertionError("the store hangs up")

    def record(self, key):
        """The fields of a rank's record; [] when there is none yet."""
        self.socket.sendall(b"\3" + text((self.prefix + key).encode()))
        data = self.take(struct.unpack("<Q", self.take(8))[0])
        fields = []
        while data:
            size, _, rest = data.partition(b":")
            fields.append(rest[: int(size)].decode())
            data = rest[int(size):]
        return fields


def ends(connection):
    """Both ends of a connection of ours, as an honest caller tells them."""
    return [part for address, port in (connection.getsockname(), connection.getpeername())
            for part in (b"\0" * 10 + b"\xff\xff" + socket.inet_aton(address), port)]


class Rails(TrainCase):
    def setUp(self):
        super().setUp()
        self.script = self.worker('test "$CXXRUN_HOST_ID" = c && { note waits; gate go; }\n'
                                  f'"$0".train "$@"; exit $?')  # a child of the worker, as in many a job script
        self.make_file(self.script + ".train",
                       f'#!/bin/sh\ntest -n "$DROP" && unset "$DROP"\ntest -n "$GIVE" && export "$GIVE"\nexec {train_jobs.TRAIN} "$@"\n')
        jobs.os.chmod(self.script + ".train", 0o755)

    def start_nodes(self, *options, hosts="abc", job=(), env=None):
        """Agents with a worker each that take each other for other hosts'. Their workers are numbered in that order."""
        agents = []
        for index, host in enumerate(hosts):
            agents.append(self.start_node("--nproc-per-node", "1", "--node-rank", str(index), *job, self.script,
                                          *options, nnodes=str(len(hosts)),
                                          env={"CXXRUN_HOST_ID": host, **(env or {}).get(host, {})}))
            if index == 0:
                agents[0].says("waiting for nodes")
        return agents

    def variables(self, rank):
        pid = wait_until(lambda: self.workers().get(rank), f"rank {rank} runs")
        return dict(entry.split("=", 1) for entry in read(f"/proc/{pid}/environ").split("\0") if "=" in entry)

    def pretend(self, record, channel, nonce):
        """Calls that rank as rank 0 would, before rank 0 does; all that it may know is right."""
        connection = socket.create_connection((record[11], int(record[12])), jobs.GUARD)
        connection.settimeout(jobs.GUARD)
        connection.sendall(GREETING.pack(MAGIC, 1, channel, 0, int(record[3]), 1, nonce, 1, *ends(connection),
                                         b"x" * 32) + b"\0" * PROOF)
        self.addCleanup(connection.close)
        return connection

    def test_a_stranger_who_has_read_everything_in_the_store_is_sent_nothing(self):
        undisturbed = self.start_nodes(*SMALL, hosts="abd")
        self.assert_success(undisturbed)
        self.port = jobs.free_port()
        self.make_gate("go")
        agents = self.start_nodes(*SMALL)
        self.await_events(1, "waits")
        with Store(self.variables(0)) as store:
            first = wait_until(lambda: store.record("first"), "rank 0 has come")
            nonce = int(first[6])
            other = wait_until(lambda: store.record(f"{nonce}/rank1"), "rank 1 has come")
        strangers = [self.pretend(other, channel, nonce) for channel in (0, 1)]
        self.open_gate("go")
        self.assert_success(agents)
        self.assertEqual(self.final(agents[0].stdout), self.final(undisturbed[0].stdout))
        for stranger in strangers:
            heard = b""
            try:
                while more := stranger.recv(65536):
                    heard += more
            except ConnectionResetError:
                pass
            self.assertEqual(len(heard), GREETING.size)  # who it has called, and no proof of that

    def test_a_rank_that_cannot_ask_its_agent_is_named_at_once(self):
        agents = self.start_nodes(*SMALL, hosts="ab", job=("--max-restarts", "0"), env={"b": {"DROP": "CXXRUN_PROVER"}})
        self.assert_codes([1, 1], *agents)
        self.assertRegex("".join(agent.stderr for agent in agents),  # of who is the first to say so the other is stopped
                         r"rank 1 on \S+ \(pid \d+\) has no agent that proves it to other nodes, but rank 0 on \S+ "
                         r"\(pid \d+\) has; start all ranks with cxxrun")

    def test_an_agent_that_no_rank_reaches_is_named_and_nobody_goes_unproven(self):
        nowhere = {"GIVE": "CXXRUN_PROVER=/nowhere/agent"}
        agents = self.start_nodes(*SMALL, hosts="ab", job=("--max-restarts", "0"), env={"a": nowhere, "b": nowhere})
        self.assert_codes([1, 1], *agents)
        self.assertIn("no agent of this user answers at /nowhere/agent (CXXRUN_PROVER), which is to prove this rank",
                      "".join(agent.stderr for agent in agents))

    def test_without_a_key_nothing_is_proven_and_the_training_is_the_same(self):
        keyed = self.start_nodes(*SMALL, hosts="ab")
        self.assert_success(keyed)
        self.port = jobs.free_port()
        clear = self.start_nodes(*SMALL, hosts="ab", job=("--auth", "none"))
        self.assert_success(clear)
        self.assertEqual(self.final(clear[0].stdout), self.final(keyed[0].stdout))


if __name__ == "__main__":
    train_jobs.main()
