"""Workers behind what users put in front of them. Usage: job_wrappers_test.py CXXRUN SURVIVOR_WORKER"""
import os
import shlex
import sys

import jobs
import wrappers
from jobs import JobCase

WORKER = ""

REGISTER = """
import socket, struct
def register():
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(os.environ["CXXRUN_AGENT"])
    link.send(b"CXXWORK\\1" + struct.pack("=BQIB", 1, int(GENERATION), 0, 0))
    packet, *_ = socket.recv_fds(link, 1000, 1)
    return link, "in" if packet == b"CXXWORK\\1" + bytes([65]) else packet[13:].decode().replace(" ", "_")
"""


class Survivors(JobCase):
    def test_a_worker_behind_a_wrapper_keeps_its_process_when_another_rank_dies(self):
        self.make_gate("die")
        self.make_gate("finish")
        if not wrappers.NUMACTL:
            print("not tested: numactl, which is not installed")
        cases = "".join(f"{n}) exec {shlex.join(words)} \"$@\";;\n" for n, words in enumerate(wrappers.ALL))
        wrapper = self.worker(f"case $LOCAL_RANK in\n{cases}esac", "wrapper")
        agents = self.start_two("--nproc-per-node", str(len(wrappers.ALL)), "--max-restarts", "1", "--no-python", wrapper,
                                WORKER, "die=1", "children=0")
        world = 2 * len(wrappers.ALL)
        before = {rank: pid for _, rank, _, pid, *_ in self.await_events(world, "up", 1)}
        self.open_gate("die")
        after = {rank: pid for _, rank, _, pid, *_ in self.await_events(world - 1, "resumed", 2)}
        self.assertEqual(after, {rank: pid for rank, pid in before.items() if rank != 1})
        self.await_events(1, "up", 2)
        self.open_gate("finish")
        self.assert_codes([0, 0], *agents)
        self.assertNotIn("refused", agents[0].stderr + agents[1].stderr)


class Places(JobCase):
    def test_who_has_left_the_workers_session_is_refused_and_the_log_says_who(self):
        wrapper = self.worker('exec sh -c \'setsid --wait "$@"; exit $?\' sh "$@"', "wrapper")
        job = self.run_job("--standalone", "--max-restarts", "0", "--no-python", wrapper, WORKER)
        self.assertEqual(job.code, 9, job.stderr)
        self.assertEqual(len(self.events("refused")), 1)
        self.assertRegex(job.stderr, r"pid \d+ \(survivor_worker\) is refused as worker: it is in the session of no worker "
                                     r"of this agent \(setsid leads out of it\)\n")

    def test_a_helper_does_not_take_the_place_of_its_worker_and_the_log_has_a_few_lines_of_many(self):
        helper = shlex.join(self.python_worker(REGISTER + "note('helper', *(register()[1] for _ in range(20)))", "helper.py"))
        program = self.python_worker(REGISTER + f"link, said = register()\nnote('program', os.getpid(), said)\n"
                                     f"os.system({helper!r})\n", "program.py")
        job = self.run_job("--standalone", *wrappers.SHELL, *program)
        self.assertEqual(job.code, 0, job.stderr)
        (_, _, _, pid, said), = self.events("program")
        self.assertEqual(said, "in")
        self.assertEqual([e[3:] for e in self.events("helper")], [(f"pid_{pid}_is_registered_in_its_place",) * 20])
        line = f"is refused as worker of local rank 0: pid {pid} is registered in its place"
        self.assertIn(line + " (more like it are only counted for now)\n", job.stderr)
        self.assertLess(job.stderr.count("refused"), 20, job.stderr)

    def test_who_comes_after_the_first_has_ended_has_the_place(self):
        program = shlex.join(self.python_worker(REGISTER + "note('program', register()[1])"))
        job = self.run_job("--standalone", "--no-python", self.worker(f"{program}\n{program}", "wrapper"))
        self.assertEqual(job.code, 0, job.stderr)
        self.assertEqual([said for *_, said in self.events("program")], ["in", "in"])


if __name__ == "__main__":
    WORKER = os.path.abspath(sys.argv.pop(2))
    jobs.main()
