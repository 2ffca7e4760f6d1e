"""cxxrun --doctor over a step of a real Slurm. Usage: doctor_test.py CXXRUN"""
import json
import os
import re
import unittest

import slurm_case
from jobs import port_of, wait_until
from releases import expected
from slurm_case import SlurmCase

NODES = 16


def setUpModule():
    slurm_case.use_cluster(nodes=NODES)


class Doctor(SlurmCase):
    def doctor(self, *arguments, nodes=NODES, env=None):
        """What it did, and its object."""
        done = self.srun(f"-N{nodes}", "--ntasks-per-node=1", *arguments, "cxxrun", "--doctor", "--json",
                         env={"PYTHON_EXEC": "/usr/bin/python3", **(env or {})})
        return done, json.loads(done.out)

    def step(self, told, about):
        return next(each for each in told["step"] if each["about"] == about)

    def test_sixteen_nodes_are_one_table(self):
        done = self.srun(f"-N{NODES}", "--ntasks-per-node=1", "cxxrun", "--doctor", env={"PYTHON_EXEC": "/usr/bin/python3"})
        self.assertIn("nodes          all 16 reported\n", done.out)
        self.assertRegex(done.out, r"(ok  |WARN)  calls          240 of 240 came through, median \S+ ms, longest")
        self.assertIn("all nodes share the working directory", done.out)
        self.assertRegex(done.out, rf"WARN  Slurm          {expected('setting that the doctor warns of')}.* \[node1\]")
        self.assertRegex(done.out, r"names          node1 is 10\.\S+, reverse lookup node1 +\[all 16, the first is shown\]")
        self.assertRegex(done.out, r"cxxrun --doctor on node\[1-16\]: \d+ failures?, \d+ warnings?\n$")
        self.assertEqual(done.code, 1 if "FAIL" in done.out else 0, done)
        left = [name for _, _, names in os.walk(self.path(".cxxrun")) for name in names]
        self.assertEqual(left, ["key"])  # as each job of this user leaves it
        self.row("doctor", f"srun -N{NODES} cxxrun --doctor", "one table of all nodes, after 240 of 240 calls between them")

    def test_the_object_has_each_node_and_the_step(self):
        done, told = self.doctor(nodes=3)
        self.assertEqual([node["host"] for node in told["nodes"]], ["node1", "node2", "node3"])
        self.assertEqual(self.step(told, "calls")["grade"], "fine", done)
        self.assertEqual(self.step(told, "shared")["grade"], "fine", done)
        self.assertEqual(done.code, 1 if told["failures"] else 0)

    def test_who_does_as_the_note_on_no_kill_says_does_not_see_it_again(self):
        note = "--no-kill is not known to be set"
        lines = lambda told: {each["found"]: each["remedy"] for each in told["nodes"][0]["findings"]}
        _, told = self.doctor("--no-kill", nodes=2)  # Slurm does not export the option
        variable = re.search(r"export (\w+)=(\w+) before srun", lines(told)[note])
        _, told = self.doctor("--no-kill", nodes=2, env={variable[1]: variable[2]})
        self.assertNotIn(note, lines(told))
        self.row("doctor", "export SLURM_NO_KILL=set; srun -N2 cxxrun --doctor",
                 "no note on `--no-kill`, whose option alone Slurm does not tell its tasks")

    @unittest.skipUnless(os.environ.get("CXXRUN_PATIENCE"), "a node that is missing is waited for 40 s")
    def test_a_node_that_never_comes_is_missing_alone(self):
        done = self.srun("-N4", "--ntasks-per-node=1", "sh", "-c",
                         "test $SLURM_NODEID = 1 && exec sleep 45; sleep $SLURM_NODEID; exec cxxrun --doctor --json",
                         env={"PYTHON_EXEC": "/usr/bin/python3"})
        told = json.loads(done.out)
        self.assertIn("node2", self.step(told, "nodes")["found"])
        self.assertEqual([node["host"] for node in told["nodes"]], ["node1", "node3", "node4"])
        self.assertIn("6 of 6 came through", self.step(told, "calls")["found"])

    def test_a_directory_of_each_node_s_own_and_a_node_that_differs(self):
        python = self.make_file("python",
                                '#!/bin/sh\necho "python.version=3.$SLURM_NODEID"; echo python.path=here\n', 0o755)
        done, told = self.doctor("--chdir=/tmp", nodes=2, env={"PYTHON_EXEC": python})
        self.assertEqual(self.step(told, "shared")["found"], "the working directory of node2 is not that of node1", done)
        self.assertEqual(self.step(told, "differences")["found"], "Python: 3.0 on node1, 3.1 on node2")

    def test_a_step_that_is_given_an_address_needs_no_names(self):
        address = self.login("getent", "hosts", "node1").out.split()[0]
        nameless = 'mount --bind /dev/null /etc/hosts && exec "$@"'
        for flag in ("--rdzv-endpoint", "--master-addr"):
            done = self.srun("-w", "node[1-3]", "--ntasks-per-node=1", "unshare", "--mount", "sh", "-c", nameless, "sh", "cxxrun",
                             "--doctor", "--json", flag, address, env={"PYTHON_EXEC": "/usr/bin/python3"})
            self.assertEqual(done.out.count("\n{\n"), 0, done)  # one table
            told = json.loads(done.out)
            self.assertEqual(self.step(told, "nodes")["found"], "all 3 reported", done)
            self.assertTrue(self.step(told, "calls")["found"].startswith("6 of 6 came through"), done)
            names = [each["grade"] for node in told["nodes"] for each in node["findings"] if each["about"] == "names"]
            self.assertEqual(names, ["warning"] * 3)
            self.assertEqual((done.code, told["failures"]), (0, 0), done)

    def test_the_job_script_of_init_runs_as_it_is(self):
        train = self.worker("note ran", "train.sh")
        script = self.login("cxxrun", "--init", train).out
        self.assertRegex(script, r"#SBATCH --partition=\w+\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n")
        self.assertIn("#SBATCH --gpus-per-node=4\n", script)
        self.make_file("job.sh", script)
        job = self.login("sbatch", "--parsable", "job.sh").out.strip()
        self.wait_job(job, "COMPLETED")
        self.assertEqual(sorted(event[1] for event in self.events("ran")), list(range(8)))
        self.row("doctor", "cxxrun --init ./train >job.sh; sbatch job.sh", "a worker for each GPU of the partition's nodes")

    def test_another_user_neither_writes_on_the_board_nor_hears_of_it(self):
        os.mkfifo(self.path("go"))
        running = self.start_srun("-N2", "--ntasks-per-node=1", "sh", "-c",
                                  "test $SLURM_NODEID = 1 && : < $DIR/go; exec cxxrun --doctor",
                                  env={"PYTHON_EXEC": "nosuch"})
        shown = lambda: [name for name in os.listdir(self.dir) if name.startswith(".cxxrun-doctor")
                         and os.path.isfile(self.path(name))]
        wait_until(shown, "the first node has opened the board")
        job = self.login("squeue", "-h", "-o", "%A").out.strip()
        forged = ("import socket, sys; call = socket.create_connection(('node1', int(sys.argv[1]))); "
                  "said = b'tfacts/1\\0{\"host\": \"forged\"}'; call.sendall(len(said).to_bytes(4, 'big') + said); "
                  "print('heard', len(call.recv(99)))")
        done = self.login("/usr/bin/python3", "-c", forged, str(port_of(f"doctor {job}.0")), user="nobody")
        self.assertEqual((done.code, done.out), (0, "heard 0\n"), done)
        self.make_file("go")
        running.wait()
        self.assertIn("all 2 reported", running.out)
        self.assertNotIn("forged", running.out)

    def test_several_tasks_of_a_node_are_one(self):
        done = self.srun("-N2", "--ntasks-per-node=2", "cxxrun", "--doctor", "--json")
        self.assertEqual([node["host"] for node in json.loads(done.out)["nodes"]], ["node1", "node2"])


if __name__ == "__main__":
    slurm_case.main()
