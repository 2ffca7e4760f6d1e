"""Programs that ask for no GPU, on a node that has one: they start, whatever is installed for it. The node is a mount
namespace with the device files of a driver.
Usage: gpu_node_test.py CXXRUN LIBCXXRUN_C CAPI_CHECK TRAIN DRIVER_FOLDER [TRAIN_TORCH] [--plugin PLUGIN CUDA_DOUBLE]
DRIVER_FOLDER has a libcuda.so.1 without a GPU behind it. Exit code 77: no such namespace can be made here."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest
import zipfile

import jobs
from jobs import JobCase

NODE = """
dev=$(mktemp -d)
mount -t tmpfs none "$dev"
for file in null zero full random urandom tty; do touch "$dev/$file"; mount --bind "/dev/$file" "$dev/$file"; done
for folder in shm pts; do mkdir "$dev/$folder"; mount --bind "/dev/$folder" "$dev/$folder"; done
ln -s pts/ptmx "$dev/ptmx"; ln -s /proc/self/fd "$dev/fd"
touch "$dev/nvidiactl" "$dev/nvidia0" "$dev/nvidia1"
mount --rbind "$dev" /dev
exec "$@"
"""
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "../../src/runtime/python")
TORCH = importlib.util.find_spec("torch") is not None
VISIBLE = (None, "", "1", "GPU-2f2c8d6a-0f3a-4a0e-9c65-5d5f7f0a1b2c,GPU-7a1d0c55-1c2d-4e3f-8a9b-0c1d2e3f4a5b",
           "MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f")

ELASTIC = """
import torch, torch.distributed as dist
from cxxrun.torch import Elastic
job = Elastic()
one = torch.ones(1)
dist.all_reduce(one)
print("sum", int(one.item()), "on a device:", bool(job._carrier.facts.on_device), flush=True)
job.close()
"""
ON_DEVICE = """
from cxxrun import _lib
comm = _lib.Communicator.init(False, on_device=True)
print("on a device:", bool(comm.facts().on_device), flush=True)
comm.free()
"""


class GpuNode(JobCase):
    def nodes(self):
        """A driver that can be loaded and one that cannot; names of GPUs as Slurm and users give them."""
        for driver in (DRIVER, None):
            for visible in VISIBLE if driver else (None, ""):
                yield {"LD_LIBRARY_PATH": driver, "CUDA_VISIBLE_DEVICES": visible}

    def assert_starts(self, *words, env=None, ranks=2):
        for node in self.nodes():
            with self.subTest(node=node):
                job = self.run_job("--standalone", "--nproc-per-node", str(ranks), "--max-restarts", "0", *words,
                                   env={**node, **(env or {})}, code=0)
        return job

    def test_the_node_has_a_gpu(self):
        self.assertTrue(os.path.exists("/dev/nvidiactl"))

    def test_a_program_in_cpp_starts(self):
        self.assert_starts("--no-python", TRAIN, "--steps", "2", "--batch", "1", "--quiet")

    def test_a_program_in_c_starts(self):
        self.assert_starts("--no-python", CAPI_CHECK, "calls")

    def test_a_program_with_libtorch_starts(self):
        if TRAIN_TORCH is None:
            self.skipTest("libtorch is not used")
        self.run_job("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", "--no-python", TRAIN_TORCH,
                     "--steps", "2", "--batch", "1", "--quiet", env={"LD_LIBRARY_PATH": DRIVER}, code=0)

    @unittest.skipUnless(TORCH, "there is no torch (Debian: python3-torch)")
    def test_elastic_starts_from_the_tree_and_from_the_wheel(self):
        self.make_file("train.py", ELASTIC)
        for env in ({"PYTHONPATH": SOURCES, "CXXRUN_LIBRARY": LIBRARY}, {"PYTHONPATH": self.wheel()}):
            job = self.run_job("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", self.path("train.py"),
                               env={**env, "PYTHON_EXEC": "/usr/bin/python3", "LD_LIBRARY_PATH": DRIVER}, code=0)
            self.assertEqual(re.findall("sum .*", job.stdout), ["sum 2 on a device: False"] * 2)

    def test_the_workers_of_a_node_share_a_port_for_the_ras_service_of_nccl(self):
        program = self.python_worker("""
import socket
address = os.environ.get("NCCL_RAS_ADDR", "none")
if address != "none":
    service = socket.socket()
    service.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    service.bind((address.split(":")[0], int(address.split(":")[1])))
    service.listen()
note("ras", address)
""")
        for env in ({}, {"NCCL_RAS_ENABLE": "0"}):
            self.run_job("--standalone", "--nproc-per-node", "2", "--max-restarts", "0", *program, env=env, code=0)
        first, second, *off = [address for *_, address in self.events("ras")]
        self.assertRegex(first, r"^127\.0\.0\.1:\d+$")
        self.assertEqual((second, off), (first, ["none"] * 2))

    def test_who_asks_for_nccl_is_told_in_one_line_what_is_missing(self):
        for node in self.nodes():
            with self.subTest(node=node):
                done = subprocess.run([TRAIN, "--steps", "1"], capture_output=True, text=True, timeout=jobs.GUARD,
                                      env=self.environment({**node, "CXXRUN_BACKEND": "nccl"}))
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, r"^train: rank 0 on [^\n]*, or set CXXRUN_BACKEND=host on all ranks to train on "
                                              r"the CPUs\n$")

    def test_the_wheel_brings_the_plugin_and_a_gpu_that_is_asked_for_is_used(self):
        if PLUGIN is None:
            self.skipTest("the CUDA plugin is not built")
        env = {"PYTHONPATH": self.wheel(), "LD_PRELOAD": DOUBLE, "CXXRUN_CUDA_DOUBLE": "devices=2"}
        done = subprocess.run(["/usr/bin/python3", "-c", ON_DEVICE], capture_output=True, text=True, timeout=jobs.GUARD,
                              env=self.environment(env))
        self.assertEqual((done.returncode, done.stdout), (0, "on a device: True\n"), done.stderr)
        os.remove(os.path.join(env["PYTHONPATH"], "cxxrun/libcxxrun_cuda.so"))
        done = subprocess.run(["/usr/bin/python3", "-c", ON_DEVICE], capture_output=True, text=True, timeout=jobs.GUARD,
                              env=self.environment(env))
        self.assertIn("libcxxrun_cuda.so was not found beside libcxxrun", done.stderr)

    def wheel(self):
        """Installed: the folder that Python finds it in."""
        sys.path.insert(0, SOURCES)
        import cxxrun_wheel

        prefix = pathlib.Path(self.path("prefix"))
        files = {"bin/cxxrun": jobs.CXXRUN, "bin/cxxrunctl": os.path.join(os.path.dirname(jobs.CXXRUN), "cxxrunctl"),
                 "lib/libcxxrun_c.so.0": LIBRARY, "share/doc/cxxrun/LICENSE": os.devnull,
                 "share/doc/cxxrun/NOTICES": os.devnull}
        if PLUGIN is not None:
            files["lib/cxxrun/libcxxrun_cuda.so"] = PLUGIN
        for name, target in files.items():
            (prefix / name).parent.mkdir(parents=True, exist_ok=True)
            (prefix / name).symlink_to(target)
        name = cxxrun_wheel.build_platform_wheel(prefix, "linux_x86_64", self.dir)
        with zipfile.ZipFile(self.path(name)) as archive:
            archive.extractall(self.path("installed"))
        return self.path("installed")


if __name__ == "__main__":
    if os.environ.get("CXXRUN_ON_GPU_NODE") is None:
        namespace = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--propagation",
                     "private", "sh", "-ec", NODE, "sh"]
        made = subprocess.run([*namespace, "true"], capture_output=True, text=True)
        if made.returncode != 0:
            jobs.skip(f"no mount namespace with the files of a GPU: {made.stderr}")
        os.environ["CXXRUN_ON_GPU_NODE"] = "yes"
        os.execvp("unshare", [*namespace, sys.executable, *sys.argv])
    PLUGIN = DOUBLE = TRAIN_TORCH = None
    if "--plugin" in sys.argv:
        at = sys.argv.index("--plugin")
        PLUGIN, DOUBLE = map(os.path.abspath, sys.argv[at + 1:at + 3])
        del sys.argv[at:at + 3]
    LIBRARY, CAPI_CHECK, TRAIN, DRIVER = (os.path.abspath(sys.argv.pop(2)) for _ in range(4))
    if len(sys.argv) > 2 and not sys.argv[2].startswith("-"):
        TRAIN_TORCH = os.path.abspath(sys.argv.pop(2))
    jobs.main()
