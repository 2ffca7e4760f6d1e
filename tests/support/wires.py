"""Network namespaces joined by veth pairs: hosts on wires of a chosen speed that can be cut or lossy. Needs root.

A namespace lives as long as the process that holds it, and that ends with this one: nothing stays behind."""
import os
import shutil
import subprocess


def missing(*programs):
    """Why there can be none here, or None; `programs` are needed besides."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    for program in ("ip", "tc", "unshare", "nsenter", *programs):
        if shutil.which(program) is None:
            return f"needs the program {program}"
    probe = subprocess.run(["unshare", "--net", "ip", "link", "add", "x0", "type", "veth", "peer", "name", "x1"],
                           capture_output=True, text=True)
    return None if probe.returncode == 0 else f"cannot make a network namespace: {probe.stderr.strip()}"


class Host:
    def __init__(self, address):
        self.address = address
        # Ends when its standard input closes, which the kernel does whatever happens to this process.
        self.holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdin.write(b"\n")
        self.holder.stdin.flush()
        self.holder.stdout.read(1)  # it is in its namespace now
        self.net = f"/proc/{self.holder.pid}/ns/net"
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command):
        subprocess.run(["nsenter", f"--net={self.net}", *command], check=True, capture_output=True, text=True)

    @property
    def word(self):
        """What rails_load takes."""
        return f"{self.net}={self.address}"

    def close(self):
        self.holder.communicate()


class Wires:
    """`count` hosts on a switch, or two on one wire; `rate` in the words of tc, such as "1gbit"; `ipv6`: IPv6 only."""

    def __init__(self, count, rate=None, switch=True, ipv6=False):
        self.rate, self.ipv6 = rate, ipv6
        self.hosts = []
        self.switch = Host("") if switch else None
        if self.switch:
            self.switch.run("ip", "link", "add", "br0", "type", "bridge")
            self.switch.run("ip", "link", "set", "br0", "up")
        for _ in range(count):
            self.add()
        if not self.switch:
            self._plug(0, self.hosts[1], "eth0")
            self._address(self.hosts[0])
            self._address(self.hosts[1])

    def add(self):
        """One more host, on the switch when there is one; returns its index."""
        i = len(self.hosts)
        self.hosts.append(Host(f"fd77::{i + 1:x}" if self.ipv6 else f"10.77.{i // 250}.{i % 250 + 1}"))
        if self.switch:
            name = f"port{i}"
            self._plug(i, self.switch, name)
            self.switch.run("ip", "link", "set", name, "master", "br0")
            self.switch.run("ip", "link", "set", name, "up")
            if self.rate:
                self._shape(self.switch, name, self.rate)
            self._address(self.hosts[i])
        return i

    def _plug(self, i, other, name):
        self.hosts[i].run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns",
                          str(other.holder.pid))

    def _address(self, host):
        host.run("ip", "address", "add", *([f"{host.address}/64", "dev", "eth0", "nodad"] if self.ipv6 else
                                           [f"{host.address}/16", "dev", "eth0"]))
        host.run("ip", "link", "set", "eth0", "up")
        if self.rate:
            self._shape(host, "eth0", self.rate)

    @staticmethod
    def _shape(host, device, rate):
        host.run("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "256kb", "limit", "2mb")

    def cut(self, i):
        """Pulls the plug in the wall: both ends see nothing but silence."""
        self.switch.run("ip", "link", "set", f"port{i}", "nomaster")

    def link(self, i, up):
        """The switch's end of the wire goes down, and up again: the host sees its carrier go and come back."""
        self.switch.run("ip", "link", "set", f"port{i}", "up" if up else "down")

    def drop(self, match):
        """What the switch forwards and nft's words match is lost, such as "iifname port0"."""
        self.nft(self.switch, "bridge", "forward", f"{match} drop")

    def reject(self, i, port, how):
        """A firewall of host i refuses that TCP port to others; `how` in nft's words, such as "tcp reset"."""
        self.nft(self.hosts[i], "inet", "input", f"iifname eth0 tcp dport {port} reject with {how}")

    @staticmethod
    def nft(host, family, hook, rule):
        host.run("nft", f"add table {family} faults; add chain {family} faults {hook} {{ type filter hook {hook} "
                 f"priority 0; }}; add rule {family} faults {hook} {rule}")

    def mend(self):
        """Every filter is gone, everywhere."""
        for host in [*self.hosts, self.switch]:
            host.run("nft", "flush", "ruleset")

    def close(self):
        for host in self.hosts + ([self.switch] if self.switch else []):
            host.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
