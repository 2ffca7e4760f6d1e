"""A worker that fails as it is told. Usage: worker.py MODE [WORD…]; rank CULPRIT fails, others wait or are its victims.

DIR is where workers and harness meet: up.RANK holds a worker's pid once it runs, `fault` when the first one failed."""
import ctypes
import faulthandler
import mmap
import os
import pathlib
import signal
import sys
import time

DIR = pathlib.Path(os.environ["DIR"])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CULPRIT = int(os.environ.get("CULPRIT", "2"))
SHAPES = pathlib.Path(__file__).resolve().parent / "shapes"
MB = 1 << 20


def publish(name, text=""):
    """Whole under its name, or not there; False when somebody else was first."""
    hidden = DIR / f".{name}.{RANK}"
    hidden.write_text(text)
    try:
        os.link(hidden, DIR / name)
    except FileExistsError:
        return False
    return True


def await_file(name):
    while not (DIR / name).exists():
        time.sleep(0.01)


def failing():
    publish("fault", repr(time.clock_gettime(time.CLOCK_BOOTTIME)))


def wait():
    while True:
        signal.pause()


def say(name):
    """A recorded text. A line "@N TEXT" stands for N of them, numbered by {i}."""
    for line in (SHAPES / f"{name}.txt").read_text().splitlines():
        count, text = line[1:].split(" ", 1) if line.startswith("@") else ("1", line)
        for i in range(int(count)):
            sys.stderr.write(text.replace("{rank}", str(RANK)).replace("{i}", str(i)) + "\n")
    sys.stderr.flush()


def die_by(number):
    faulthandler.disable()  # the recorded text has what it prints
    signal.signal(number, signal.SIG_DFL)
    failing()
    os.kill(os.getpid(), number)


def end(how):
    if how == "exit":
        failing()
        os._exit(1)
    if how == "abort":
        die_by(signal.SIGABRT)
    if how == "last":  # as one that writes its core: no SIGTERM reaches it, and all others have failed before
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        publish("told")
        signal.sigwait([signal.SIGTERM])
        die_by(signal.SIGSEGV)
    wait()


def shape(name, how, victims="wait"):
    """The culprit prints shapes/NAME.txt (if there is one) and ends so; then each victim prints NAME.victims.txt."""
    if RANK != CULPRIT:
        if victims != "wait":
            await_file("told")
            say(name + ".victims")
            publish(f"said.{RANK}")
            for other in set(range(WORLD)) - {CULPRIT}:  # all have noticed before the launcher stops the first of them
                await_file(f"said.{other}")
        return end(victims)
    if (SHAPES / f"{name}.txt").exists():
        say(name)
    if how != "last":
        publish("told")
    return end(how)


def eat():
    eaten = []
    while True:
        eaten.append(b"x" * (16 * MB))


def helper():
    pid = os.fork()
    if pid == 0:
        eat()
    os.waitpid(pid, 0)
    raise RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: Killed. ")


def mapped(path):
    """As a DataLoader hands tensors over: a file of memory that is promised and not there."""
    with open(path, "w+b") as f:
        f.truncate(16 * MB)
        with mmap.mmap(f.fileno(), 0) as page:
            for at in range(0, 16 * MB, mmap.PAGESIZE):
                page[at] = 1


def full(path):
    with open(path, "wb") as f:
        f.write(b"x" * (16 * MB))


def recorded():
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        failing()
        raise ValueError("batch 17 has labels beyond the vocabulary")
    main()


def missing_module():
    failing()
    import no_such_module  # noqa: F401


def everybody():
    failing()
    raise ValueError(f"batch {RANK} has labels beyond the vocabulary")


def term():
    signal.signal(signal.SIGTERM, lambda *_: (failing(), sys.exit(0)))
    wait()


ALL = {"shape": shape, "wait": wait, "term": term, "everybody": everybody, "module": missing_module,
       "recorded": lambda: recorded() if RANK == CULPRIT else wait()}
ONE = {"segfault": lambda: ctypes.string_at(0), "exit3": lambda: sys.exit(3), "memory": eat, "helper": helper,
       "mapped": mapped, "full": full}

if __name__ == "__main__":
    publish(f"up.{RANK}", str(os.getpid()))
    for other in range(WORLD):
        await_file(f"up.{other}")
    mode, *words = sys.argv[1:]
    if mode in ALL:
        ALL[mode](*words)
    elif RANK == CULPRIT:
        failing()
        ONE[mode](*words)
    else:
        wait()
