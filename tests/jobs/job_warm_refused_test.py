"""--warm where no worker can be forked: said in one line, and workers are executed. Usage: job_warm_refused_test.py CXXRUN"""
import glob
import os
import stat
import sys

import jobs
from job_warm_test import Warm

BLOCK = next((path for path in glob.glob("/dev/[a-z]*") if os.access(path, os.R_OK) and stat.S_ISBLK(os.stat(path).st_mode)),
             None)
# As a driver does, which closes the device and keeps its memory: MAP_PRIVATE, PROT_READ.
MAPPED = f"""import ctypes
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open({BLOCK!r}, os.O_RDONLY)
libc.mmap(None, 4096, 1, 2, fd, 0)
os.close(fd)"""


class Refusals(Warm):
    def test_a_module_that_cannot_be_forked_is_named(self):
        cases = {
            "threads": ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
                        r"importing trouble has started threads \(1\), which a fork does not copy"),
            "processes": ("import subprocess\nheld = subprocess.Popen(['sleep', '99'])",
                          r"importing trouble has started processes \(1\), which"),
            "device": ("held = os.open('/dev/kmsg', os.O_RDONLY)", "importing trouble has opened /dev/kmsg, which"),
            "socket": ("import socket\nheld = socket.socketpair()", "importing trouble has opened a socket, which a forked"),
            "epoll": ("import select\nheld = select.epoll()", "importing trouble has opened an epoll descriptor, which a"),
            "mapped": (MAPPED, "importing trouble has opened /dev/[a-z0-9]+, which"),
            "exit": ("sys.exit(5)", r"importing trouble has failed \(SystemExit: 5\)"),
            "failed": ("raise ValueError('not here')", r"importing trouble has failed \(ValueError: not here\)"),
            "ended": ("os._exit(7)", r"the Python that workers are forked from has ended \(exit code 7\)"),
        }
        for name, (body, why) in cases.items():
            with self.subTest(name):
                if name == "device" and not os.access("/dev/kmsg", os.R_OK):
                    self.skipTest("/dev/kmsg cannot be read")
                if name == "mapped" and not BLOCK:
                    self.skipTest("no block device can be read")
                job = self.run_warm(self.script("note('start', 'fractions' in sys.modules)"), warm="fractions," + self.module(body),
                                    code=0)
                self.assert_executed(job, why)
                self.assertEqual(self.events("start")[-1][3], "False")

    def test_what_a_fork_can_share_is_no_obstacle(self):
        body = "import subprocess, tempfile, threading\nsubprocess.run(['cat'], check=True)\nthread = threading.Thread(target=int)\n" \
               "thread.start()\nthread.join()\n" \
               "import socket\nsocket.socket().close()\n" \
               "held = [tempfile.TemporaryFile(dir='/dev/shm'), open('/dev/ptmx', 'rb'), open('/dev/urandom', 'rb')]"
        job = self.run_warm(self.script("note('start', 'trouble' in sys.modules)"), warm=self.module(body), code=0)
        self.assertEqual([event[3] for event in self.events("start")], ["True"], job.stderr)

    def test_a_command_that_is_no_python_script_is_executed_and_that_is_said(self):
        script = self.script("note('start')")
        for words, why in ((["env", "python3", script], "the workers' command begins with 'env' and not with Python"),
                           (["python3", "-umtimeit", "-n1", "0"], "with -umtimeit Python runs no script"),
                           (["python3", "-c", "0"], "with -c Python runs no script"),
                           ([self.worker("note start")], "the workers' command begins with '"),
                           (["python3"], "the workers' command names neither a script that ends in .py nor a module")):
            with self.subTest(words):
                # A shim for Python is a script, whose shell runs nothing where a filter forbids faccessat2.
                job = self.run_job("--standalone", "--warm=fractions", "--no-python", *words, env={"PATH": "/usr/bin:/bin"},
                                   code=0)
                self.assertIn("--warm has no effect: " + why, job.stderr)

    def test_what_stands_in_front_of_python_is_named_and_runs_it(self):
        script = self.script("note('start')")
        for words in ("conda run -n env", "numactl --cpunodebind=0", "apptainer exec image.sif"):
            wrapper = words.split()[0]
            self.make_file(wrapper, "#!/bin/sh\nwhile [ \"$1\" != python3 ]; do shift; done\nexec \"$@\"\n", 0o755)
            with self.subTest(wrapper):
                job = self.run_job("--standalone", "--warm=fractions", "--no-python", *words.split(), "python3", script,
                                   env={"PATH": self.dir + ":/usr/bin:/bin"}, code=0)
                self.assertIn(f"--warm has no effect: the workers' command begins with '{wrapper}' and not with Python", job.stderr)
        self.assertEqual(len(self.events("start")), 3)

    def test_names_that_are_no_modules_are_refused(self):
        for word in ("a-b", "a,,b", ".a", "1a", "a b"):
            job = self.run_job("--standalone", "--warm=" + word, "true", code=100)
            self.assertIn("--warm " + word, job.stderr)
            self.assertIn("names of Python modules are expected", job.stderr)


if __name__ == "__main__":
    sys.exit(jobs.main())
