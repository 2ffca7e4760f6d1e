"""The warm Python: imports once; every worker is forked from it (docs/use/warm.md).

The launcher contains this text and sends it to the interpreter that the workers' command names, which runs it by
    python3 OPTIONS -c 'import sys;...;exec(compile(__import__("posix").read(0,...),...),{...})' PADDING
with a socket to the agent as descriptor 0. Packets on that socket: this program; SCRIPT, or -m, and the modules; then
one packet for each fork, with the socket of the worker as its descriptor. Standard library only, Python 3.8 or newer.

After a fork nothing may be imported: a worker opens only its own files.
"""
import ctypes
import gc
import io
import os
import signal
import socket
import stat
import sys
import time

AGENT = os.getppid()
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
run_file = ctypes.pythonapi.PyRun_SimpleFileExFlags
run_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]

# A fault while its signal is blocked ends the process before faulthandler can print where it was: these stay unblocked.
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
TERMINALS = ("/dev/tty", "/dev/pts/", "/dev/ptmx", "/dev/console")
# Modules that scripts with the first one import later in any case: optimizers and DistributedDataParallel of torch 2
# import torch._dynamo, which takes 2 s. Older releases do not have it.
HEAVIER = {"torch": "torch._dynamo"}
LEAVING = 1.0  # seconds that threads have to end
MEMORY = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

# If workers shared these, one would take messages and events from another.
SHARED = {"socket:": "a socket", "anon_inode:[eventpoll]": "an epoll descriptor"}


def set_title(words):
    """Overwrites this process's arguments, which /proc/PID/cmdline shows. The padding makes room for longer ones."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"".join(word + b"\0" for word in words)
    if start and len(text) <= end - start:
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def receive(connection, size=16):
    """Receives a packet and its descriptor, -1 if it has none. b"": the other end has closed the connection."""
    data, extra, _, _ = connection.recvmsg(size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    fds = [int.from_bytes(bytes(content[:4]), sys.byteorder) for level, kind, content in extra
           if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
    return data, fds[0] if fds else -1


# ---- The warm Python ----


def is_device(path):
    if not path.startswith("/dev/") or path in MEMORY or path.startswith(TERMINALS):
        return False
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def count_threads():
    """Other threads of this process. A joined thread may take a moment to end in the kernel."""
    until = time.monotonic() + LEAVING
    while True:
        count = len(os.listdir("/proc/self/task")) - 1
        if count == 0 or time.monotonic() > until:
            return count
        time.sleep(0.001)


def opened():
    """All open descriptors, each with the name of its file."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append((int(fd), os.readlink("/proc/self/fd/" + fd)))
        except OSError:
            pass
    return found


def held(before):
    """Something that a fork cannot share: ("threads", "3"), ("processes", "1"), ("device", "/dev/nvidia0" or "a socket").
    None if there is nothing. `before`: opened() before the import."""
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
    """Imports the modules. Returns the report to the agent: a keyword and its arguments."""
    began, before = time.monotonic(), opened()
    names = list(modules)
    for name in names:
        try:
            __import__(name)
        except BaseException as error:  # SystemExit, too: the executed workers will show it
            if name in modules:
                return ["failed", name, "%s: %s" % (type(error).__name__, error)]
        found = held(before)
        if found:
            return [found[0], name, found[1]]
        if name in HEAVIER and HEAVIER[name] not in names:
            names.append(HEAVIER[name])
    return ["ready", "%d" % ((time.monotonic() - began) * 1000)]


def freeze():
    """Prepares the memory and the streams for forks."""
    gc.freeze()  # collections leave shared pages alone; gc.collect() first would delay the first start
    sys.stdout.flush()
    sys.stderr.flush()
    libc.fflush(None)


class Forked(Exception):
    """Raised in a worker only. Arguments: its socket, and the pid of the process that has forked it."""


def fork_worker(fd):
    """Forks a process that forks the worker and ends, which makes the worker a child of the agent."""
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
    """Forks a worker for each packet. Does not return: raises Forked in the workers."""
    while True:
        data, fd = receive(control)
        if not data:
            os._exit(0)
        try:
            fork_worker(fd)
        except OSError:
            pass
        os.close(fd)  # if the fork failed, the agent sees the socket close and executes the worker


def find_install():
    """cxxrun.install of the installed package, or of the one beside the launcher (--watch). None without a package."""
    bootstrap = sys.modules.get("_cxxrun_bootstrap")
    if bootstrap:
        return bootstrap._find_install()
    try:
        import cxxrun
    except ImportError:
        return None
    return getattr(cxxrun, "install", None)


def find_blas():
    """The functions that set the number of threads, one for each OpenBLAS that is loaded."""
    with open("/proc/self/maps") as file:
        paths = {line[73:].rstrip("\n") for line in file if len(line) > 73}
    libraries = [ctypes.CDLL(path) for path in sorted(paths) if path.startswith("/") and "blas" in os.path.basename(path)]
    return [getattr(library, prefix + "openblas_set_num_threads" + suffix) for library in libraries
            for prefix in ("", "scipy_") for suffix in ("", "64_")
            if hasattr(library, prefix + "openblas_set_num_threads" + suffix)]


# ---- A forked worker, until it is what an executed interpreter would be ----


def adopted(middle):
    """Waits until the agent is the parent, and exits when that cannot happen because the agent has died."""
    parent = os.getppid()
    while parent != AGENT:
        if parent != middle:
            os._exit(0)
        time.sleep(0.0001)
        parent = os.getppid()
    os.setsid()
    # Only now: the process that forked this one has just died. If the agent has died since, no order comes.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def await_order(fd):
    """Says hello, which tells the agent the pid, and waits for the word to go. Returns the worker's arguments, the index
    of the script or of -m among them, its CPUs and its environment."""
    connection = socket.socket(fileno=fd)
    fds = {}
    try:
        connection.send(b"h")
    except OSError:  # the worker has been cancelled
        os._exit(0)
    while True:
        try:
            data, got = receive(connection)
        except OSError:
            os._exit(0)
        if not data:
            os._exit(0)
        if data == b"g":
            break
        fds[data] = got
    connection.close()
    for target in range(3):
        os.dup2(fds[b"%d" % target], target)
        os.close(fds[b"%d" % target])
    with open(fds[b"s"], "rb") as file:
        words = file.read().split(b"\0")
    lists = []
    while words:
        count = int(words.pop(0))
        lists.append(words[:count])
        del words[:count]
    argv, (first,), cpus, environment = lists
    return argv, int(first), cpus, environment


def standard_input():
    """sys.stdin as the interpreter makes it, for the new descriptor 0."""
    raw = open(0, "rb", closefd=False)
    raw.raw.name = "<stdin>"
    before = sys.stdin
    direct = before.write_through
    text = io.TextIOWrapper(raw, before.encoding, before.errors, "\n", os.isatty(0) and not direct, direct)
    text.mode = "r"
    return text


def own_random_states():
    """Seeds the generators that are shared after a fork. random reseeds itself."""
    numpy = sys.modules.get("numpy.random")
    if numpy:
        numpy.seed()
    torch = sys.modules.get("torch")
    if torch and hasattr(torch, "default_generator"):
        torch.default_generator.seed()
    process = sys.modules.get("multiprocessing.process")
    if process:
        process.current_process().authkey = os.urandom(32)


def own_thread_counts(set_blas):
    """Gives OpenBLAS as many threads as in an executed worker. During the import OPENBLAS_NUM_THREADS=1 kept it to one."""
    names = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    count = next(filter(None, map(os.environ.get, names)), "")
    most = len(os.sched_getaffinity(0))
    count = min(int(count), most) if count.isdigit() and int(count) else most
    for set_count in set_blas:
        set_count(count)


def arm(install):
    """Calls cxxrun.install(), as the first line of a script would."""
    try:
        install()
    except Exception as error:  # the script can run without it
        print("cxxrun --warm: cxxrun.install() has failed: %r" % error, file=sys.stderr, flush=True)


def become(argv, first, cpus, environment, directory, install, set_blas):
    """Makes this process what an executed interpreter would be just before the first line of its script."""
    os.fchdir(directory)
    os.close(directory)
    os.environb.clear()
    for word in environment:
        name, _, value = word.partition(b"=")
        os.environb[name] = value
    if cpus:
        os.sched_setaffinity(0, set(map(int, cpus)))
    set_title(argv)
    sys.stdin = sys.__stdin__ = standard_input()
    sys.argv[:] = map(os.fsdecode, argv[first:])
    if sys.argv[0] == "-m":
        del sys.argv[1]  # runpy replaces -m by the module's file
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = map(os.fsdecode, argv)
    own_random_states()
    own_thread_counts(set_blas)
    if install:
        arm(install)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def run_script(script):
    """Runs the script as the interpreter does: the same tracebacks, which begin with it, exit codes and signals."""
    file = libc.fopen(script, b"rb")
    if not file:
        error = ctypes.get_errno()
        print("%s: can't open file %r: [Errno %d] %s" % (sys.executable, os.fsdecode(script), error, os.strerror(error)),
              file=sys.stderr)
        sys.exit(2)
    shown = os.path.join(os.getcwdb(), script) if sys.version_info >= (3, 9) else script
    if run_file(file, shown, 1, None) != 0 and getattr(sys, "last_type", None) is not KeyboardInterrupt:
        sys.exit(1)  # after a KeyboardInterrupt the interpreter itself dies of SIGINT


def run_module(name):
    """The same for -m, where tracebacks begin with runpy."""
    import runpy  # imported already

    try:
        runpy._run_module_as_main(name)
    except SystemExit:
        raise
    except BaseException as error:
        hook, trace = sys.excepthook, error.__traceback__.tb_next  # leaves out this function
        sys.excepthook = lambda kind, error, _: hook(kind, error.with_traceback(trace), trace)
        raise


# ---- Main ----

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
    sys.path.insert(0, os.getcwd() if SCRIPT == "-m" else os.path.dirname(os.path.realpath(SCRIPT)))
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
