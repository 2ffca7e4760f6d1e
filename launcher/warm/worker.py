"""What a process that the warm Python has forked does until it is the worker that an executed interpreter would be.

The launcher sends this text, and zygote.py behind it, as one program: docs/use/warm.md. Nothing may be imported after a
fork: a worker opens no file that is not its own."""
import ctypes
import io
import os
import signal
import socket
import sys
import time

AGENT = os.getppid()
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)
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


def receive(connection, size=16):
    """A packet and the descriptor that came with it, or (b"", -1)."""
    data, extra, _, _ = connection.recvmsg(size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    fds = [int.from_bytes(bytes(content[:4]), sys.byteorder) for level, kind, content in extra
           if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
    return data, fds[0] if fds else -1


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
    """Says hello, by which the agent learns the pid. Returns what to be, once it may be it: arguments, where among them
    the script, or -m, stands, CPUs and environment."""
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
    argv, (first,), cpus, environment = lists
    return argv, int(first), cpus, environment


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


def own_thread_counts(set_blas):
    """As many as OpenBLAS has in an executed worker. Without OPENBLAS_NUM_THREADS=1 the import would have started them."""
    names = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    count = next(filter(None, map(os.environ.get, names)), "")
    most = len(os.sched_getaffinity(0))
    count = min(int(count), most) if count.isdigit() and int(count) else most
    for set_count in set_blas:
        set_count(count)


def arm(install):
    """As the first line of the script would."""
    try:
        install()
    except Exception as error:  # the script is none the worse for it
        print("cxxrun --warm: cxxrun.install() has failed: %r" % error, file=sys.stderr, flush=True)


def become(argv, first, cpus, environment, directory, install, set_blas):
    """The worker that an executed interpreter would be, up to its first line."""
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
        del sys.argv[1]  # runpy puts the module's file in the place of -m
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = map(os.fsdecode, argv)
    own_random_states()
    own_thread_counts(set_blas)
    if install:
        arm(install)
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
    import runpy  # which is there already

    try:
        runpy._run_module_as_main(name)
    except SystemExit:
        raise
    except BaseException as error:
        hook, trace = sys.excepthook, error.__traceback__.tb_next  # without this file
        sys.excepthook = lambda kind, error, _: hook(kind, error.with_traceback(trace), trace)
        raise
