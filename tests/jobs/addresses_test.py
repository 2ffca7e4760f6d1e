"""Names and addresses on machines that are set up otherwise than most: network and mount namespaces with an /etc of
their own. Usage: addresses_test.py CXXRUN NSS_MODULE. Needs root, else exit code 77."""
import glob
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import jobs
import wires
from jobs import JobCase

NSS_MODULE = os.path.abspath(sys.argv.pop(2))
NAME_SERVER = str(pathlib.Path(__file__).resolve().parents[1] / "support" / "name_server.py")
DEBIAN_ROOT = str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "debian_root")
PORT = 29400  # a namespace has all ports for itself
SETUP = 'test -z "$ETC" || mount --bind "$ETC" /etc; exec "$@"'
TELL = 'note at "$MASTER_ADDR"'


class Machines(JobCase):
    def hosts(self, count=1, ipv6=False):
        net = wires.Wires(count, ipv6=ipv6)
        self.addCleanup(net.close)
        self.net = net.hosts
        return self.net

    def on(self, host, *words, env=None):
        """cxxrun on that host, with /etc from `self.etc` if there is one."""
        behind = ("nsenter", f"--net={self.net[host].net}", "unshare", "--mount", "sh", "-c", SETUP, "sh")
        return self.start(*words, behind=behind, env={"ETC": getattr(self, "etc", ""), **(env or {})})

    def two(self, endpoint, worker, hosts=(0, 0), env=None):
        """Two agents that meet there and both succeed; where their workers look for the store."""
        agents = [self.on(host, "--nnodes", "2", "--node-rank", str(i), "--rdzv-endpoint", endpoint, *worker, env=env)
                  for i, host in enumerate(hosts)]
        self.assert_codes([0, 0], *agents)
        return {event[3] for event in self.events("at")}


class Loopback(Machines):
    def test_a_loopback_address_of_either_kind_may_be_the_endpoint(self):
        self.hosts()
        tell = [self.worker(TELL)]
        self.assertEqual(self.two(f"[::1]:{PORT}", tell), {"::1"})
        self.assertEqual(self.two(f"127.0.0.2:{PORT}", tell), {"::1", "127.0.0.1"})
        self.assertEqual(self.two(f"localhost:{PORT}", tell), {"::1", "127.0.0.1"})

    def test_without_127_0_0_1_it_is_the_other_one(self):
        self.hosts()[0].run("ip", "address", "delete", "127.0.0.1/8", "dev", "lo")
        for words in (["--standalone"], ["--rdzv-endpoint", f"[::1]:{PORT}"], []):
            self.assert_codes([0], self.on(0, *words, self.worker(TELL)))
        self.assertEqual({event[3] for event in self.events("at")}, {"::1"})

    def test_without_ipv6_it_is_127_0_0_1(self):
        self.hosts()[0].run("sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.lo.disable_ipv6=1")
        self.assert_codes([0], self.on(0, "--standalone", self.worker(TELL)))
        self.assertEqual(self.two(f"[::1]:{PORT}", [self.worker(TELL)]), {"127.0.0.1"})

    def test_an_interface_that_is_down_is_one_line_at_once(self):
        self.hosts()[0].run("ip", "link", "set", "lo", "down")
        agent = self.on(0, "--standalone", "true")
        self.assert_codes([111], agent)
        self.assertEqual(agent.stderr, "cxxrun: this host cannot reach itself: neither 127.0.0.1 nor ::1 is there; bring "
                                       "its loopback interface up (ip link set lo up)\n")


class Ipv6Only(Machines):
    def test_two_machines_without_ipv4(self):
        hosts = self.hosts(2, ipv6=True)
        for host in hosts:
            host.run("ip", "address", "delete", "127.0.0.1/8", "dev", "lo")
        endpoint = f"[{hosts[0].address}]:{PORT}"
        table = [self.on(i, "--doctor", "--nnodes", "2", "--node-rank", str(i), "--rdzv-endpoint", endpoint,
                         env={"PYTHON_EXEC": "/usr/bin/python3"}) for i in range(2)]
        self.assertEqual([each.wait() for each in table], [0, 0], table[0].stdout)
        self.assertRegex(table[0].stdout, r"ok +calls +2 of 2 came through")
        self.assertRegex(table[0].stdout, r"ok +ports ")
        self.assertEqual(self.two(endpoint, [self.worker(TELL)], (0, 1)), {hosts[0].address})
        body = """import torch.distributed as dist
dist.init_process_group("gloo")
note("at", os.environ["MASTER_ADDR"])
dist.barrier()
"""
        if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode != 0:
            self.skipTest("no PyTorch here")
        self.two(endpoint, self.python_worker(body), (0, 1), env={"GLOO_SOCKET_IFNAME": "eth0"})
        self.assertEqual(len(self.events("at")), 4)


class Steps(Machines):
    def test_an_address_that_every_node_of_a_step_has_leads_to_its_first_node(self):
        for host in self.hosts(2):
            host.run("ip", "link", "add", "docker0", "type", "bridge")
            host.run("ip", "address", "add", "172.17.0.1/16", "dev", "docker0")
            host.run("ip", "link", "set", "docker0", "up")
        agents = []
        for index in ("0", "1"):
            agents.append(self.on(int(index), "--rdzv-endpoint", f"172.17.0.1:{PORT}", self.worker(TELL), env={
                "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_NODEID": index, "SLURM_PROCID": index,
                "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": "10.77.0.[1-2]", "SLURM_STEP_NUM_NODES": "2",
                "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}))
            agents[0].says("waiting for")
        self.assert_codes([0, 0], *agents)
        self.assertEqual(sorted(event[1:4:2] for event in self.events("at")), [(rank, self.net[0].address) for rank in (0, 1)])


class Names(Machines):
    def setUp(self):
        super().setUp()
        self.hosts()
        self.etc = self.path("etc")
        shutil.copytree("/etc", self.etc, symlinks=True)
        self.write("hosts", "127.0.0.1 localhost\n")
        self.write("resolv.conf", "")
        self.write("nsswitch.conf", "passwd: files\nhosts: files dns\n")

    def write(self, name, text):
        pathlib.Path(self.etc, name).unlink(missing_ok=True)
        pathlib.Path(self.etc, name).write_text(text)

    def serve(self, name):
        server = subprocess.Popen(["nsenter", f"--net={self.net[0].net}", "/usr/bin/python3", NAME_SERVER, name,
                                   self.net[0].address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(server.communicate)
        self.assertEqual(server.stdout.readline(), b"ready\n")

    def meet_at(self, name, **more):
        self.assertEqual(self.two(f"{name}:{PORT}", [self.worker(TELL)], **more), {self.net[0].address})

    def test_the_file_of_hosts(self):
        self.write("hosts", f"{self.net[0].address} of-a-file\n")
        self.meet_at("of-a-file")

    def test_a_name_server_and_its_search_domain(self):
        self.serve("job.cluster.test")
        self.write("resolv.conf", f"nameserver {self.net[0].address}\nsearch cluster.test\n")
        self.meet_at("job.cluster.test")
        self.meet_at("job")

    def test_no_nsswitch_conf(self):
        pathlib.Path(self.etc, "nsswitch.conf").unlink()
        self.test_a_name_server_and_its_search_domain()

    def test_a_module_of_the_site_s_own(self):
        self.write("nsswitch.conf", "hosts: cxxrun\n")
        self.write("hosts", "")
        self.net[0].address = "10.99.0.1"
        self.net[0].run("ip", "address", "add", "10.99.0.1/24", "dev", "eth0")
        self.meet_at("of-a-module", env={"LD_LIBRARY_PATH": os.path.dirname(NSS_MODULE)})

    def test_a_name_server_that_says_nothing_keeps_no_table_of_the_doctor_s_waiting(self):
        address = self.net[0].address
        silent = f"import socket; its = socket.socket(type=socket.SOCK_DGRAM); its.bind(('{address}', 53)); print(flush=True); input()"
        server = subprocess.Popen(["nsenter", f"--net={self.net[0].net}", "/usr/bin/python3", "-c", silent],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(server.communicate)
        server.stdout.readline()
        self.write("hosts", f"127.0.0.1 localhost {socket.gethostname()}\n")
        self.write("resolv.conf", f"nameserver {address}\nnameserver {address}\n")
        nodes = [self.on(0, "--doctor", "--json", "--nnodes", "2", "--node-rank", str(rank), "--rdzv-endpoint",
                         f"{address}:{PORT}", "--local-addr", name, env={"PYTHON_EXEC": "/usr/bin/python3"})
                 for rank, name in enumerate((address, "nowhere.test"))]
        self.assert_codes([1, 0], *nodes)
        step = {each["about"]: each["found"] for each in json.loads(nodes[0].stdout)["step"]}
        self.assertEqual(step["nodes"], "all 2 reported")
        self.assertIn("no name server has answered within 10 s", step["calls"])

    def test_a_first_name_server_that_is_dead_is_a_warning_of_the_doctor_and_no_failure(self):
        name, dead, count = socket.gethostname(), "10.77.0.99", 8  # one look-up after the other took too long
        self.serve(name.lower())
        self.net[0].run("ip", "neighbour", "add", dead, "lladdr", "02:00:00:00:00:99", "dev", "eth0")  # it is silent
        self.write("resolv.conf", f"nameserver {dead}\nnameserver {self.net[0].address}\noptions timeout:4\n")
        nodes = [self.on(0, "--doctor", "--json", "--nnodes", str(count), "--node-rank", str(rank), "--rdzv-endpoint",
                         f"{name}:{PORT}", "--local-addr", name, env={"PYTHON_EXEC": "/usr/bin/python3"})
                 for rank in range(count)]
        self.assert_codes([0] * count, *nodes)
        told = json.loads(nodes[0].stdout)
        calls = next(each for each in told["step"] if each["about"] == "calls")
        self.assertTrue(calls["found"].startswith("56 of 56 came through"), calls)
        for node in told["nodes"]:
            bad = [each for each in node["findings"] if each["about"] == "names" and each["grade"] == "warning"]
            self.assertEqual(len(bad), 1, bad)
            self.assertRegex(bad[0]["found"], f"^{name} took [0-9.]+ s to resolve$")

    def test_a_name_that_nobody_knows_is_one_line(self):
        self.serve("job.cluster.test")
        self.write("resolv.conf", f"nameserver {self.net[0].address}\n")
        agent = self.on(0, "--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", f"nowhere.test:{PORT}", "true")
        self.assertNotEqual(agent.wait(), 0)
        self.assertRegex(agent.stderr, r"cannot resolve host nowhere\.test: .*this node must know that name \(getent hosts")

    def test_without_a_resolv_conf_names_of_the_file_of_hosts_work(self):
        pathlib.Path(self.etc, "resolv.conf").unlink()
        self.test_the_file_of_hosts()

    def test_a_name_server_that_cannot_be_reached_is_waited_for_a_minute_at_most(self):
        self.write("resolv.conf", "nameserver 10.98.0.9\n")  # no way leads there
        agent = self.on(0, "--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", f"job:{PORT}", "true")
        agent.says("cannot resolve host job yet: no name server answers (/etc/resolv.conf); trying for 60 s")
        agent.process.terminate()
        short = ("--rdzv-conf", "join_timeout=1")
        agent = self.on(0, "--nnodes", "2", "--node-rank", "1", *short, "--rdzv-endpoint", f"job:{PORT}", "true")
        self.assertNotEqual(agent.wait(), 0)
        self.assertIn("no name server answers (/etc/resolv.conf): add the name to /etc/hosts, or give an address with "
                      "--rdzv-endpoint", agent.stderr)
        agent = self.on(0, "--nnodes", "2", *short, "--rdzv-endpoint", f"job:{PORT}", "true")  # is it this machine?
        self.assertEqual(agent.wait(), 100)
        self.assertIn("no name server answers (/etc/resolv.conf)", agent.stderr)

    def test_a_name_server_that_comes_late_is_asked_again_also_by_who_does_not_know_whether_it_hosts(self):
        self.write("resolv.conf", f"nameserver {self.net[0].address}\noptions timeout:1 attempts:1\n")
        words = ("--nnodes", "2", "--rdzv-endpoint", f"job.cluster.test:{PORT}", self.worker(TELL))
        agents = [self.on(0, *words), self.on(0, *words)]
        for agent in agents:
            agent.says("cannot resolve host job.cluster.test yet: no name server answers (/etc/resolv.conf); trying for 60 s")
        self.serve("job.cluster.test")
        self.assert_codes([0, 0], *agents)
        self.assertEqual({event[3] for event in self.events("at")}, {self.net[0].address})

    def test_a_machine_s_own_name_by_the_module_myhostname(self):
        # In a root, where it is not installed: scripts/debian_root unpack myhostname SUITE libnss-myhostname
        root = subprocess.run([DEBIAN_ROOT, "path", "myhostname"], stdout=subprocess.PIPE, text=True).stdout.strip()
        modules = [*glob.glob("/lib/*/libnss_myhostname.so.2"), *glob.glob(f"{root}/usr/lib/*/libnss_myhostname.so.2")]
        if not modules:
            self.skipTest("libnss-myhostname is not installed")
        self.write("nsswitch.conf", "hosts: files myhostname\n")
        name = socket.gethostname()
        where = {"LD_LIBRARY_PATH": os.path.dirname(os.path.abspath(modules[0]))}
        self.assertEqual(len(self.two(f"{name}:{PORT}", [self.worker(TELL)], env=where)), 1)


if __name__ == "__main__":
    jobs.main(wires.missing())
