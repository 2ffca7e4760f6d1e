"""The machine that tests/gpu/run looks at: what it starts there, how long a row may take, how a row ends."""
import glob
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

NO_GPU = 3
LEFT_BEHIND = 5  # seconds after the end of a row's time

# Two ranks on one GPU. NCCL refuses them unless each seems to have a host of its own, so NCCL_HOSTID differs; then they
# talk over TCP, and their kernels have to leave room for each other.
ON_ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MAX_CTAS": "2", "NCCL_MNNVL_ENABLE": "0"}


class Row(Exception):
    """Ends a row early: what its cell says, and whether that is well."""

    def __init__(self, text, well):
        super().__init__(text)
        self.well = well


class Planned(Exception):
    """All that a row would start is told."""


def library_folders(given, lib):
    """Where cudart and NCCL may be: beside the plugin, as told, in a toolkit, in Python packages of NVIDIA's."""
    folders = [lib, *given, "/usr/local/cuda/lib64", "/usr/local/cuda/lib"]
    for root in sys.path + glob.glob("/usr/lib/python3*/*-packages") + glob.glob("/usr/local/lib/python3*/*-packages"):
        folders += sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib")))
    return [str(folder) for folder in dict.fromkeys(map(str, folders)) if os.path.isdir(folder)]


class Machine:
    def __init__(self, options):
        self.build = pathlib.Path(options.build).resolve()
        self.program = self.build / "tests/gpu_check"
        self.plugin = self.build / "lib/libcxxrun_cuda.so"
        self.launcher = self.build / "bin/cxxrun"
        self.quick = options.quick
        self.limit = options.limit
        # Kernels that nvcc has compiled need a GPU; on the double there are loops in their place.
        self.trainer = self.build / ("tests/train_cuda_loop" if options.preload else "bin/examples/train_cuda")
        self.environment = dict(os.environ, CXXRUN_BACKEND="nccl", CXXRUN_CUDA_PLUGIN=str(self.plugin))
        folders = library_folders(options.lib, self.build / "lib")
        path = folders + [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else folders
        self.environment["LD_LIBRARY_PATH"] = ":".join(path)
        if options.preload:
            self.environment["LD_PRELOAD"] = options.preload
        self.scratch = tempfile.TemporaryDirectory()
        self.begin()

    def begin(self):
        """A row: its time runs from here on."""
        self.until = time.monotonic() + self.limit

    def burial(self):
        """Seconds for what has had SIGKILL, of all processes of the row together; it may be stuck in the driver."""
        return max(0.1, min(LEFT_BEHIND, self.until + LEFT_BEHIND - time.monotonic()))

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
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen(list(map(str, command)), env={**self.environment, **(variables or {})}, text=True,
                                stderr=subprocess.STDOUT, **more)

    def start(self, check, *words, rank=None, before=()):
        """A check of gpu_check's."""
        own = {} if rank is None else {"NCCL_HOSTID": f"cxxrun-r{rank}", **ON_ONE_GPU}
        both = () if rank is None else ("--rank", rank, "--world", 2)
        quick = ["--quick"] if self.quick else []
        return self.launch([*before, self.program, self.plugin, check, *words, *both, *quick], own)

    def end(self, process):
        """(exit code, lines)"""
        left = self.left()
        try:
            out = process.communicate(timeout=left)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            try:
                out = process.communicate(timeout=self.burial())[0]
            except subprocess.TimeoutExpired:  # stuck in the driver
                return "SIGKILL that has not ended it", [f"not done within {self.limit} s"]
            out += f"\nnot done within {self.limit} s"
        return process.returncode, out.strip().splitlines()

    def cell(self, *processes, excuse=None):
        """What the first said but for its line about the machine. All of them are waited for. `excuse`: one that failed
        and said so could not do it here."""
        ends = [self.end(process) for process in processes]
        for line in (line for code, lines in ends if code != 0 for line in lines if excuse and excuse in line):
            raise Row("not run: " + line.strip("= ").replace("|", "/"), True)
        said = [line.replace("|", "/") for line in ends[0][1][1:]]
        for number, (code, lines) in enumerate(ends):
            if code != 0:
                last = lines[-1].replace("|", "/") if lines else "nothing"
                raise Row("; ".join(["wrong", *said, f"process {number} ended with {code}: {last}"]), False)
        return "; ".join(said)


class Plan(Machine):
    """Starts nothing: tells what a row would start."""

    def begin(self):
        self.told = []

    def burial(self):
        """Seconds for what has had SIGKILL, of all processes of the row together; it may be stuck in the driver."""
        return max(0.1, min(LEFT_BEHIND, self.until + LEFT_BEHIND - time.monotonic()))

    def left(self):
        raise Planned

    def launch(self, command, variables=None, **more):
        self.told.append(" ".join([f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items()] +
                                  [shlex.quote(str(word)) for word in command]))
