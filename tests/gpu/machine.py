"""The machine that tests/gpu/lease looks at: what it starts there, how long a row may take, how a row ends."""
import contextlib
import glob
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from typing import Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
NO_GPU = 3
LEFT_BEHIND = 5  # seconds after the end of a row's time
MARKER = "CXXRUN_GPU_ROW"  # in the environment of all that a row starts
OF_NCCL = re.compile(r"^NCCL version |\bNCCL (?:WARN|INFO) ")

# Two ranks on one GPU. NCCL refuses them unless each seems to have a host of its own, so NCCL_HOSTID differs; then they
# talk over TCP, and their kernels have to leave room for each other.
ON_ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MAX_CTAS": "2", "NCCL_MNNVL_ENABLE": "0"}


class Row(Exception):
    """Ends a row early: what its cell says, and whether that is well."""

    def __init__(self, text, well):
        super().__init__(text)
        self.well = well


class Told(Exception):
    """All that a row would start is told."""


class Planned(NamedTuple):
    """A row to come."""
    title: str
    limit: int  # seconds
    first: bool  # in the first command already
    run: Callable  # its cell, or a Row is raised


def library_folders(given, lib):
    """Where cudart and NCCL may be: beside the plugin, as told, in a toolkit, in Python packages of NVIDIA's."""
    folders = [lib, *given, "/usr/local/cuda/lib64", "/usr/local/cuda/lib"]
    for root in sys.path + glob.glob("/usr/lib/python3*/*-packages") + glob.glob("/usr/local/lib/python3*/*-packages"):
        folders += sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib")))
    return [str(folder) for folder in dict.fromkeys(map(str, folders)) if os.path.isdir(folder)]


class Machine:
    def __init__(self, options, told):
        self.build = pathlib.Path(options.build).resolve()
        self.program = self.build / "tests/gpu_check"
        self.plugin = self.build / "lib/libcxxrun_cuda.so"
        self.launcher = self.build / "bin/cxxrun"
        self.library = self.build / "lib/libcxxrun_c.so.0"
        self.package = next(filter(os.path.isdir, (self.build / "python", HERE.parents[1] / "src/runtime/python")))
        self.quick, self.preload, self.told = options.quick, options.preload, told
        # Kernels that nvcc has compiled need a GPU; on the double there are loops in their place.
        self.trainer = self.build / ("tests/train_cuda_loop" if options.preload else "bin/examples/train_cuda")
        self.environment = {"NCCL_DEBUG": "WARN", **os.environ, "CXXRUN_BACKEND": "nccl",
                            "CXXRUN_CUDA_PLUGIN": str(self.plugin)}
        if options.preload:
            self.environment["LD_PRELOAD"] = os.path.abspath(options.preload)
            self.environment.setdefault("CXXRUN_CUDA_DOUBLE", "deaths=seen,devices=1")
        self.look_in(options.lib)
        self.scratch = tempfile.TemporaryDirectory()
        self.undisturbed = {}  # what a job ends with to which nothing is done, by what was started
        self.begin(0)

    def look_in(self, folders):
        """For cudart and NCCL."""
        path = library_folders(folders, self.build / "lib") + [os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, path))

    def begin(self, limit):
        """A row: its time runs from here on."""
        self.limit, self.until = limit, time.monotonic() + limit
        self.marker = f"{os.getpid()}.{time.monotonic_ns()}"

    def left(self):
        """Seconds. Whoever waits asks; a row has started by then what it can start at once."""
        return max(0.0, self.until - time.monotonic())

    def file(self, name):
        return os.path.join(self.scratch.name, f"{time.monotonic_ns()}.{name}")

    def need(self, *paths):
        for path in paths:
            if not path.exists():
                raise Row(f"not run: there is no {path.relative_to(self.build)} in the build", True)

    def launch(self, command, variables=None, **more):
        """`variables`: None for one that is not to be set."""
        more.setdefault("stdout", subprocess.PIPE)
        command, variables = list(map(str, command)), variables or {}
        self.told.say("$ " + shell_words(command, variables))
        environment = {**self.environment, **variables, MARKER: self.marker}
        environment = {name: value for name, value in environment.items() if value is not None}
        return subprocess.Popen(command, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                stderr=subprocess.STDOUT, **more)

    def start(self, check, *words, rank=None, before=()):
        """A check of gpu_check's."""
        own = {} if rank is None else {"NCCL_HOSTID": f"cxxrun-r{rank}", **ON_ONE_GPU}
        both = () if rank is None else ("--rank", rank, "--world", 2)
        quick = ["--quick"] if self.quick else []
        return self.launch([*before, self.program, self.plugin, check, *words, *both, *quick], own)

    def processes(self):
        """The pids of all that the row has started, by age. What has ended has no environment any more."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                if f"{MARKER}={self.marker}".encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        return sorted(found)

    def bury(self):
        """Nothing of the row is left on the GPU; what is stuck in the driver is given some time."""
        given_up = max(0.1, min(LEFT_BEHIND, self.until + LEFT_BEHIND - time.monotonic())) + time.monotonic()
        while (pids := self.processes()) and time.monotonic() < given_up:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def end(self, process):
        """(exit code, lines)"""
        left = self.left()
        try:
            out, code = process.communicate(timeout=left)[0], process.returncode
        except subprocess.TimeoutExpired:
            self.bury()
            try:
                out, code = process.communicate(timeout=0.1)[0], process.returncode
            except subprocess.TimeoutExpired:  # stuck in the driver
                out, code = "", "SIGKILL that has not ended it"
            out += f"\nnot done within {self.limit:.0f} s"
        self.told.say(f"{out.strip()}\n# ended with {code}")
        return code, [line for line in out.strip().splitlines() if line and not OF_NCCL.search(line)]

    def cell(self, *processes, excuse=None):
        """What the first said but for its line about the machine. All of them are waited for. `excuse`: one that failed
        and said so could not do it here."""
        ends = [self.end(process) for process in processes]
        for line in (line for code, lines in ends if code != 0 for line in lines if excuse and excuse in line):
            raise Row("not run: " + line.strip("= "), True)
        said = ends[0][1][1:]
        for number, (code, lines) in enumerate(ends):
            if code != 0:
                last = lines[-1] if lines else "nothing"
                raise Row("; ".join(["wrong", *said, f"process {number} ended with {code}: {last}"]), False)
        return "; ".join(line for line in said if not line.startswith("- "))  # those say how far it is


def shell_words(command, variables):
    return " ".join([f"{name}={shlex.quote(value)}" for name, value in variables.items() if value is not None] +
                    list(map(shlex.quote, command)))


class Plan(Machine):
    """Starts nothing: tells what a row would start."""

    def begin(self, limit):
        self.commands = []
        super().begin(limit)

    def left(self):
        raise Told

    def bury(self):
        pass

    def launch(self, command, variables=None, **more):
        self.commands.append(shell_words(list(map(str, command)), variables or {}))
