"""Workers behind what users put in front of them. Usage: job_wrappers_test.py CXXRUN SURVIVOR_WORKER"""
import os
import shlex
import subprocess
import sys

import jobs
import wrappers
from jobs import JobCase, wait_until

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


# Its helper dies of SIGTERM, and is needed for saving.
SAVING = """
import socket
ours, theirs = socket.socketpair()
if os.fork() == 0:
    ours.close()
    while theirs.recv(1):
        theirs.send(b"x")
    os._exit(0)
theirs.close()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
signal.signal(signal.SIGTERM, lambda *_: None)
note("ready", os.getsid(0))
signal.sigwait({signal.SIGTERM})
note("asked")
gate("save")
ours.send(b"x")
helped = ours.recv(1) == b"x"
note("saved", helped, "once" if signal.SIGTERM not in signal.sigpending() else "twice")
os._exit(0)
"""


class Stops(JobCase):
    def test_a_program_behind_a_wrapper_is_told_once_to_end_and_saves_with_its_helpers(self):
        cases = "".join(f"{n}) exec {shlex.join(words)} \"$@\";;\n" for n, words in enumerate(wrappers.ALL))
        wrapper = self.worker(f"case $LOCAL_RANK in\n{cases}esac", "wrapper")
        job = self.start("--standalone", "--nproc-per-node", str(len(wrappers.ALL)), "--no-python", wrapper,
                         *self.python_worker(SAVING))
        first = {rank: pid for _, rank, _, pid in self.await_events(len(wrappers.ALL), "ready")}
        job.process.terminate()
        self.await_events(len(wrappers.ALL), "asked")
        for rank, words in enumerate(wrappers.ALL):  # these die at once, before their programs have saved
            if words in (wrappers.SHELL, wrappers.CONDA):
                wait_until(lambda pid=first[rank]: not os.path.exists(f"/proc/{pid}"), f"{words} is reaped")
        self.open_gate("save")
        self.assert_codes([143], job)
        self.assertEqual(sorted(event[1:] for event in self.events("saved")),
                         [(rank, "saved", "True", "once") for rank in range(len(wrappers.ALL))])


class Places(JobCase):
    def test_what_a_worker_has_started_is_let_in_from_any_session_and_what_others_start_is_refused(self):
        program = shlex.join(self.python_worker(REGISTER + "link, said = register()\nnote('orphan', said)\ngate('end')"))
        wrapper = self.worker(f'setsid --fork {program}\nnote socket "$CXXRUN_AGENT"\ngate end', "wrapper")
        job = self.start("--standalone", "--max-restarts", "0", "--no-python", wrapper)
        self.assertEqual([e[3:] for e in self.await_events(1, "orphan")], [("in",)])
        (_, _, _, agent), = self.await_events(1, "socket")
        stranger = self.python_worker(REGISTER + "note('stranger', register()[1])", "stranger.py")
        env = self.environment({"CXXRUN_AGENT": agent, "RANK": "0", "CXXRUN_GENERATION": "1"})  # whatever it says of itself
        subprocess.run(stranger, env=env, check=True)
        (_, _, _, said), = self.events("stranger")
        self.assertRegex(said, "^no_worker_of_this_agent_has_started_it;_a_process_that_a_daemon_starts_")
        self.open_gate("end")
        self.assert_codes([0], job)
        self.assertRegex(job.stderr, r"pid \d+ \(python3\) is refused as worker: no worker of this agent has started it")

    def test_a_wrapper_that_drops_the_environment_is_named_once_for_the_job(self):
        job = self.start("--standalone", "--nproc-per-node", "2", "--no-python", "env", "-i", "sleep", "1000")
        job.says("each worker trains alone: env has dropped them; leave out env -i\n")
        job.process.terminate()
        self.assert_codes([143], job)
        self.assertEqual(job.stderr.count("has dropped them"), 1)

    def test_a_helper_does_not_take_the_place_of_its_worker_and_the_log_has_a_few_lines_of_many(self):
        helper = shlex.join(self.python_worker(REGISTER + "note('helper', *(register()[1] for _ in range(20)))", "helper.py"))
        program = self.python_worker(REGISTER + f"link, said = register()\nnote('program', os.getpid(), said)\n"
                                     f"os.system({helper!r})\n", "program.py")
        job = self.run_job("--standalone", *wrappers.SHELL, *program, code=0)
        (_, _, _, pid, said), = self.events("program")
        self.assertEqual(said, "in")
        self.assertEqual([e[3:] for e in self.events("helper")], [(f"pid_{pid}_is_registered_in_its_place",) * 20])
        line = f"is refused as worker of local rank 0: pid {pid} is registered in its place"
        self.assertIn(line + " (more like it are only counted for now)\n", job.stderr)
        self.assertLess(job.stderr.count("refused"), 20, job.stderr)

    def test_who_comes_after_the_first_has_ended_has_the_place(self):
        program = shlex.join(self.python_worker(REGISTER + "note('program', register()[1])"))
        self.run_job("--standalone", "--no-python", self.worker(f"{program}\n{program}", "wrapper"), code=0)
        self.assertEqual([said for *_, said in self.events("program")], ["in", "in"])


if __name__ == "__main__":
    WORKER = os.path.abspath(sys.argv.pop(2))
    jobs.main()
