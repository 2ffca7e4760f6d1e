"""examples/02_pytorch: its README shows what happens, and its three scripts for one training differ as little as it says.
Usage: torch_examples_test.py CXXRUN LIBCXXRUN_C. Exit code 77: skipped, with the reason."""
import difflib
import os
import re
import shutil
import socket
import subprocess
import sys

import jobs
import torch_here  # ends this script where there is no PyTorch
from jobs import JobCase, read, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "../../examples/02_pytorch")
LIBRARY = os.path.abspath(sys.argv.pop(2))
# Where `pkill` reaches the processes of this test alone.
ALONE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork", "--mount-proc",
         "--kill-child"]
if all(line.split()[4] != "/" for line in read("/proc/self/mountinfo").splitlines()):
    ALONE += ["--propagation", "unchanged"]  # in a root of scripts/debian_root, which is no mount to be made private
GUARD = 120


def blocks():
    """What the README shows: lists of (command, the lines below it) that belong together."""
    found = []
    for block in re.findall(r"(?m)(?:^    .*\n)+", read(os.path.join(EXAMPLE, "README.md"))):
        lines = [line[4:] for line in block.splitlines()]
        if lines[0].startswith("$ "):
            found.append([])
            for line in lines:
                if line.startswith("$ "):
                    found[-1].append((line[2:], []))
                else:
                    found[-1][-1][1].append(line)
    return found


def pattern(line):
    """… stands for anything, a number for any number, a time of day for a moment; the node is this one."""
    text = re.sub(r"^[\d:.]+ cxxrun", "… cxxrun", line).replace("node1", socket.gethostname().split(".")[0])
    text = re.sub(r"\d+", r"\\d+", re.escape(text).replace("…", ".*"))
    return text.replace(r"collective\ \#\d+", r"\w+ #\d+(?: \([^)]*\))?")  # PyTorch 2 knows which one


def lines_of(script):
    return [line.strip() for line in read(os.path.join(EXAMPLE, script)).splitlines()]


class Examples(JobCase):
    def setUp(self):
        super().setUp()
        self.folder = self.path("example")
        shutil.copytree(EXAMPLE, self.folder)

    def environment(self, extra=None):
        env = super().environment(extra)
        env.update(PATH=os.path.dirname(jobs.CXXRUN) + ":/usr/bin:/bin:/usr/sbin:/sbin", OMP_NUM_THREADS="1",
                   PYTHONPATH=os.path.join(HERE, "../../src/runtime/python"), CXXRUN_LIBRARY=LIBRARY,
                   GLOO_SOCKET_IFNAME="lo", CUDA_VISIBLE_DEVICES="", USE_LIBUV="0", GLOG_minloglevel="2")
        return env

    def ranks(self):
        """{rank: pid} of the workers that run."""
        found = {}
        for pid in jobs.processes_with(self.marker):
            words = read(f"/proc/{pid}/environ").split("\0")
            found.update({int(word[5:]): pid for word in words if word.startswith("RANK=")})
        return found

    def await_lines(self, lines):
        for line in lines:
            def seen():
                return re.search("(?m)^" + pattern(line) + "$", read(self.path("output")))
            wait_until(lambda: seen() or os.path.exists(self.path("ended")), line, GUARD)
            self.assertTrue(seen(), line + "\n" + read(self.path("output")))

    def play(self, block, changed=lambda before: None):
        """Types a block's commands: the second when the first has written what is shown between them."""
        (command, lines), *others = block
        for name in ("typed", "ended", "output"):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        os.mkfifo(self.path("typed"))
        typed = "\n".join(other for other, _ in others)
        program = (f"(trap 'touch {self.path('ended')}' EXIT\n{command}\n) > {self.path('output')} 2>&1 &\n"
                   f": < {self.path('typed')}\n{typed}\nwait $!")
        process = subprocess.Popen([*ALONE, "bash", "-c", program], cwd=self.folder, env=self.environment(),
                                   stdin=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        self.await_lines(lines)
        before = self.ranks()
        self.make_file("typed")
        changed(before)
        for _, more in others:
            self.await_lines(more)
        process.wait(GUARD)
        return read(self.path("output"))

    def shown(self, script):
        if subprocess.run([*ALONE, "true"], capture_output=True).returncode != 0:
            self.skipTest("no namespace of process ids can be made here")
        return [block for block in blocks() if script in block[0][0].split()]

    def test_its_commands_do_what_it_shows(self):
        others = self.shown("train.py") + self.shown("train_install.py")
        self.assertEqual(len(others), 4)
        for block in others:
            with self.subTest(block[0][0]):
                text = self.play(block)
                self.assertLessEqual(len(set(re.findall(r"ends with weights (\S+)", text))), 1, text)

    def test_ranks_keep_their_processes_and_the_weights_are_those_of_an_undisturbed_run(self):
        (block,) = self.shown("train_elastic.py")
        text = self.play(block, self.assert_one_is_new)
        self.assertEqual(re.findall(r"ends with weights (\S+)", text), 4 * self.undisturbed(block[0][0]))

    def assert_one_is_new(self, before):
        """The others are who they were."""
        def replaced():
            now = self.ranks()
            return now if len(now) == len(before) and set(now.values()) - set(before.values()) else None
        now = wait_until(replaced, "the one that was killed is replaced", GUARD)
        self.assertEqual(len(set(now.items()) & set(before.items())), len(before) - 1, (before, now))

    def undisturbed(self, command):
        """How that ends without a kill."""
        words = command.split("#")[0].replace("--pause-ms 50 --checkpoint elastic.pt", "--checkpoint undisturbed.pt").split()
        done = subprocess.run(words, cwd=self.folder, env=self.environment(), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=GUARD, check=False)
        return sorted(set(re.findall(r"ends with weights (\S+)", done.stdout))) or done.stdout

    def test_the_line_that_names_hangs_is_the_only_difference(self):
        changes = [line for line in difflib.ndiff(lines_of("train.py"), lines_of("train_install.py")) if line[0] in "+-"]
        self.assertEqual(len(changes), 1, changes)
        self.assertIn("cxxrun.install()", changes[0])

    def test_the_elastic_script_differs_by_40_lines_at_most(self):
        changes = [line for line in difflib.ndiff(lines_of("train.py"), lines_of("train_elastic.py")) if line[0] in "+-"]
        self.assertLessEqual(len(changes), 40, changes)


if __name__ == "__main__":
    sys.exit(jobs.main())
