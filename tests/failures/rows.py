"""The failures. Key words are regular expressions, all of which a report has to have."""
import dataclasses
import pathlib

WORKER = str(pathlib.Path(__file__).resolve().parent / "worker.py")
HANGS = 20  # seconds after which silence is taken for an answer, where nothing ends by itself


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    what: str
    program: tuple
    cause: tuple  # key words
    culprit: int = None  # the rank that has to be named first
    who: str = ""  # or what has to be named
    log: bool = True  # whether a worker's log file has to be named
    nproc: int = 4
    both: tuple = ("--tee", "3")
    cxxrun: tuple = ()
    torchrun: tuple = ()
    at_start: bool = False  # it fails by being started
    place: str = "local"  # how it is staged: a function of stage.py
    lost: int = None  # the node that dies
    seen_from: int = 0  # the node whose console is looked at
    memory_mb: int = 0  # limit of a control group
    disk: bool = False  # DIR/full is a small disk
    patience: float = None  # seconds after which a silent launcher is ended
    most_lines: int = None  # what cxxrun's console may have
    shortfall: str = ""  # what the report lacks as yet; who, cause, log


def works(*words):
    return (WORKER, *words)


def shapes():
    """As PyTorch 2.x prints them: no GPU is here."""
    yield Row("watchdog", "illegal memory access on a GPU, noticed by NCCL's watchdog",
              works("shape", "watchdog", "abort"), ("CUDA error: an illegal memory access was encountered",), 2)
    yield Row("nccl-timeout", "rank 2 does not come to an all-reduce; all others time out",
              works("shape", "nccl_timeout", "wait", "abort"), ("ALLREDUCE", "SeqNum=118"), 2)
    yield Row("cuda-memory", "a GPU's memory is full", works("shape", "cuda_memory", "exit"),
              ("CUDA out of memory",), 2)
    yield Row("gloo-closed", "an exception in rank 2; its peers see closed connections and end before it",
              works("shape", "gloo_closed", "last", "exit"), ("IndexError: label 50311 beyond the vocabulary",), 2)
    yield Row("device-assert", "an assertion on a GPU fails in 300 threads", works("shape", "device_assert", "abort"),
              (r"Indexing\.cu:1308", "srcIndex < srcSelectDimSize"), 2)
    yield Row("dataloader", "a helper of the DataLoader dies of a full /dev/shm", works("shape", "dataloader", "exit"),
              (r"DataLoader worker \(pid 41877\)", "Bus error|SIGBUS", "shared memory|/dev/shm"), 2)


def workers():
    yield Row("segfault", "Python code reads address 0", works("segfault"),
              ("SIGSEGV|Segmentation fault", "string_at"), 2)
    yield Row("exit-3", "sys.exit(3), without a word", works("exit3"), (r"exit ?code\s*:? 3\b",), 2)
    yield Row("record", "an exception under PyTorch's @record", works("recorded"),
              ("ValueError: batch 17 has labels beyond the vocabulary",), 2)
    yield Row("memory", "a worker needs more memory than its control group has", works("memory"),
              ("(?i)killed by the kernel", "memory limit"), 2, memory_mb=900)
    yield Row("helper-memory", "a worker's helper needs more memory than the control group has", works("helper"),
              ("DataLoader worker", "memory limit"), 2, memory_mb=900)
    yield Row("killed", "kill -9 of a worker, by hand", works("wait"), ("SIGKILL", "from outside"), 2, place="killed")
    train = ("BUILD/bin/examples/train", "--quiet", "--steps", "1000000", "--curve", "DIR/curve")
    yield Row("hang", "a worker of a C++ trainer is stopped", train, (r"(was stopped in|did not enter) \w+ #\d+",), 2,
              both=("--tee", "3", "--no_python"), place="stopped", cxxrun=("--hang-timeout", "5"), patience=HANGS)


def starts():
    yield Row("no-program", "the program is not there", ("DIR/no_such_program",),
              ("no_such_program", "(?i)not found|no such"), log=False, at_start=True, both=("--tee", "3", "--no_python"))
    yield Row("no-module", "all ranks import a module that is not there", works("module"),
              ("ModuleNotFoundError: No module named 'no_such_module'",), who=r"\brank\s*:?\s+\d")


def disks():
    yield Row("disk-full", "a checkpoint does not fit on its disk", works("full", "DIR/full/checkpoint.pt"),
              ("No space left on device|disk full",), 2, disk=True)
    yield Row("mapped-file", "a mapped file does not fit on its disk, as /dev/shm", works("mapped", "DIR/full/batch"),
              ("SIGBUS", "/dev/shm"), 2, disk=True)


def nodes():
    yield Row("node-lost", "the last of three nodes loses its power", works("wait"), ("(?i)lost",), who="host2",
              log=False, nproc=1, place="nodes", lost=2, patience=HANGS)
    yield Row("first-node-lost", "the first of three nodes loses its power", works("wait"), ("(?i)lost",), who="host0",
              log=False, nproc=1, place="nodes", lost=0, seen_from=1, patience=HANGS)
    yield Row("many-ranks", "128 ranks on four agents fail at once", works("everybody"),
              ("labels beyond the vocabulary",), who=r"\brank\s*:?\s+\d", nproc=32, place="crowd", most_lines=40,
              both=("--redirects", "3"), cxxrun=("--heartbeat-timeout", "60"))  # 128 interpreters start on a few CPUs


def slurm():
    for name, what, word in (("time-limit", "a job reaches Slurm's time limit", "(?i)time limit"),
                             ("cancelled", "a user cancels a job with scancel", "(?i)cancel"),
                             ("preempted", "Slurm preempts a job", "(?i)preempt")):
        yield Row(name, what, works("term"), (word,), log=False, nproc=2, place="slurm")


# What cxxrun's reports do not have yet; the test fails when anything else lacks.
SHORTFALLS = {"nccl-timeout": "log"}


def all_rows():
    rows = [*shapes(), *workers(), *starts(), *disks(), *nodes(), *slurm()]
    return [dataclasses.replace(row, shortfall=SHORTFALLS.get(row.name, "")) for row in rows]

