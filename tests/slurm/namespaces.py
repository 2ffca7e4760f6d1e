"""System calls that Python 3.11 does not have, and whether they are allowed here."""
import ctypes
import os
import shutil
import subprocess
import tempfile

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
NEWCGROUP = 0x2000000
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
DETACH = 2
SET_PDEATHSIG = 1
GROUPS = "/sys/fs/cgroup"

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unified():
    """Whether this machine has control groups of version 2 alone."""
    return os.path.exists(GROUPS + "/cgroup.controllers")


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def setns(fd, kind):
    _check(_libc.setns(fd, kind), "setns")


def die_with_parent(number):
    _check(_libc.prctl(SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def mount(source, target, kind=None, flags=0, data=None):
    encode = lambda text: text.encode() if text is not None else None
    _check(_libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(data)),
           f"mount {target}")


def unmount(target):
    _check(_libc.umount2(target.encode(), DETACH), f"umount {target}")


def bind(source, target):
    mount(source, target, flags=BIND)


def hide(places, visible):
    """An empty tmpfs at each of the places, (path, mode). What is visible of the host's /tmp stays where it is, so that a
    build directory there can be used."""
    kept = {path: os.open(path, os.O_PATH) for path in visible if path.startswith("/tmp/")}
    for place, mode in places:
        mount("tmpfs", place, "tmpfs", data="mode=" + mode)
    for path, fd in kept.items():
        os.makedirs(path)
        bind(f"/proc/self/fd/{fd}", path)
        os.close(fd)


def _mount_proc_as_pid_1():
    unshare(NEWPID)
    pid = os.fork()
    if pid == 0:
        try:
            mount("proc", "/proc", "proc")
            os._exit(0)
        except OSError:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        raise PermissionError("mount /proc")


def _link(*words):
    subprocess.run(["ip", "link", "add", *words], check=True, capture_output=True)


def _probes(place, freezer):
    yield "a mount namespace", lambda: (unshare(NEWNS), mount("none", "/", flags=RECURSIVE | PRIVATE))
    yield "a tmpfs", lambda: mount("tmpfs", place, "tmpfs")
    yield "a device file", lambda: os.mknod(place + "/null", 0o20666, os.makedev(1, 3))
    yield "a network namespace", lambda: unshare(NEWNET)
    yield "a bridge", lambda: _link("name", "br0", "type", "bridge")
    yield "a veth pair", lambda: _link("name", "a", "type", "veth", "peer", "name", "b")
    yield "UTS and IPC namespaces", lambda: unshare(NEWUTS | NEWIPC)
    if freezer and not unified():
        yield "a cgroup v1 freezer", lambda: (mount("freezer", place, "cgroup", data="freezer"),
                                              os.mkdir(f"{place}/cxxrun-slurm-{os.getpid()}.probe"),
                                              os.rmdir(f"{place}/cxxrun-slurm-{os.getpid()}.probe"))
    yield "a PID namespace with /proc", _mount_proc_as_pid_1


def missing(freezer):
    """What cannot be made here, in words, or None. Tried in a process of its own, so nothing is left of it."""
    place = tempfile.mkdtemp(prefix="cxxrun-slurm-probe-")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for what, attempt in _probes(place, freezer):
                try:
                    attempt()
                except (OSError, subprocess.CalledProcessError) as error:
                    os.write(writing, f"{what} ({error})".encode())
                    break
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(pid, 0)
    shutil.rmtree(place)
    return text or None
