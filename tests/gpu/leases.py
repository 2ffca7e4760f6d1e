"""What the tests of tests/gpu/lease share."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "jobs"))
from jobs import MARKER  # noqa: E402

BUILD, DOUBLE = sys.argv[1:3]
MINE = f"gpu-lease-{os.getpid()}"
PATIENT = ("--patience", "10", "--seconds", "600")  # whatever the machine does meanwhile
LEASE = pathlib.Path(__file__).with_name("lease")


def lease(*words, **more):
    return subprocess.run([sys.executable, LEASE, *words], text=True, capture_output=True, check=False, **more)


def listed():
    return [line.split(":")[0] for line in lease("--list").stdout.splitlines()]


class Table:
    """What a command has left behind."""

    def __init__(self, *words, script="", build=BUILD, **variables):
        environment = dict(os.environ, CXXRUN_CUDA_DOUBLE=script, **{MARKER: MINE}, **variables)
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            done = lease("--build", build, "--out", folder, *words, env=environment, timeout=620)
            self.seconds, self.code, self.stdout = time.monotonic() - began, done.returncode, done.stdout
            self.files = {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}
        self.rows = {row["row"]: row["result"] for row in json.loads(self.files["rows.json"])}
