"""What cannot be meant as given: one line that says what to do, and its code. Usage: job_bad_input_test.py CXXRUN"""
import os
import resource
import socket
import subprocess
import sys

import jobs
from jobs import JobCase, wait_until

USAGE = 100   # options or environment: do not retry
SYSTEM = 111  # port in use, host unknown at the moment: retry
TOO_FEW = 112
PATIENCE = 20  # seconds, within which each of these has ended although nobody hurries the test


class BadInput(JobCase):
    def check(self, code, names, *arguments, env=None, program=True, **more):
        """Runs cxxrun to its end: `code` and one line, which holds each of `names` (how to call it may follow), and
        no worker ran."""
        command = [*arguments, self.worker("note ran")] if program else list(arguments)
        with self.subTest(" ".join(arguments), env=env):
            job = self.start(*command, env=env, **more)
            self.assertEqual(job.wait(PATIENCE), code, job.stderr)
            said = [line for line in job.stderr.splitlines() if line.strip() and ": info: " not in line]
            self.assertGreaterEqual(len(said), 1)
            self.assertEqual([line for line in said[1:] if not line.startswith("usage: ")], [], job.stderr)
            self.assertIn("cxxrun", said[0])
            for name in names:
                self.assertIn(name, said[0])
            self.assertEqual(job.stdout, "")
            self.assertEqual(self.events(), [])

    def test_options_that_do_not_exist_or_lack_a_value(self):
        self.check(USAGE, ["--no-such-option", "--help"], "--no-such-option")
        self.check(USAGE, ["-z"], "-z")
        self.check(USAGE, ["--max-restarts"], "--max-restarts", program=False)
        self.check(USAGE, ["--standalone"], "--standalone=perhaps")

    def test_no_program(self):
        self.check(USAGE, ["program"], program=False)
        self.check(USAGE, ["program"], "--standalone", "--nproc-per-node", "2", program=False)
        self.check(USAGE, ["program"], "--standalone", "--", program=False)

    def test_numbers_of_nodes(self):
        for value in ("3:2", "0", "-1", "a", "1:2:3", "2:", ":2", "", "99999999999999999999"):
            self.check(USAGE, ["--nnodes"], f"--nnodes={value}", "--rdzv-endpoint", f"127.0.0.1:{self.port}")

    def test_fences_that_cannot_hold(self):
        self.check(USAGE, ["--fence", "--quorum none"], "--fence", self.dir, "--quorum=none")
        self.check(USAGE, ["--fence", "--heartbeat-timeout"], "--fence", self.dir, "--heartbeat_timeout=0")
        self.check(USAGE, ["--fence", "/nowhere", "must exist"], "--fence", "/nowhere")
        self.check(USAGE, ["--fence", "not a directory"], "--fence", __file__)
        self.check(USAGE, ["--fence", "/proc: cannot make a file there"], env={"PET_FENCE": "/proc"})
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith(".cxxrun")], [])

    def test_several_nodes_without_a_place_to_meet(self):
        self.check(USAGE, ["--nnodes 2", "--rdzv-endpoint"], "--nnodes", "2")

    def test_standalone_with_several_nodes(self):
        self.check(USAGE, ["--standalone", "--nnodes"], "--standalone", "--nnodes", "2")

    def test_numbers_of_workers(self):
        for value in ("0", "-1", "many", "", "1.5", "99999999999999999999"):
            self.check(USAGE, ["--nproc-per-node"], "--standalone", f"--nproc-per-node={value}")

    def test_gpus_on_a_node_without(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a GPU")
        self.check(USAGE, ["--nproc-per-node", "gpu"], "--standalone", "--nproc-per-node", "gpu")

    def test_numbers_of_restarts_and_timeouts(self):
        for option in ("--max-restarts", "--restart-window", "--restart-delay", "--shutdown-timeout", "--restart-timeout",
                       "--kill-timeout"):
            for value in ("-1", "x", "", "1e99", "99999999999999999999"):
                self.check(USAGE, [option], "--standalone", f"{option}={value}")

    def test_words_that_are_not_among_the_choices(self):
        for option in ("--log-level", "--stdin", "--slurm-env", "--agent-store", "--rdzv-backend", "--start-method",
                       "-r", "-t", "--local-ranks-filter"):
            self.check(USAGE, [option], "--standalone", option, "nonsense")

    def test_rdzv_conf(self):
        for value in ("join_timeout", "=5", "join_timeout=", "join_timeout=soon", "join_timeout=-1", "is_host=perhaps"):
            self.check(USAGE, ["--rdzv-conf"], "--standalone", f"--rdzv-conf={value}")

    def test_endpoints(self):
        for value in (":29400", "host:70000", "host:port", "host:-1", "[::1", "a b:29400", ":"):
            self.check(USAGE, ["--rdzv-endpoint"], "--nnodes", "2", f"--rdzv-endpoint={value}")
        self.check(USAGE, ["--rdzv-endpoint", "port 0"], "--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:0")

    def test_ports(self):
        for value in ("70000", "-1", "x", ""):
            self.check(USAGE, ["--master-port"], f"--master-port={value}")

    def test_a_pet_variable_is_named_when_its_value_is_bad(self):
        self.check(USAGE, ["PET_NNODES"], env={"PET_NNODES": "3:2"})
        self.check(USAGE, ["PET_NPROC_PER_NODE"], env={"PET_NPROC_PER_NODE": "0"})

    def test_half_set_slurm_environments(self):
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0",
                "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
        for name in step:
            if name != "SLURM_STEP_ID":
                self.check(USAGE, [name, "SLURM_"], env=dict(step, **{name: None}))
        for name, value in (("SLURM_NODEID", "2"), ("SLURM_NODEID", "x"), ("SLURM_NODEID", "-1"),
                            ("SLURM_NODEID", "(null)"), ("SLURM_PROCID", "2"), ("SLURM_STEP_NODELIST", "n[1-"),
                            ("SLURM_STEP_NODELIST", "(null)"), ("SLURM_STEP_NODELIST", "n[1-99999999]"),
                            ("SLURM_STEP_NODELIST", "n[" + "1" * 100000 + "]"), ("SLURMD_NODENAME", "m"),
                            ("SLURM_STEP_NUM_TASKS", "3"), ("SLURM_RESTART_COUNT", "once"), ("SLURM_HET_SIZE", "2"),
                            ("SLURM_STEP_NUM_NODES", "3"), ("SLURM_STEP_TASKS_PER_NODE", "1(x")):
            self.check(USAGE, [name], env=dict(step, **{name: value}))

    def test_a_node_rank_beyond_the_nodes(self):
        self.check(USAGE, ["--node-rank 2"], "--nnodes", "2", "--node-rank", "2", "--rdzv-endpoint", "127.0.0.1:29400")

    def test_two_agents_with_one_node_rank(self):
        program = self.worker("gate go", "waits")
        first = self.start_node("--node-rank", "0", program, nnodes="2")
        first.says("waiting for nodes")
        self.check(SYSTEM, [str(self.port), "--rdzv-endpoint", "if node 0 runs on this machine already, give this one"],
                   "--nnodes", "2", "--node-rank", "0", "--rdzv-endpoint", f"127.0.0.1:{self.port}")
        second = self.start_node("--node-rank", "1", program, nnodes="2")
        third = self.start_node("--node-rank", "1", program, nnodes="2")
        refused = wait_until(lambda: [agent for agent in (second, third) if agent.process.poll() is not None],
                             "one of the two is refused")[0]
        self.assertEqual(refused.process.poll(), USAGE, refused.stderr)
        self.assertIn("node rank 1 is taken", refused.stderr)
        self.release(first, third if refused is second else second)

    def test_a_node_0_that_is_not_at_the_endpoint(self):
        job = self.run_job("--nnodes", "2", "--node-rank", "0", "--rdzv-conf", "join_timeout=1", "--rdzv-endpoint",
                           f"192.0.2.7:{self.port}", "true", code=TOO_FEW)
        self.assertIn("192.0.2.7 is not one of its addresses", job.stderr)

    def test_an_endpoint_that_does_not_answer(self):
        full = socket.create_server(("127.0.0.1", self.port), backlog=0)  # takes one connection, and nobody accepts it
        callers = [socket.socket() for _ in range(3)]
        self.addCleanup(lambda: [each.close() for each in (full, *callers)])
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", self.port))
        self.check(TOO_FEW, [f"127.0.0.1:{self.port}", "can this node reach it"], "--nnodes", "2", "--node-rank", "1",
                   "--rdzv-conf", "join_timeout=1", "--rdzv-endpoint", f"127.0.0.1:{self.port}")

    def test_a_host_that_cannot_be_resolved(self):
        self.check(USAGE, ["getent hosts nosuchhost.invalid", "--rdzv-endpoint"], "--nnodes", "2", "--rdzv-conf", "join_timeout=5",
                   "--rdzv-endpoint", "nosuchhost.invalid:29400")

    def test_an_endpoint_where_a_stranger_listens(self):
        with socket.create_server(("127.0.0.1", self.port)) as stranger:
            # It accepts and never says a word.
            self.check(SYSTEM, [f"127.0.0.1:{self.port}", "--rdzv-endpoint"], "--nnodes", "2", "--rdzv-conf",
                       "join_timeout=3", "--rdzv-endpoint", f"127.0.0.1:{self.port}")
            self.assertTrue(stranger)

    def test_an_endpoint_where_a_stranger_listens_with_this_node_as_host(self):
        with socket.create_server(("0.0.0.0", self.port)):
            self.check(SYSTEM, [str(self.port), "in use", "--rdzv-endpoint"], "--nnodes", "2", "--node-rank", "0",
                       "--rdzv-endpoint", f"127.0.0.1:{self.port}")

    def test_an_endpoint_where_nobody_listens(self):
        self.check(TOO_FEW, [f"127.0.0.1:{self.port}", "nothing listens there"], "--nnodes", "2", "--node-rank", "1", "--rdzv-conf",
                   "join_timeout=1", "--rdzv-endpoint", f"127.0.0.1:{self.port}")

    def test_a_master_port_in_use(self):
        with socket.create_server(("0.0.0.0", self.port)):
            self.check(SYSTEM, [str(self.port), "--master-port"], "--master-port", str(self.port))

    def test_a_namespace_in_which_every_user_looks_alike(self):
        if subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        self.check(SYSTEM, ["every user shows as uid 65534", "--store-access hosts or any"], "--standalone",
                   behind=("unshare", "-U"))

    def test_limits_of_the_system(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
        self.check(SYSTEM, ["ulimit -n"], "--standalone", preexec_fn=few)
        some = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        job = self.run_job("--standalone", "--nproc-per-node", "100", "true", preexec_fn=some, code=SYSTEM)
        self.assertIn("Too many open files", job.stderr)

    def test_a_module_with_no_python(self):
        self.check(USAGE, ["--no-python"], "--standalone", "--no-python", "-m", "json.tool", program=False)


if __name__ == "__main__":
    sys.exit(jobs.main())
