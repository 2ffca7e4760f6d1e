"""Workers in real containers, and cxxrun in them. Run in the root that tests/support/containers makes.
Usage: containers_test.py CXXRUN TRAIN"""
import os
import re
import shutil
import subprocess
import sys
import unittest

import jobs
from jobs import JobCase

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
IMAGE = os.environ.get("CONTAINER_IMAGE", "")
TRAIN = ""

BWRAP = ["bwrap", "--bind", IMAGE, "/", "--proc", "/proc", "--dev", "/dev", "--bind", "/tmp", "/tmp", "--bind", TREE, TREE]
PODMAN = ["podman", "run", "--rm", "--network=host", "--uts=host", "--cgroups=disabled", "-v", "/tmp:/tmp", "-v", f"{TREE}:{TREE}"]
RUNTIMES = {
    "apptainer": ["apptainer", "exec", "-B", TREE, IMAGE],
    "apptainer --pid": ["apptainer", "exec", "--pid", "-B", TREE, IMAGE],
    "ch-run": ["ch-run", "-b", "/tmp:/tmp", "-b", f"{TREE}:{TREE}", IMAGE, "--"],
    "bwrap": BWRAP,
    "bwrap --new-session": [*BWRAP, "--new-session"],
    "podman": [*PODMAN, "--env-host", "--rootfs", IMAGE],
}
# The same without the worker's variables, and what the line about it says.
DROPPING = {
    "apptainer": (["apptainer", "exec", "--cleanenv", "-B", TREE, IMAGE], "apptainer", "leave out --cleanenv"),
    "apptainer --containall": (["apptainer", "exec", "--containall", "-B", "/tmp", IMAGE], "apptainer", "--containall"),
    "bwrap": ([*BWRAP, "--clearenv"], "bwrap", "leave out --clearenv"),
    "podman": ([*PODMAN, "--rootfs", IMAGE], "podman", "podman run --env-host"),
    "env": (["env", "-i"], "env", "leave out env -i"),
}
OTHER_HOST = """#!/bin/sh
exec unshare --uts sh -c 'echo other >/proc/sys/kernel/hostname; exec "$@"' sh %s "$@"
"""
INSIDE = '. /etc/os-release; note inside "$VERSION_ID"; '


def missing(name, words):
    """Why this runtime cannot be used here; "" when it can."""
    if not shutil.which(words[0]):
        return f"{words[0]} is not there"
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"{name} does not run here: {tried.stderr.strip().rpartition(chr(10))[2]}"


class ContainerCase(JobCase):
    @classmethod
    def setUpClass(cls):
        cls.runtimes = {}
        for name, words in RUNTIMES.items():
            why = missing(name, words)
            if why:
                print(f"not tested: {why}")
            else:
                cls.runtimes[name] = words
        if not cls.runtimes:
            raise unittest.SkipTest("no container runtime runs here")

    def environment(self, extra=None):
        return super().environment({"HOME": "/tmp", "PODMAN_IGNORE_CGROUPSV1_WARNING": "1", **(extra or {})})

    def behind_all(self, prefix=()):
        """A wrapper that runs the worker of each local rank behind another runtime."""
        cases = "".join(f"{n}) exec {' '.join(words)} \"$@\";;\n" for n, words in enumerate(self.runtimes.values()))
        return [*prefix, self.worker(f"case $LOCAL_RANK in\n{cases}esac", "wrapper")]


class AgentOutside(ContainerCase):
    def test_ranks_come_through_and_an_exit_code_comes_out(self):
        program = self.worker(INSIDE + '[ "$RANK" != 0 ] || { gate end; exit 7; }; exec sleep 1000', "program")
        job = self.start("--standalone", "--max-restarts", "0", "--nproc-per-node", str(len(self.runtimes)), "--no-python",
                         *self.behind_all(), program)
        inside = self.await_events(len(self.runtimes), "inside")
        self.assertEqual({event[1:] for event in inside}, {(rank, "inside", '12') for rank in range(len(self.runtimes))})
        self.open_gate("end")
        self.assert_codes([7], job)

    def test_a_program_is_told_once_to_end_and_saves(self):
        program = self.python_worker("""
signal.signal(signal.SIGTERM, lambda *_: note("TERM"))
note("ready")
gate("save")
time.sleep(0.2)  # whatever is still on its way
note("saved")
os._exit(0)""")
        job = self.start("--standalone", "--nproc-per-node", str(len(self.runtimes)), "--no-python", *self.behind_all(), *program)
        self.await_events(len(self.runtimes), "ready")
        job.process.terminate()
        self.await_events(len(self.runtimes), "TERM")
        self.open_gate("save")
        self.assert_codes([143], job)
        self.assertEqual(sorted(event[1] for event in self.events("TERM")), list(range(len(self.runtimes))))
        self.assertEqual(sorted(event[1] for event in self.events("saved")), list(range(len(self.runtimes))))

    def test_the_runtime_trains_over_two_nodes_behind_each(self):
        self.make_file("other_host", OTHER_HOST % jobs.CXXRUN, 0o755)
        words = ["--max-restarts", "0", "--nproc-per-node", str(len(self.runtimes)), "--no-python", *self.behind_all(),
                 TRAIN, "--steps", "3", "--quiet"]
        first = self.start_node(*words)
        first.says("waiting for nodes")
        second = self.start_node(*words, executable=self.path("other_host"))
        self.assert_codes([0, 0], first, second)
        for agent in (first, second):
            self.assertNotIn("refused", agent.stderr)

    def test_who_drops_what_cxxrun_has_set_is_named_with_the_option_once(self):
        agents = {}
        for name, (words, *_) in DROPPING.items():
            if missing(name, words):
                print(f"not tested: {missing(name, words)}")
                continue
            agents[name] = self.start("--standalone", "--max-restarts", "0", "--nproc-per-node", "2", "--no-python", *words,
                                      "sleep", "1000")
        for name, agent in agents.items():
            agent.says("without the variables that cxxrun has set")
            with self.subTest(name):
                agent.process.terminate()
                agent.wait()
                line, = re.findall("started without the variables.*", agent.stderr)
                _, who, remedy = DROPPING[name]
                self.assertIn(f"{who} has dropped them", line)
                self.assertIn(remedy, line)


class AgentInside(ContainerCase):
    def test_two_agents_in_containers_are_one_job(self):
        program = self.worker(INSIDE, "program")
        with open(self.path("secret"), "w") as file:  # ch-run shows no home directory
            os.fchmod(file.fileno(), 0o600)
            file.write("of this test, 32 bytes and more of it\n")
        env = self.environment({"CXXRUN_SECRET_FILE": self.path("secret")})
        for name, words in self.runtimes.items():
            if name == "podman":
                continue  # podman's client is not the agent: what ends it does not end cxxrun
            with self.subTest(name):
                before = len(self.events("inside"))
                node = ["--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--nproc-per-node", "1", "--no-python"]
                agents = [subprocess.Popen([*words, jobs.CXXRUN, *node, program], env=env,
                                           stderr=subprocess.DEVNULL) for _ in range(2)]
                self.assertEqual([agent.wait(jobs.GUARD) for agent in agents], [0, 0])
                self.assertEqual(sorted(event[1:] for event in self.events("inside")[before:]),
                                 [(rank, "inside", "12") for rank in range(2)])


if __name__ == "__main__":
    TRAIN = os.path.abspath(sys.argv.pop(2))
    jobs.main()
