"""The warm Python: imports once, and every worker is forked from it twice (docs/use/warm.md).

The launcher has worker.py and, behind it, this text inside, and sends both as one program to the interpreter that the
workers' command names, which runs it by
    python3 OPTIONS -c 'exec(__import__("os").read(0,...),{...})' PADDING
with a socket to the agent as descriptor 0. Packets: the program; SCRIPT, or -m, and modules; then one for each fork,
with the socket of the worker to be. Standard library alone, Python 3.8 or newer.
"""
import ctypes
import gc
import os
import signal
import socket
import stat
import sys
import time

# A fault ends a process whose mask has its signal before faulthandler can say where it was.
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
TERMINALS = ("/dev/tty", "/dev/pts/", "/dev/ptmx", "/dev/console")
# What a script that imports the first imports in any case, but behind its first lines, as optimizers and
# DistributedDataParallel of torch 2 do: it takes 2 s. Older releases have none.
HEAVIER = {"torch": "torch._dynamo"}
LEAVING = 1.0  # seconds that a thread has for its end
MEMORY = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

# Of these one worker would take messages and events from another.
SHARED = {"socket:": "a socket", "anon_inode:[eventpoll]": "an epoll descriptor"}


def is_device(path):
    if not path.startswith("/dev/") or path in MEMORY or path.startswith(TERMINALS):
        return False
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def count_threads():
    """Besides this one. The kernel may still have one that has been joined."""
    until = time.monotonic() + LEAVING
    while True:
        count = len(os.listdir("/proc/self/task")) - 1
        if count == 0 or time.monotonic() > until:
            return count
        time.sleep(0.001)


def opened():
    """The descriptors, each with what it is of."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append((int(fd), os.readlink("/proc/self/fd/" + fd)))
        except OSError:
            pass
    return found


def held(before):
    """What a fork could not share: ("threads", "3"), ("processes", "1"), ("device", "/dev/nvidia0" or "a socket"); None.
    `before`: what was open before the import."""
    threads = count_threads()
    if threads:
        return "threads", str(threads)
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        children = file.read().split()
    if children:
        return "processes", str(len(children))
    descriptors = opened()
    for fd, path in descriptors:
        for begin, what in SHARED.items():
            if path.startswith(begin) and (fd, path) not in before:
                return "device", what
    paths = [path for _, path in descriptors]
    with open("/proc/self/maps") as file:
        paths += [line[73:].rstrip("\n") for line in file if len(line) > 73]
    for path in paths:
        if is_device(path):
            return "device", path
    return None


def load(modules):
    """Imports them. What to tell the agent: one word, and what belongs to it."""
    began, before = time.monotonic(), opened()
    names = list(modules)
    for name in names:
        try:
            __import__(name)
        except BaseException as error:  # whatever it is, SystemExit among it, the workers are to say so
            if name in modules:
                return ["failed", name, "%s: %s" % (type(error).__name__, error)]
        found = held(before)
        if found:
            return [found[0], name, found[1]]
        if name in HEAVIER and HEAVIER[name] not in names:
            names.append(HEAVIER[name])
    return ["ready", "%d" % ((time.monotonic() - began) * 1000)]


def freeze():
    """Before a fork."""
    gc.freeze()  # a collection does not write to what the workers share; one before would make the first start late
    sys.stdout.flush()
    sys.stderr.flush()
    libc.fflush(None)


class Forked(Exception):
    """Raised in a worker alone: its socket, and the pid of the middle."""


def fork_worker(fd):
    """By way of a process between this one and the worker, whose end makes the worker a child of the agent."""
    parent, pid = os.getpid(), os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        middle = os.getpid()
        if os.getppid() == parent and os.fork() == 0:
            raise Forked(fd, middle)
    except OSError:
        pass
    os._exit(0)


def serve(control):
    """Forks once for each packet; does not return, but raises Forked in the workers."""
    while True:
        data, fd = receive(control)
        if not data:
            os._exit(0)
        try:
            fork_worker(fd)
        except OSError:
            pass
        os.close(fd)  # without a worker the agent sees the end of the socket, and starts it itself


def find_install():
    """cxxrun.install, where that package is there, or beside the launcher (--watch)."""
    bootstrap = sys.modules.get("_cxxrun_bootstrap")
    if bootstrap:
        return bootstrap._find_install()
    try:
        import cxxrun
    except ImportError:
        return None
    return getattr(cxxrun, "install", None)


def find_blas():
    """What sets the number of threads, of each OpenBLAS that is loaded."""
    with open("/proc/self/maps") as file:
        paths = {line[73:].rstrip("\n") for line in file if len(line) > 73}
    libraries = [ctypes.CDLL(path) for path in sorted(paths) if path.startswith("/") and "blas" in os.path.basename(path)]
    return [getattr(library, prefix + "openblas_set_num_threads" + suffix) for library in libraries
            for prefix in ("", "scipy_") for suffix in ("", "64_")
            if hasattr(library, prefix + "openblas_set_num_threads" + suffix)]


signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - FAULTS)
control = socket.socket(fileno=os.dup(0))
os.close(0)
os.open(os.devnull, os.O_RDONLY)
os.set_inheritable(0, True)
SCRIPT, *modules = os.fsdecode(control.recv(65536)).split("\0")
set_title([b"cxxrun: warm python", os.fsencode(",".join(modules))])
DIRECTORY = os.open(".", os.O_PATH | os.O_DIRECTORY)
sys.argv[:] = [SCRIPT]
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    sys.path[0] = os.getcwd() if SCRIPT == "-m" else os.path.dirname(os.path.realpath(SCRIPT))
if SCRIPT == "-m":
    import runpy  # noqa: F401: the workers need it
INSTALL = find_install()
report = load(modules)
freeze()
SET_BLAS = find_blas()
control.send(os.fsencode("\0".join(report)))
try:
    serve(control)
except Forked as worker:
    fd, middle = worker.args
control.close()
adopted(middle)
argv, first, cpus, environment = await_order(fd)
become(argv, first, cpus, environment, DIRECTORY, INSTALL, SET_BLAS)
if SCRIPT == "-m":
    run_module(os.fsdecode(argv[first + 1]))
else:
    run_script(argv[first])
