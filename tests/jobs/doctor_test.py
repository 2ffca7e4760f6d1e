"""cxxrun --doctor on one node. Usage: doctor_test.py CXXRUN DIRECTORY_OF_THE_NVML_DOUBLE"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

import hanging_dir
import jobs
import munged
from jobs import JobCase, read

NVML = os.path.abspath(sys.argv.pop(2))
V1 = pathlib.Path("/sys/fs/cgroup/cpu")
GRADES = ["fine", "note", "warning", "failure"]
LINES = ["names", "ports", "clock", "kernel", "CPUs", "memory", "/dev/shm", "descriptors", "processes", "locked memory",
         "GPUs", "NCCL", "interfaces", "Python", "directory", "logs", "home", "Slurm"]


def remove(group):
    """Whether it could be: what has ended stays in it for a moment."""
    try:
        group.rmdir()
        return True
    except OSError:
        return False


class Doctor(JobCase):
    def doctor(self, *words, env=None, before=(), **more):
        """The code, and the worst finding of this node about each thing."""
        environment = {**self.environment(), "PYTHON_EXEC": "/usr/bin/python3", **(env or {})}
        done = subprocess.run([*before, jobs.CXXRUN, "--doctor", "--json", *words], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **{"cwd": self.dir, **more})
        self.assertEqual(done.stderr, "")
        told = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if told["failures"] else 0, done.stdout)
        self.assertEqual(len(told["nodes"]), 1)
        found = {}
        for each in told["nodes"][0]["findings"]:
            old = found.setdefault(each["about"], each)
            found[each["about"]] = max(old, each, key=lambda one: GRADES.index(one["grade"]))
        return done.returncode, found

    def grade(self, about, *words, **more):
        return self.doctor(*words, **more)[1][about]["grade"]

    def test_the_table_and_the_object_say_the_same(self):
        _, found = self.doctor()
        self.assertEqual(list(found), LINES)
        self.assertEqual(os.listdir(self.dir), [])  # it has cleaned up
        job = self.run_job("--doctor", env={"PYTHON_EXEC": "/usr/bin/python3"})
        lines = [line for line in job.stdout.splitlines() if not line.startswith("   ")]
        self.assertEqual([line[6:21].strip() for line in lines[:-1]], LINES)
        self.assertRegex(lines[-1], r"^cxxrun --doctor on \S+: \d+ failures?, \d+ warnings?$")

    @unittest.skipUnless(os.getuid() == 0, "root may have any number of processes, and must become somebody else")
    @mock.patch.dict(os.environ, ASAN_OPTIONS="detect_leaks=0")  # a process of its own would look for them
    def test_a_limit_on_processes_is_the_failure_and_nothing_is_said_to_hang(self):
        os.chmod(self.dir, 0o777)
        uid = 60_000 + os.getpid() % 5_000  # nobody else's: beside another process of the user not even exec would do
        def limited():
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            os.setuid(uid)
        code, found = self.doctor(preexec_fn=limited)
        self.assertEqual((code, found["processes"]["found"]),
                         (1, "no process could be started: Resource temporarily unavailable"))
        self.assertEqual({about: each["found"] for about, each in found.items() if "answer" in each["found"]}, {})

    @unittest.skipUnless(V1.exists() and os.access(V1, os.W_OK), "no control groups of version 1 that could be made here")
    def test_limits_of_control_groups_of_version_1(self):
        groups = [V1.parent / controller / f"cxxrun_doctor_{os.getpid()}" for controller in ("cpu", "pids")]
        for group, limits in zip(groups, ({"cpu.cfs_period_us": 100000, "cpu.cfs_quota_us": 50000}, {"pids.max": 60})):
            group.mkdir()
            self.addCleanup(jobs.wait_until, lambda group=group: remove(group), "the kernel to let go of the group")
            for name, limit in limits.items():
                (group / name).write_text(str(limit))
        enter = ["sh", "-c", 'for i in 1 2; do echo $$ >"$1/cgroup.procs"; shift; done; exec "$@"', "sh", *map(str, groups)]
        _, found = self.doctor(before=enter)
        self.assertIn("control group quota 0.5", found["CPUs"]["found"])
        self.assertRegex(found["processes"]["found"], r", \d\d left in the control group$")

    @unittest.skipUnless(os.getuid() == 0, "files of /proc are hidden behind others, which needs root")
    def test_limits_of_control_groups_of_version_2(self):
        for name, text in {"group/cpu.max": "50000 100000", "group/pids.max": "60", "group/pids.current": "3", "cgroup": "0::/",
                           "mountinfo": f"30 24 0:26 / {self.path('group')} rw - cgroup2 cgroup2 rw"}.items():
            self.make_file(name, text + "\n")
        hide = 'for name in cgroup mountinfo; do mount --bind "$0/$name" "/proc/$$/$name"; done; exec "$@"'
        _, found = self.doctor(before=["unshare", "--mount", "--propagation", "private", "sh", "-ec", hide, self.dir])
        self.assertIn("control group quota 0.5", found["CPUs"]["found"])
        self.assertIn(", 57 left in the control group", found["processes"]["found"])

    @unittest.skipUnless(shutil.which("cc"), "a stand-in for NCCL is compiled")
    def test_nccl(self):
        source, library = self.path("nccl.c"), self.path("libnccl.so.2")
        for version, text in ((2804, "2.8.4"), (22707, "2.27.7")):
            pathlib.Path(source).write_text(f"int ncclGetVersion(int* version) {{ *version = {version}; return 0; }}\n")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            _, found = self.doctor(env={"LD_LIBRARY_PATH": self.dir + ":" + NVML, "NVML_DOUBLE": "fine"})
            self.assertIn(text, found["NCCL"]["found"])

    def test_gpus(self):
        env = {"LD_LIBRARY_PATH": NVML}
        _, found = self.doctor(env={**env, "NVML_DOUBLE": "fine"})
        self.assertEqual(found["GPUs"]["found"], "2 x NVIDIA Double, driver 550.54.15")
        for none in ("", "-1", "NoDevFiles"):
            self.assertEqual(self.grade("GPUs", env={**env, "CUDA_VISIBLE_DEVICES": none}), "warning")
        code, found = self.doctor(env={**env, "NVML_DOUBLE": "lost"})
        self.assertEqual((code, found["GPUs"]["grade"]), (1, "failure"))
        self.assertIn("GPU 1: GPU is lost", found["GPUs"]["found"])
        self.assertIn("--exclude=", found["GPUs"]["remedy"])
        self.assertEqual(self.grade("GPUs", env={**env, "NVML_DOUBLE": "dies"}), "failure")

    def test_a_gpu_of_another_job_is_none_of_this_one(self):
        _, found = self.doctor(env={"LD_LIBRARY_PATH": NVML, "NVML_DOUBLE": "forbids"})
        self.assertEqual((found["GPUs"]["grade"], found["GPUs"]["found"]),
                         ("fine", "1 x NVIDIA Double, driver 550.54.15, 1 forbidden to this job"))

    @unittest.skipUnless(os.environ.get("CXXRUN_PATIENCE"), "the time limit is 10 s")
    def test_a_driver_that_hangs_holds_nobody_up(self):
        code, found = self.doctor(env={"LD_LIBRARY_PATH": NVML, "NVML_DOUBLE": "hangs"})
        self.assertEqual(code, 1)
        self.assertEqual(found["GPUs"]["found"], "the driver did not answer within 10 s")
        self.assertEqual(list(found), LINES)

    @unittest.skipUnless(os.environ.get("CXXRUN_PATIENCE"), "the time limit is 10 s")
    @unittest.skipUnless(os.getuid() == 0 and os.path.exists("/dev/fuse"), "a directory that hangs needs root and FUSE")
    def test_a_directory_that_hangs_is_told_by_name_and_no_other_one(self):
        os.mkdir(self.path("hung"))
        with hanging_dir.hanging(self.path("hung")) as hung:
            for line, where, env in (("directory", hung, {}), ("home", self.dir, {"HOME": hung + "/u"}),
                                     ("logs", self.dir, {"TMPDIR": hung + "/u"})):
                _, found = self.doctor(cwd=where, env={"PYTHON_EXEC": "nosuch", **env})
                told = {about: each["found"] for about, each in found.items() if "did not answer" in each["found"]}
                self.assertEqual(told, {line: f"{[hung, *env.values()][-1]} did not answer within 10 s"})
                self.assertEqual((found["logs"]["grade"], found["home"]["grade"]).count("fine"), 2 - len(env))

    def test_python(self):
        broken = self.make_file("python",
                                "#!/bin/sh\necho first; echo 'cannot open shared object file' >&2; exit 127\n", 0o755)
        code, found = self.doctor(env={"PYTHON_EXEC": broken})
        self.assertEqual(code, 1)
        self.assertEqual(found["Python"]["found"], broken + ": cannot open shared object file")
        self.assertEqual(self.doctor(broken)[1]["Python"], found["Python"])  # the program that is given
        self.assertEqual(self.grade("Python", env={"PYTHON_EXEC": "nosuchpython"}), "failure")
        bare = {"PATH": self.path("bare"), "PYTHON_EXEC": ""}
        for words, grade in (([], "note"), (["./train"], "note"), (["train.py"], "failure"), (["-m", "train"], "failure"),
                             (["--no-python", "train.py"], "note"), (["python3", "-c", "1"], "failure")):
            with self.subTest(words):
                self.assertEqual(self.grade("Python", *words, env=bare), grade)
        for name in ("python", "pythonic"):
            self.make_file(name, "#!/bin/sh\necho $0 >>$DIR/ran\n", 0o755)
        _, found = self.doctor(broken)
        self.assertEqual((found["Python"]["grade"], read(self.path("ran"))), ("warning", broken + "\n"))
        self.assertEqual(self.grade("Python", self.path("pythonic")), "fine")  # a program of the user's is not run
        self.assertEqual(read(self.path("ran")), broken + "\n")
        version = "%d.%d.%d" % sys.version_info[:3]
        _, found = self.doctor(env={"PYTHON_EXEC": sys.executable})
        self.assertTrue(found["Python"]["found"].startswith(version + " at "), found["Python"])

    def test_torch_is_read_and_not_imported(self):
        self.make_file("torch/__init__.py", "raise SystemExit('imported')\n")
        self.make_file("torch/version.py", "__version__ = '2.14.1+cu130'\ncuda: Optional[str] = '13.0'\n")
        _, found = self.doctor(env={"PYTHON_EXEC": sys.executable, "PYTHONPATH": self.dir})
        self.assertIn("torch 2.14.1+cu130", found["Python"]["found"])
        self.assertIn("13.0", found["Python"]["found"])

    def test_limits(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        code, found = self.doctor(preexec_fn=few)
        self.assertEqual((code, found["descriptors"]["grade"]), (1, "failure"))

    def test_directories(self):
        self.assertEqual(self.grade("directory"), "fine")
        _, found = self.doctor(cwd="/proc")
        self.assertIn("/proc (another file system): cannot write there", found["directory"]["found"])
        self.make_file("file")
        self.assertEqual(self.grade("logs", "--log-dir", self.path("file/logs")), "failure")
        self.assertEqual(self.grade("home", env={"HOME": self.path("nowhere")}), "note")

    @unittest.skipUnless(os.getuid() == 0, "a file system that is full needs root")
    def test_a_full_file_system_is_told_and_not_its_locks(self):
        full = 'mount -t tmpfs -o nr_inodes=2 full . && cd "$PWD" && exec "$@"'
        _, found = self.doctor(before=["unshare", "--mount", "sh", "-c", full, "sh"])
        self.assertEqual(found["directory"]["found"],
                         f"{self.dir} (tmpfs): cannot write there: No space left on device")

    @unittest.skipUnless(os.getuid() == 0, "a machine without IPv6 is a network namespace")
    def test_an_ipv6_address_on_a_machine_without_one_is_no_difference_to_getent(self):
        self.make_file("hosts", "10.9.0.1 doctored\nfd00::9 doctored\n")
        setup = ("mount --bind hosts /etc/hosts && hostname doctored && ip link set lo up && "
                 "ip link add veth0 type veth peer veth1 && ip addr add 10.9.0.1/24 dev veth0 && exec \"$@\"")
        _, found = self.doctor(before=["unshare", "--mount", "--net", "--uts", "sh", "-c", setup, "sh"])
        self.assertEqual(found["names"]["found"], "doctored is 10.9.0.1 fd00::9, reverse lookup doctored")

    def getent(self, address):
        """The PATH of another getent."""
        self.make_file("getent", f"#!/bin/sh\necho {address} STREAM $2\n", 0o755)
        return self.dir + ":" + os.environ["PATH"]

    @unittest.skipUnless(os.getuid() == 0, "a name that nobody knows is a machine's in a namespace")
    def test_a_name_that_getent_alone_knows_is_told(self):
        setup = 'mount --bind /dev/null /etc/hosts && hostname nowhere.test && exec "$@"'
        words = ["unshare", "--mount", "--net", "--uts", "sh", "-c", setup, "sh", jobs.CXXRUN, "--doctor"]
        env = self.environment({"PATH": self.getent("10.9.0.9")})
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        self.assertIn("note  names          nowhere.test has no address: ", done.stdout)
        self.assertIn("WARN  names          nowhere.test resolves to nothing in cxxrun, but to 10.9.0.9 in getent\n", done.stdout)

    def test_interfaces_and_slurm(self):
        gpus = {"LD_LIBRARY_PATH": NVML, "NVML_DOUBLE": "fine"}
        self.assertEqual(self.grade("interfaces", env={**gpus, "NCCL_SOCKET_IFNAME": "nosuch"}), "failure")
        self.assertEqual(self.grade("interfaces", env={**gpus, "NCCL_SOCKET_IFNAME": "lo"}), "fine")
        self.assertEqual(self.grade("Slurm", env={"SLURM_JOB_ID": "7", "PATH": self.dir}), "warning")  # but no step
        self.assertEqual(self.grade("Slurm", env={"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}), "failure")  # half of it

    def test_a_step_whose_variables_did_not_come_through_is_told(self):
        step = self.path("slurmstepd")
        shutil.copy("/bin/sh", step)
        job = self.run_job(behind=(step, "-c", '"$0" --doctor; exit $?'), env={"PYTHON_EXEC": "/usr/bin/python3"})
        self.assertEqual(job.code, 1, job.stdout)
        self.assertIn("none of its SLURM_* variables came through", job.stdout)

    def test_a_job_script_where_there_is_no_slurm_or_one_that_fails(self):
        job = self.run_job("--init", "train.py", "a b", env={"PATH": self.dir})
        self.assertEqual((job.code, job.stderr), (0, ""))
        self.assertIn("# there is no sinfo in PATH here: choose partition and GPUs yourself.", job.stdout)
        self.assertTrue(job.stdout.endswith("\nsrun cxxrun train.py 'a b'\n"), job.stdout)
        for how in ("-m", "--no-python", "--run-path", "--max-restarts 3 --warm"):
            told = self.run_job("--init", *how.split(), "trainer", env={"PATH": self.dir}).stdout
            self.assertTrue(told.endswith(f"\nsrun cxxrun --doctor {how} trainer || exit\nsrun cxxrun {how} trainer\n"), told)
        for asks in ("--init=true", "--init --init"):
            told = self.run_job(*asks.split(), "--nnodes=4", "train.py", "--init", env={"PATH": self.dir}).stdout
            self.assertTrue(told.endswith("\nsrun cxxrun --nnodes=4 train.py --init\n"), told)
            self.assertIn("\n#SBATCH --nodes=4\n", told)
        self.make_file("sinfo", "#!/bin/sh\necho 'sinfo: error: no controller' >&2; exit 1\n", 0o755)
        self.assertIn("# sinfo: error: no controller: choose", self.run_job("--init", env={"PATH": self.dir}).stdout)

    def of_nodes(self, nodes, rank, *words, env=None, cwd=None):
        return self.start("--doctor", "--json", "--nnodes", str(nodes), "--node-rank", str(rank), *words,
                          cwd=cwd or self.dir, env={"PYTHON_EXEC": "/usr/bin/python3", **(env or {})})

    def of_two(self, rank, *words, **more):
        return self.of_nodes(2, rank, *words, **more)

    def test_two_nodes_by_flags_are_one_table(self):
        where = ("--rdzv-endpoint", f"localhost:{self.port}")
        first, second = self.of_two(0, *where), self.of_two(1, *where)
        self.assertEqual((second.wait(), second.stdout, second.stderr), (0, "", ""))
        code, told = first.wait(), json.loads(first.stdout)
        self.assertEqual(code, 1 if told["failures"] else 0, first.stdout)
        step = {each["about"]: each["found"] for each in told["step"]}
        self.assertEqual(step["nodes"], "all 2 reported")
        self.assertTrue(step["calls"].startswith("2 of 2 came through"), step)
        self.assertEqual(step["shared"], "all nodes share the working directory and its locks")
        self.assertEqual(len(told["nodes"]), 2)
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith(".cxxrun-doctor")], [])
        lost = self.run_job("--doctor", "--nnodes", "2", *where)
        self.assertEqual((lost.code, lost.stdout), (100, ""))
        self.assertEqual(lost.stderr, "cxxrun: --doctor over several nodes without Slurm: add --node-rank, from 0 on the "
                                      "first node to 1\n")

    def test_a_first_node_that_getent_finds_elsewhere_is_told(self):
        where = ("--rdzv-endpoint", f"localhost:{self.port}")
        first = self.of_two(0, *where)
        self.of_two(1, *where, env={"PATH": self.getent("10.9.0.9")}).wait()
        first.wait()
        nodes = [[each for each in node["findings"] if "in getent" in each["found"]]
                 for node in json.loads(first.stdout)["nodes"]]
        told = [each for each in nodes[1] if not each["found"].startswith(socket.gethostname() + " resolves to ")]
        self.assertEqual([(each["about"], each["grade"]) for each in told], [("names", "warning")])
        self.assertRegex(told[0]["found"], r"^localhost resolves to \S.* in cxxrun, but to 10\.9\.0\.9 in getent$")
        self.assertEqual(nodes[0], [])

    def test_of_many_nodes_each_calls_the_next_one_and_three_others_at_most(self):
        if jobs.is_sanitized():
            self.skipTest("18 slow ones do not call each other in time")
        nodes = [self.of_nodes(18, rank, "--rdzv-endpoint", f"localhost:{self.port}") for rank in range(18)]
        for each in nodes:
            each.wait()
        calls = {each["about"]: each["found"] for each in json.loads(nodes[0].stdout)["step"]}["calls"]
        all_calls = int(re.match(r"\d+ of (\d+) came through", calls)[1])
        self.assertTrue(18 < all_calls <= 18 * 4, calls)

    @unittest.skipUnless(os.environ.get("CXXRUN_PATIENCE"), "the time limit is 10 s")
    @unittest.skipUnless(os.getuid() == 0 and os.path.exists("/dev/fuse"), "a directory that hangs needs root and FUSE")
    def test_a_directory_that_hangs_keeps_no_table_from_coming_about(self):
        os.mkdir(self.path("hung"))
        where = ("--rdzv-endpoint", f"localhost:{self.port}")
        with hanging_dir.hanging(self.path("hung")) as hung:
            for dirs, shared in (((hung, hung), "not known: the working directory of the first node did not answer"),
                                 ((self.dir, hung), f"not known for {socket.gethostname()}, whose working directory did not answer")):
                begin = time.monotonic()
                nodes = [self.of_two(rank, *where, cwd=cwd, env={"PYTHON_EXEC": "nosuch"})
                         for rank, cwd in enumerate(dirs)]
                self.assertEqual([node.wait() for node in nodes], [1, 0])
                self.assertLess(time.monotonic() - begin, 20)
                step = {each["about"]: each["found"] for each in json.loads(nodes[0].stdout)["step"]}
                self.assertEqual((step["nodes"], step["shared"]), ("all 2 reported", shared))

    @unittest.skipUnless(os.getuid() == 0 and os.path.exists("/proc/net/if_inet6"),
                         "an address that does not answer is an IPv6 one of a network namespace")
    def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(self):
        self.make_file("hosts", f"fd00::99 twofaced\n127.0.0.1 twofaced {socket.gethostname()}\n")
        setup = ("mount --bind hosts /etc/hosts && ip link set lo up && ip link add veth0 type veth peer veth1 && "
                 "ip link set veth0 up && ip link set veth1 up && ip addr add fd00::1/64 dev veth0 nodad && "
                 "ip neigh add fd00::99 lladdr 02:00:00:00:00:01 dev veth0 && getent ahosts twofaced >&2 && "
                 "{ \"$@\" --node-rank 1 --local-addr twofaced & } && exec \"$@\" --node-rank 0")
        doctor = [jobs.CXXRUN, "--doctor", "--json", "--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29400"]
        done = subprocess.run(["unshare", "--mount", "--net", "sh", "-c", setup, "sh", *doctor], cwd=self.dir, timeout=60,
                              env=self.environment({"PYTHON_EXEC": "nosuch"}), capture_output=True, text=True)
        self.assertTrue(done.stderr.startswith("fd00::99"), done.stderr)
        calls = next(each for each in json.loads(done.stdout)["step"] if each["about"] == "calls")
        self.assertTrue(calls["found"].startswith("2 of 2 came through"), calls)

    @unittest.skipUnless(os.environ.get("CXXRUN_PATIENCE"), "the first node is tried for 40 s")
    @unittest.skipIf(munged.missing(), munged.missing())
    def test_two_nodes_whose_munged_have_different_keys_are_told_of_munge(self):
        nodes = [munged.Munged(key * 64) for key in (b"a", b"b")]
        def of_two(rank):
            self.addCleanup(nodes[rank].close)
            return self.start("--doctor", "--json", "--nnodes", "2", "--node-rank", str(rank), "--rdzv-endpoint",
                              f"localhost:{self.port}", behind=nodes[rank].inside(),
                              env={"PYTHON_EXEC": "nosuch", "HOME": None})
        first, second = of_two(0), of_two(1)
        self.assertEqual(second.wait(60), 1)
        why = json.loads(second.stdout)["step"][0]
        self.assertTrue(why["found"].startswith("the first node, localhost, is not trusted: munged: Invalid credential"), why)
        self.assertIn("munge -n | ssh NODE unmunge", why["remedy"])
        first.wait()

    def test_a_port_that_is_taken_is_told_on_the_first_node(self):
        with socket.create_server(("", 0)) as other:
            first = self.of_two(0, "--rdzv-endpoint", f"localhost:{other.getsockname()[1]}")
            self.assertEqual(first.wait(), 1)
        why = json.loads(first.stdout)["step"][0]
        self.assertTrue(why["found"].startswith("cannot listen where the nodes are to meet"), why)
        self.assertTrue(why["remedy"].startswith("give all nodes another port"), why)

    def test_another_store_s_port_is_passed_over_and_nothing_is_left_after_ctrl_c(self):
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_PROCID": "0",
                "SLURM_STEP_NODELIST": "127.0.0.1,127.0.0.2", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
        with socket.socket() as other:
            other.bind(("0.0.0.0", jobs.port_of("doctor 7.0")))
            other.listen()
            first = self.start("--doctor", cwd=self.dir, start_new_session=True, env={"PYTHON_EXEC": "nosuch", **step})
            mine = lambda: [name for name in os.listdir(self.dir) if name.startswith(".cxxrun-doctor")]
            jobs.wait_until(lambda: [name for name in mine() if os.path.isfile(self.path(name))], "the table is open, and a file shows the directory")
            other.settimeout(0)
            self.assertRaises(BlockingIOError, other.accept)
            os.killpg(first.pid, signal.SIGINT)
            self.assertEqual(first.wait(), -signal.SIGINT)
        jobs.wait_until(lambda: not mine(), "nothing is left in the working directory")

    def test_json_alone(self):
        job = self.run_job("--standalone", "--json", "true", code=0)
        self.assertIn("--json has no effect without --doctor", job.stderr)


if __name__ == "__main__":
    sys.exit(jobs.main())
