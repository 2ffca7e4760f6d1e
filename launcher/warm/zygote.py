"""The warm Python: imports once, and every worker is forked from it twice (docs/use/warm.md).

The launcher has this text inside and sends it to the interpreter that the workers' command names, which runs it by
    python3 OPTIONS -c 'exec(__import__("os").read(0,...),{...})' PADDING
with a socket to the agent as descriptor 0. Packets: this text; SCRIPT, or -m, and modules; then one for each fork, with
the socket of the worker to be. Standard library alone, Python 3.8 or newer.
"""
import ctypes
import gc
import io
import os
import select
import signal
import socket
import stat
import sys
import time

AGENT = os.getppid()
PR_SET_PDEATHSIG = 1
# A fault ends a process whose mask has its signal before faulthandler can say where it was.
FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
TERMINALS = ("/dev/tty", "/dev/pts/", "/dev/ptmx", "/dev/console")
# What is imported in any case by a script that imports the first, but behind its first lines: optimizers and
# DistributedDataParallel of torch 2 do. It takes 2 s, and nobody is to wait for it at the first start.
HEAVIER = {"torch": "torch._dynamo"}
IDLE = 3.0  # seconds without an order
MEMORY = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
libc = ctypes.CDLL(None, use_errno=True)
# Nothing may be imported after a fork: a worker opens no file that is not its own.
libc.fopen.restype = ctypes.c_void_p
run_file = ctypes.pythonapi.PyRun_SimpleFileExFlags
run_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]


def set_title(words):
    """What /proc/PID/cmdline shows, in the place of this process's own arguments; the padding makes room."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"".join(word + b"\0" for word in words)
    if start and len(text) <= end - start:
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def is_device(path):
    if not path.startswith("/dev/") or path in MEMORY or path.startswith(TERMINALS):
        return False
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def held():
    """What a fork could not share: ("threads", "3"), ("processes", "1") or ("device", "/dev/nvidia0"); None."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return "threads", str(threads - 1)
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        children = file.read().split()
    if children:
        return "processes", str(len(children))
    paths = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    with open("/proc/self/maps") as file:
        paths += [line[73:].rstrip("\n") for line in file if len(line) > 73]
    for path in paths:
        if is_device(path):
            return "device", path
    return None


def load(modules):
    """Imports them. What to tell the agent: one word, and what belongs to it."""
    began = time.monotonic()
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:  # whatever it is, SystemExit among it, the workers are to say so
            return ["failed", name, "%s: %s" % (type(error).__name__, error)]
        found = held()
        if found:
            return [found[0], name, found[1]]
    return ["ready", "%d" % ((time.monotonic() - began) * 1000)]


def freeze():
    """Before a fork."""
    gc.freeze()  # a collection does not write to what the workers share; one before would make the first start late
    sys.stdout.flush()
    sys.stderr.flush()
    libc.fflush(None)


def fork_heir(modules):
    """A fork of this process that imports more, and then forks the workers in its place. Returns its socket, on which it is
    heard when it is ready or has ended; in the heir, None. One that has imported what no fork could share ends."""
    link, its = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        its.close()
        return link
    try:
        link.close()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for name in modules:
            __import__(name)
        if not held() and os.getppid() == parent:
            freeze()
            its.send(b"r")
            if its.recv(1):
                its.close()
                return None
    except BaseException:  # whatever it is, SystemExit among it: the script will say so
        pass
    os._exit(0)


def succeed(heir):
    """Lets it serve, and returns when it has ended: this process goes on then."""
    try:
        if heir.recv(1):
            heir.send(b"g")
    except OSError:
        pass
    heir.close()
    os.wait()


def receive(connection, size=16):
    """A packet and the descriptor that came with it, or (b"", -1)."""
    data, extra, _, _ = connection.recvmsg(size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    fds = [int.from_bytes(bytes(content[:4]), sys.byteorder) for level, kind, content in extra
           if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
    return data, fds[0] if fds else -1


def serve(control, later):
    """Forks once for each packet. Returns in the workers alone: the socket of each. `later`: what an heir is to import."""
    heir = None
    while True:
        if later and not select.select([control], [], [], IDLE)[0]:
            later, more = [], later
            try:
                heir = fork_heir(more)
            except OSError:
                pass
        if heir and heir in select.select([control, heir], [], [])[0]:
            heir = succeed(heir)
            continue
        data, fd = receive(control)
        if not data:
            os._exit(0)
        try:
            middle = os.fork()
        except OSError:  # the agent sees the end of the socket, and starts the worker itself
            os.close(fd)
            continue
        if middle == 0:
            middle = os.getpid()
            try:
                last = os.fork() == 0
            except OSError:
                os._exit(1)
            if not last:
                os._exit(0)
            if heir:
                heir.close()
            return fd, middle
        os.close(fd)
        os.waitpid(middle, 0)


def adopted(middle):
    """Waits until the agent is the parent. One that is forked by somebody who is dead has nobody to work for."""
    parent = os.getppid()
    while parent != AGENT:
        if parent != middle:
            os._exit(0)
        time.sleep(0.0001)
        parent = os.getppid()
    os.setsid()
    # Not before: the one who forked this has just died. An agent that has died meanwhile gives no order.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def await_order(fd):
    """Says hello, by which the agent learns the pid. Returns what to be, once it may be it."""
    connection = socket.socket(fileno=fd)
    fds = {}
    try:
        connection.send(b"h")
    except OSError:  # it has been stopped meanwhile, and nobody waits for it any more
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
    return lists


def standard_input():
    raw = open(0, "rb", closefd=False)
    raw.raw.name = "<stdin>"
    before = sys.stdin
    direct = before.write_through
    text = io.TextIOWrapper(raw, before.encoding, before.errors, "\n", os.isatty(0) and not direct, direct)
    text.mode = "r"
    return text


def own_random_states():
    """random has reseeded itself at the fork."""
    numpy = sys.modules.get("numpy.random")
    if numpy:
        numpy.seed()
    torch = sys.modules.get("torch")
    if torch and hasattr(torch, "default_generator"):
        torch.default_generator.seed()
    process = sys.modules.get("multiprocessing.process")
    if process:
        process.current_process().authkey = os.urandom(32)


def own_thread_counts(before):
    """As many as an executed worker computes with. Without OPENBLAS_NUM_THREADS=1 the import would have started them."""
    count = os.environ.get("OMP_NUM_THREADS", "")
    if count.isdigit() and count != before:
        torch = sys.modules.get("torch")
        if torch and hasattr(torch, "set_num_threads"):
            torch.set_num_threads(int(count))
    count = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("GOTO_NUM_THREADS") or count
    most = len(os.sched_getaffinity(0))
    count = min(int(count), most) if count.isdigit() and int(count) else most
    for set_count in SET_BLAS:
        set_count(count)


def find_install():
    """cxxrun.install, where that package is there."""
    try:
        import cxxrun
    except ImportError:
        return None
    return getattr(cxxrun, "install", None)


def arm(install):
    """As the first line of the script would."""
    try:
        install()
    except Exception as error:  # the script is none the worse for it
        print("cxxrun --warm: cxxrun.install() has failed: %r" % error, file=sys.stderr, flush=True)


def find_blas():
    """What sets the number of threads, of each OpenBLAS that is loaded."""
    with open("/proc/self/maps") as file:
        paths = {line[73:].rstrip("\n") for line in file if len(line) > 73}
    libraries = [ctypes.CDLL(path) for path in sorted(paths) if path.startswith("/") and "blas" in os.path.basename(path)]
    return [getattr(library, prefix + "openblas_set_num_threads" + suffix) for library in libraries
            for prefix in ("", "scipy_") for suffix in ("", "64_")
            if hasattr(library, prefix + "openblas_set_num_threads" + suffix)]


def become(argv, first, cpus, environment):
    """The worker that an executed interpreter would be. `first`: where the script, or -m, stands in argv."""
    os.fchdir(DIRECTORY)
    os.close(DIRECTORY)
    threads = os.environ.get("OMP_NUM_THREADS", "")
    os.environb.clear()
    for word in environment:
        name, _, value = word.partition(b"=")
        os.environb[name] = value
    if cpus:
        os.sched_setaffinity(0, set(map(int, cpus)))
    set_title(argv)
    sys.stdin = sys.__stdin__ = standard_input()
    sys.argv[:] = map(os.fsdecode, argv[first:])
    if SCRIPT == "-m":
        del sys.argv[1]  # runpy puts the module's file in the place of -m
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = map(os.fsdecode, argv)
    own_random_states()
    own_thread_counts(threads)
    if INSTALL:
        arm(INSTALL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def run_script(script):
    """As the interpreter runs it: its tracebacks begin with the script, and codes and signals at the end are the same."""
    file = libc.fopen(script, b"rb")
    if not file:
        error = ctypes.get_errno()
        print("%s: can't open file %r: [Errno %d] %s" % (sys.executable, os.fsdecode(script), error, os.strerror(error)),
              file=sys.stderr)
        sys.exit(2)
    shown = os.path.join(os.getcwdb(), script) if sys.version_info >= (3, 9) else script
    if run_file(file, shown, 1, None) != 0 and getattr(sys, "last_type", None) is not KeyboardInterrupt:
        sys.exit(1)  # of a KeyboardInterrupt the interpreter knows itself, and dies of SIGINT


def run_module(name):
    """The same with -m, where tracebacks begin with runpy."""
    try:
        runpy._run_module_as_main(name)
    except SystemExit:
        raise
    except BaseException as error:
        hook, trace = sys.excepthook, error.__traceback__.tb_next  # without this file
        sys.excepthook = lambda kind, error, _: hook(kind, error.with_traceback(trace), trace)
        raise


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
    import runpy
INSTALL = find_install()
report = load(modules)
freeze()
SET_BLAS = find_blas()
control.send(os.fsencode("\0".join(report)))
fd, middle = serve(control, [HEAVIER[name] for name in modules if name in HEAVIER and HEAVIER[name] not in modules])
control.close()
adopted(middle)
argv, (first,), cpus, environment = await_order(fd)
become(argv, int(first), cpus, environment)
if SCRIPT == "-m":
    run_module(os.fsdecode(argv[int(first) + 1]))
else:
    run_script(argv[int(first)])
