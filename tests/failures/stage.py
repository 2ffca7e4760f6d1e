"""Where a failure happens: a directory, the processes in it, and the time since."""
import dataclasses
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("jobs", "support", "faults")]
import jobs  # noqa: E402
from machines import send  # noqa: E402

GUARD = 180  # seconds; against hanging only
DROPPED = ("SLURM_", "PET_", "TORCH", "OMP_", "MASTER_", "CXXRUN_")


@dataclasses.dataclass
class Seen:
    console: str
    code: int = None  # None: it said nothing until it was ended
    seconds: float = None  # from the failure until it ended


class Scene:
    """A directory, and everything that runs in it; nothing of either is left behind."""

    def __init__(self, build, room):
        self.build, self.room = build, room
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="scene-", dir=room))
        self.logs = self.dir / "logs"
        self.marker = f"{os.path.basename(room)}/{self.dir.name}"
        (self.dir / "full").mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.clear()
        shutil.rmtree(self.dir)

    def clear(self):
        def none():
            pids = jobs.processes_with(self.marker)
            send(pids, signal.SIGKILL)
            return not pids
        jobs.wait_until(none, "nothing is left over", GUARD)

    def env(self, row):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(DROPPED) or name == "CXXRUN_TODAYS_TORCH"}
        return {**kept, jobs.MARKER: self.marker, "DIR": str(self.dir), "HOME": str(self.dir), "OMP_NUM_THREADS": "1",
                "CULPRIT": str(2 if row.culprit is None else row.culprit)}

    def placed(self, row):
        """The row with what stands for directories replaced."""
        def at(word):
            return word.replace("DIR/", f"{self.dir}/").replace("BUILD/", f"{self.build}/")
        return dataclasses.replace(row, program=tuple(map(at, row.program)))

    def await_workers(self, count, ended=lambda: None):
        """`ended`: the exit code of a launcher once it has one."""
        def up():
            if ended() is not None:
                raise RuntimeError(f"the launcher ended with {ended()} before its workers ran")
            return len(list(self.dir.glob("up.*"))) == count
        jobs.wait_until(up, f"{count} workers run", GUARD)

    def begin(self):
        """The failure happens now."""
        (self.dir / "fault").write_text(repr(time.clock_gettime(time.CLOCK_BOOTTIME)))

    def since(self):
        """Seconds since the failure, or None."""
        text = jobs.read(self.dir / "fault")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - float(text) if text else None

    def await_end(self, ended, row):
        """(exit code, seconds), or (None, None) of a launcher that is silent. ended(): its exit code once it has one."""
        began = time.monotonic()
        while ended() is None:
            if row.patience and (self.since() or 0) > row.patience:
                return None, None
            if time.monotonic() - began > GUARD:
                raise jobs.Hang(f"{row.name}: still runs after {GUARD} s; {jobs.what_runs(self.marker)}")
            time.sleep(0.01)
        return ended(), self.since()

    def log_files(self, row):
        """Of the worker that failed."""
        local = "*" if row.culprit is None else row.culprit
        return [str(path) for path in self.logs.glob(f"**/{local}/*") if path.is_file()]
