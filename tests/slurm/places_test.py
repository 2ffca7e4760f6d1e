"""Where a cxxrun is that srun has not started as a task: in a worker, beside the allocation, in a shell of a step.
Usage: places_test.py CXXRUN"""
import json
import os
import re
import signal

import slurm_case
from slurm_case import SlurmCase


def setUpModule():
    slurm_case.use_cluster(nodes=2)


# On the node where the page is: its answer at /state.
FETCH = """
import http.client, sys
page = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
page.request("GET", "/state", headers={"X-Cxxrun-Token": sys.argv[2]})
answer = page.getresponse()
print(answer.status, answer.read().decode())
"""


class Places(SlurmCase):
    def test_a_launcher_in_a_worker_is_a_job_of_its_node_and_below_srun_one_of_its_step(self):
        """Rank 0 evaluates with a launcher of its own; with srun --overlap on all nodes."""
        evaluation = self.worker("note inner $WORLD_SIZE $GROUP_WORLD_SIZE", "evaluation")
        train = self.worker(f"[ $RANK = 0 ] || exit 0\ncxxrun --max-restarts 0 --nproc-per-node 2 {evaluation}\n"
                            f"exec srun --overlap -N2 --ntasks-per-node=1 -n2 cxxrun --max-restarts 0 {evaluation}")
        for mode in ("per-worker", "keep"):
            with self.subTest(mode=mode):
                done = self.srun("-N2", "--ntasks-per-node=1", "cxxrun", "--max-restarts", "0", "--slurm-env", mode,
                                 train, env={"PET_NNODES": "2"}, code=0)
                self.assertIn("below a worker of cxxrun", done.out + done.err)
        told = [tuple(event[3:]) for event in self.events("inner")]
        self.assertEqual(sorted(told), sorted([("2", "1"), ("2", "1"), ("2", "2"), ("2", "2")] * 2), told)

    def test_a_running_job_is_shown_on_its_nodes_and_from_the_login_node_that_reaches_none_of_its_ports(self):
        worker = self.worker("note up; echo I am $RANK; gate hold")
        job = self.sbatch(f"srun cxxrun --log-dir {self.path('logs')} --tee 3 {worker}", "-N2", "--ntasks-per-node=1")
        self.await_events(2, "up")
        beside = ("--overlap", f"--jobid={job}", "--nodes=1", "--ntasks=1")
        def shown():
            done = self.srun(*beside, "cxxrunctl", "status", job, code=0)
            return done.out if "\nnode1 " in done.out and "\nnode2 " in done.out else None
        out = slurm_case.wait_until(shown, "both nodes are told of", pause=slurm_case.PAUSE)
        self.assertRegex(out, rf"^{job}\.0 runs for .*: its program has reported no training step yet\n")
        stacks = self.srun(*beside, "cxxrunctl", "stacks", "all", f"{job}.0")
        self.assertRegex(stacks.out, r"^ranks 0-1: pid \d+ \(\w+\), state S")
        other = self.srun(*beside, "cxxrunctl", "status", "99999")
        self.assertEqual((other.code, other.out), (113, ""), other)
        closed = ("rule", "add", "ipproto", "tcp", "dport", "20000-32000", "prohibit")
        self.assertEqual(self.login("ip", *closed).code, 0)  # the agents' ports; those of srun and slurmd are open
        self.addCleanup(self.login, "ip", *(word.replace("add", "del") for word in closed))
        for words in ((), ("status",), ("status", job), (f"{job}.0",)):
            away = self.login("cxxrunctl", *words, code=0)
            self.assertRegex(away.out, rf"^{job}\.0 runs for ")
        away = self.login("cxxrunctl", "stacks", "all", job)
        self.assertRegex(away.out, r"^ranks 0-1: pid \d+ \(\w+\), state S", away)
        away = self.login("cxxrunctl", "logs", "1", job, code=0)
        self.assertIn("I am 1\n", away.out)
        self.assertNotIn("I am 0\n", away.out)
        self.check_page(job)
        self.check_top(job)
        away = self.login("cxxrunctl", "status", "99999", code=113)
        self.assertIn("no job 99999 of yours runs on this node, and squeue lists none elsewhere", away.err)
        self.open_gate("hold")
        self.wait_job(job, "COMPLETED")

    def check_page(self, job):
        """On the login node, of a job of two nodes with a rank each."""
        page = self.start("cxxrunctl", "page", job)
        page.says("and then the same address")
        port, token = re.search(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{32}) ", page.out).groups()
        for key, status in ((token, "200"), ("0" * 32, "401")):
            done = self.login("/usr/bin/python3", "-c", FETCH, port, key)
            self.assertEqual((done.code, done.out[:3]), (0, status), done)
            if status == "200":
                state = json.loads(done.out[4:])
                self.assertEqual((state["run"], state["hosts"], state["counts"]), (f"{job}.0", ["node1", "node2"], [1, 1]))
        page.kill(signal.SIGINT)
        self.assertEqual((page.wait(), page.err), (0, ""))

    def check_top(self, job):
        os.mkfifo(self.path("keys"))
        keys = os.open(self.path("keys"), os.O_RDWR)
        self.gates.append(keys)
        top = self.start("script", "-qec", f"stty rows 24 cols 80; exec cxxrunctl top {job}", "/dev/null",
                         env={"TERM": "xterm", "LANG": "C"}, stdin=self.path("keys"))
        top.says("node2 ")
        slurm_case.wait_until(lambda: top.out.count("\x1b[H") > 2, "two screens are whole")
        os.write(keys, b"q")
        self.assertEqual(top.wait(), 0, top.out)
        # Both top and the terminal put a carriage return before each line feed, and Python takes it for a line of its own.
        text = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", top.out.split("\x1b[H")[-2])
        screen = text.replace("\n\n", "\n").split("\n")
        self.assertRegex(screen[0], rf"^{job}\.0 runs for ")
        self.assertEqual((len(screen), max(map(len, screen)) <= 80), (24, True), screen)

    def test_a_shell_beside_the_allocation_is_told_where_its_workers_run(self):
        done = self.salloc("-N1", "cxxrun", "true", code=0)
        self.assertIn("which is no node of the Slurm job", done.err)
        self.assertIn("start cxxrun with srun", done.err)
        done = self.salloc("-N1", "srun", "cxxrun", "true")
        self.assertNotIn("no node of the Slurm job", done.err)

    def test_in_the_shell_of_several_tasks_cxxrun_runs_alone_and_srun_in_it_on_all(self):
        self.make_file("typed", "cxxrun --nproc-per-node 2 sh -c 'echo alone $WORLD''_SIZE' </dev/null\n"
                                "srun --overlap cxxrun sh -c 'echo both $WORLD''_SIZE' </dev/null\nexit\n")
        done = self.login("sh", "-c", "script -qec 'srun -N2 -n2 --pty bash --norc -i' /dev/null <typed", guard=30,
                          code=0)
        self.assertIn("typed into the shell of srun --pty", done.out)
        self.assertIn("alone 2", done.out)
        self.assertEqual(done.out.count("both 2"), 2, done)

    def test_a_batch_script_s_own_number_is_no_node_rank(self):
        """hpcfund 47: the script fills in its own $SLURM_PROCID, 0, for both nodes."""
        job = self.sbatch("srun cxxrun --nnodes 2 --node_rank $SLURM_PROCID --nproc_per_node 1 --rdzv_backend c10d "
                          "--rdzv_endpoint $(hostname):29671 --rdzv_id $SLURM_JOB_ID sh -c 'echo of $WORLD''_SIZE'",
                          "-N2", "--ntasks-per-node=1", state="COMPLETED")
        self.assertIn("--node-rank 0 is ignored: SLURM_NODEID is 1", self.output(job))

    def test_ids_and_options_that_differ_from_node_to_node_end_all_nodes(self):
        for options, cause in (("--rdzv-id 100$SLURM_PROCID", "--rdzv-id is 1001 here, and 1000 where"),
                               ("--max-restarts ${SLURM_PROCID/0/x}", "--max-restarts")):
            with self.subTest(options=options):
                done = self.srun("-N2", "--ntasks-per-node=1", "bash", "-c", f"cxxrun {options} true", guard=30)
                self.assertIn(done.code, (100, 112), done)
                self.assertIn(cause, done.err)


if __name__ == "__main__":
    slurm_case.main()
