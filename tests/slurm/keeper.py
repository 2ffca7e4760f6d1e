"""The process that a test cluster hangs on: it holds the network, starts and kills the machines, and cleans up.

Its own network namespace is the switch: a bridge and one cable per machine. Every machine is a process that is PID 1
of a set of namespaces and dies with the keeper. The keeper ends, and removes everything, when it is told to, at
SIGTERM, or when its lifeline (stdin, a pipe that only the owner holds open) ends, so also after the owner's SIGKILL.

Usage: keeper.py DIRECTORY    (internal; Cluster in cluster.py starts it and speaks JSON lines with it)"""
import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

import machine
import namespaces as ns

BOOT_GUARD = 30  # seconds


def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True, capture_output=True)


class Keeper:
    def __init__(self, base):
        self.base = base
        self.machines = {}  # name -> PID
        self.hierarchies = {}  # of control groups: controller -> where it is mounted
        self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        with open(base + "/plan.json") as f:
            self.plan = json.load(f)

    # ---- the switch

    def make_switch(self):
        ns.unshare(ns.NEWNET | ns.NEWNS)
        ns.mount("none", "/", flags=ns.RECURSIVE | ns.PRIVATE)
        ip("link set lo up", "link add switch type bridge forward_delay 0", "link set switch up")
        if ns.unified():
            self.hand_controllers_on()
        else:
            for controller in ("freezer", "memory"):
                self.mount_hierarchy(controller, f"{self.base}/{controller}")

    def hand_controllers_on(self):
        with open(ns.GROUPS + "/cgroup.controllers") as f:
            controllers = f.read().split()
        with open(ns.GROUPS + "/cgroup.subtree_control", "w") as f:
            f.write(" ".join("+" + name for name in controllers))
        self.hierarchies[machine.UNIFIED] = ns.GROUPS

    def mount_hierarchy(self, controller, place):
        os.mkdir(place)
        try:
            ns.mount(controller, place, "cgroup", data=controller)
        except OSError:
            os.rmdir(place)  # whoever needs it has asked before
            return
        self.hierarchies[controller] = place
        for group in os.listdir(place):  # of clusters whose keeper could not clean up
            if group.startswith("cxxrun-slurm-"):
                cluster = os.path.join(os.path.dirname(self.base), group.rsplit(".", 1)[0])
                if not os.path.exists(cluster):
                    with contextlib.suppress(OSError):  # a process of it may still be dying
                        self.remove_group(os.path.join(place, group))

    def plug(self, name):
        port = "to-" + name
        subprocess.run(["ip", "link", "del", port], capture_output=True)  # the old cable, if the kernel still has it
        ip(f"link add {port} type veth peer name eth0 netns {self.machines[name]}", f"link set {port} master switch up")

    def cut(self, name):
        ip(f"link set to-{name} down")

    def drop(self, name):
        subprocess.run(["bridge", "link", "set", "dev", "to-" + name, "state", "0"], check=True)

    def heal(self, name):
        ip(f"link set to-{name} up")
        deadline = time.monotonic() + 5
        # A port just cut has its carrier back only after a moment; until then its state cannot be set.
        while subprocess.run(["bridge", "link", "set", "dev", "to-" + name, "state", "3"]).returncode != 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the switch does not let {name} in again")
            time.sleep(0.02)

    # ---- machines

    def groups(self, name):
        own = f"{os.path.basename(self.base)}.{name}"
        return {controller: f"{place}/{own}" for controller, place in self.hierarchies.items()}

    def remove_group(self, path):
        deadline = time.monotonic() + 5
        for folder, _, _ in os.walk(path, topdown=False):
            while True:  # of version 2 a group is busy for a moment after its last process has been waited for
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)

    def boot(self, names):
        """Starts them side by side; an error names the machine and why."""
        talks = {}
        for name in names:
            groups = {}
            if self.plan["proctrack"] == "cgroup" and name != machine.LOGIN:
                groups = self.groups(name)
                for group in groups.values():
                    os.makedirs(group, exist_ok=True)
            here, there = socket.socketpair()
            ns.unshare(ns.NEWPID)  # of the next child
            pid = os.fork()
            if pid == 0:
                machine.become(name, self.base, self.plan, groups, there)  # does not return
            ns.setns(self.own_pids, ns.NEWPID)
            there.close()
            self.machines[name] = pid
            talks[name] = here
        for name, talk in talks.items():
            self.expect(name, talk, "unplugged")
            self.plug(name)
            talk.sendall(b"plugged")
        for name, talk in talks.items():
            self.expect(name, talk, "booted")
            talk.close()
        return self.machines

    def expect(self, name, talk, word):
        talk.settimeout(BOOT_GUARD)
        try:
            heard = talk.recv(65536).decode()
        except TimeoutError:
            heard = f"not {word} within {BOOT_GUARD} s"
        if heard != word:
            raise RuntimeError(f"{name} does not boot: {heard or 'it ended'}")

    def kill(self, names):
        pids = [self.machines.pop(name) for name in names if name in self.machines]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)  # returns when everything in its PID namespace is gone
        for name in names:
            for group in self.groups(name).values():
                self.remove_group(group)

    # ---- requests

    def perform(self, request):
        verb, names = request["verb"], request.get("names", [])
        if verb == "boot":
            return self.boot(names)
        if verb == "kill":
            return self.kill(names)
        if verb == "pids":
            return self.machines
        for name in names:
            {"cut": self.cut, "drop": self.drop, "heal": self.heal}[verb](name)
        return None

    def answer(self, connection):
        """Returns whether that was the last request."""
        with connection, connection.makefile("rw") as lines:
            request = json.loads(lines.readline() or '{"verb": "pids"}')
            last = request["verb"] == "down"
            try:
                reply = {"value": self.clean_up() if last else self.perform(request)}
            except Exception as error:
                traceback.print_exc()
                reply = {"error": str(error)}
            try:
                lines.write(json.dumps(reply) + "\n")
                lines.flush()
            except OSError:
                pass  # whoever asked has gone
        return last

    def serve(self):
        """Until told to end or until the owner is gone."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.base + "/keeper.socket")
        listener.listen(8)
        self.make_switch()
        selector = selectors.DefaultSelector()
        selector.register(listener, selectors.EVENT_READ)
        if not self.plan["detached"]:
            selector.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    return
                if self.answer(listener.accept()[0]):
                    return

    def clean_up(self):
        self.kill(list(self.machines))
        mounted = [place for controller, place in self.hierarchies.items() if controller != machine.UNIFIED]
        for place in mounted:
            ns.unmount(place)
        if not any(os.path.ismount(place) for place in mounted):
            shutil.rmtree(self.base, ignore_errors=True)


def terminated(number, frame):
    raise SystemExit(128 + number)


def main():
    base = sys.argv[1]
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keeper = Keeper(base)
    try:
        keeper.serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        keeper.clean_up()


if __name__ == "__main__":
    main()
