"""One machine of a test cluster: the process that becomes PID 1 of it and starts its daemons.

It has its own network, host name, PIDs, /proc, /run, /tmp and /dev/shm; everything else of the file system is shared
with the host, as with NFS."""
import os
import signal
import socket
import subprocess
import time

import namespaces as ns
from slurm_conf import LOGIN, address

UNIFIED = "unified"  # in place of a controller: version 2 of control groups
DAEMON_GUARD = 20  # seconds
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def become(name, base, plan, groups, talk):
    """Never returns. Says "unplugged", waits for "plugged", says "booted"; anything else it says is an error."""
    try:
        os.dup2(talk.fileno(), 3)
        os.closerange(4, 1024)
        talk.detach()
        talk = socket.socket(fileno=3)
        set_up_process(f"{base}/{name}")
        if UNIFIED in groups:  # its group is the root of those that it sees, as in a container
            enter(groups[UNIFIED])
            ns.unshare(ns.NEWCGROUP)
        ns.unshare(ns.NEWNS | ns.NEWNET | ns.NEWUTS | ns.NEWIPC)
        socket.sethostname(name)
        mount_all(base, plan["visible"], groups)
        talk.sendall(b"unplugged")
        talk.recv(16)
        connect(name)
        start_daemons(name, base)
        talk.sendall(b"booted")
        talk.close()
        reap_for_ever()
    except BaseException as error:
        talk.sendall(f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)


def set_up_process(folder):
    ns.die_with_parent(signal.SIGKILL)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for sub in ("munge", "spool", "state"):
        os.makedirs(f"{folder}/{sub}", mode=0o755, exist_ok=True)
    log = os.open(folder + "/boot.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ["PATH"] = PATH
    os.chdir("/")
    os.umask(0o022)


def mount_all(base, visible, groups):
    ns.mount("proc", "/proc", "proc")
    ns.bind(base + "/etc/hosts", "/etc/hosts")
    ns.bind(base + "/etc/slurm", "/etc/slurm")
    ns.hide([("/run", "755"), ("/dev/shm", "1777"), ("/tmp", "1777")], visible)
    os.makedirs("/run/munge", mode=0o755)
    if UNIFIED in groups:
        ns.unmount(ns.GROUPS)
        ns.mount("cgroup2", ns.GROUPS, "cgroup2")
        os.mkdir(ns.GROUPS + "/init.scope")
        enter(ns.GROUPS + "/init.scope")  # the group above may not have processes once it hands controllers on
        return
    for controller, group in groups.items():
        os.makedirs("/run/cgroup/" + controller)
        ns.bind(group, "/run/cgroup/" + controller)


def enter(group):
    with open(group + "/cgroup.procs", "w") as f:
        f.write("0")


def connect(name):
    lines = f"link set lo up\naddr add {address(name)}/24 dev eth0\nlink set eth0 up\n"
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True, capture_output=True)


def start_daemons(name, base):
    folder = f"{base}/{name}"
    start(["munged", "-F", f"--key-file={base}/etc/munge.key", f"--log-file={folder}/munge/log",
           f"--seed-file={folder}/munge/seed"],
          lambda: os.path.exists("/run/munge/munge.socket.2"), folder + "/munge/log")
    if name == LOGIN:
        start(["slurmctld", "-D"], lambda: listens(name, 6817) and answers(), folder + "/slurmctld.log")
    else:
        start(["slurmd", "-D"], lambda: listens(name, 6818), folder + "/slurmd.log")


def listens(name, port):
    with socket.socket() as probe:
        return probe.connect_ex((address(name), port)) == 0


def answers():
    """Since 26.05 slurmctld listens before it has read its configuration."""
    return subprocess.run(["scontrol", "ping"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def start(argv, ready, log):
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + DAEMON_GUARD
    while not ready():
        ended = process.poll()
        if ended is not None or time.monotonic() > deadline:
            what = f"ended with {ended}" if ended is not None else f"is not ready after {DAEMON_GUARD} s"
            raise RuntimeError(f"{argv[0]} {what}; the end of its log:\n{tail(log)}")
        time.sleep(0.01)


def tail(path, lines=15):
    try:
        with open(path, errors="replace") as f:
            return "".join(f.readlines()[-lines:])
    except OSError as error:
        return f"({error})"


def reap_for_ever():
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.2)
