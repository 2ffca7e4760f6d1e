"""A munged of the test's own, in a mount namespace with an empty /run: a node, as far as MUNGE goes. Needs root.

It lives as long as this object: nothing stays behind, and a munged of the machine is not touched."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jobs"))
import jobs
from jobs import read, wait_until

SOCKET = "/run/munge/munge.socket.2"  # where libmunge calls


def missing():
    """Why there can be none here, or None."""
    if os.geteuid() != 0:
        return "needs root, for mount namespaces"
    for program in ("munged", "munge", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"needs the program {program}"
    probe = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/run"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"cannot make a mount namespace: {probe.stderr.strip()}"


class Munged:
    """`key`: the same on all nodes. `clock`: so many seconds ahead."""

    def __init__(self, key, clock=0):
        self.folder = folder = tempfile.mkdtemp(prefix="cxxrun-munged-")  # munged wants no other user's directory above
        with open(os.open(folder + "/key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(key)
        env = {"PATH": os.environ["PATH"]}
        if clock:
            env.update(LD_PRELOAD=os.path.join(os.path.dirname(jobs.CXXRUN), "../tests/libother_clock.so"), CXXRUN_TEST_CLOCK=str(clock))
        script = (f"mount -t tmpfs -o mode=755 none /run && mkdir -m 755 /run/munge && exec munged -F --key-file={folder}/key "
                  f"--log-file={folder}/log --seed-file={folder}/seed --pid-file={folder}/pid")
        with open(folder + "/err", "w") as err:
            self.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], env=env, stdin=subprocess.DEVNULL,
                                            stdout=err, stderr=err)
        wait_until(lambda: os.path.exists(f"/proc/{self.process.pid}/root{SOCKET}") or self.process.poll() is not None,
                   "munged answers")
        if self.process.poll() is not None:
            raise RuntimeError("munged ends: " + read(folder + "/err") + read(folder + "/log"))

    def inside(self, *command):
        """The command, in its namespace."""
        return ("nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt", "--wd=.", *command)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)
