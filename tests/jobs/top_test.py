"""cxxrunctl top on a terminal. Usage: top_test.py CXXRUN CXXRUNCTL"""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

import jobs
from jobs import GUARD, wait_until
from live_jobs import CTL, LiveCase

SEQUENCE = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")


class Terminal:
    """A program in a terminal of its own, and what it has written there."""

    def __init__(self, words, environment, rows=24, columns=80):
        self.written = b""
        self.ours, self.theirs = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(words, env=environment, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while True:
            try:
                self.written += os.read(self.ours, 65536)
            except OSError:
                return

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def text(self):
        return self.written.decode("ascii")

    def screen(self):
        """The lines of the last whole screen."""
        frames = self.text().split("\x1b[H")
        return [SEQUENCE.sub("", line) for line in frames[-2].replace("\r", "").split("\n")] if len(frames) > 2 else [""]

    def type(self, keys):
        os.write(self.ours, keys)

    def await_screen(self, condition, what):
        try:
            return wait_until(lambda: (screen := self.screen()) and condition(screen) and screen, what)
        except jobs.Hang as hang:
            raise jobs.Hang(f"{hang}\n" + "\n".join(self.screen())) from None

    def is_restored(self):
        text = self.text()
        return (termios.tcgetattr(self.theirs) == self.before and text.rfind("\x1b[?1049l") > text.rfind("\x1b[?1049h")
                and text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l"))

    def close(self):
        os.close(self.theirs)
        os.close(self.ours)


class Top(LiveCase):
    def top(self, environment=None, **more):
        terminal = Terminal([CTL, "top", self.run_id()], self.environment({"LANG": "C", "TERM": "xterm", **(environment or {})}),
                            **more)
        self.addCleanup(terminal.close)
        self.addCleanup(terminal.process.kill)
        return terminal

    def shown(self, terminal):
        return terminal.await_screen(lambda screen: any(line.startswith(">") for line in screen), "the node is shown")

    def leaves(self, terminal, code):
        self.assertEqual(terminal.process.wait(GUARD), code)
        wait_until(terminal.is_restored, "the terminal is as before")

    def test_it_shows_the_job_until_a_key_ends_it(self):
        job = self.begin("--log-dir", self.path("logs"), "--tee", "3")
        self.go(0, 1)
        terminal = self.top()
        screen = self.shown(terminal)
        self.assertEqual((len(screen), max(map(len, screen)) <= 80), (24, True), screen)
        terminal.await_screen(lambda screen: screen[0].startswith(self.run_id() + " trains: step "), "it trains")
        wait_until(lambda: len(set(re.findall(r"trains: step \d+", terminal.text()))) > 3, "steps go by")
        terminal.type(b"s")
        terminal.await_screen(lambda screen: "s sorts (step)" in screen[-1] and " STEP " in "".join(screen), "it is sorted")
        terminal.type(b"\x1b[B\x1b[6~l")
        terminal.await_screen(lambda screen: "hello from 0" in screen, "the log is shown")
        terminal.resize(10, 40)
        terminal.await_screen(lambda screen: len(screen) == 10 and max(map(len, screen)) <= 40, "the screen is smaller")
        terminal.type(b"q")
        self.leaves(terminal, 0)
        self.assertIn("\x1b[1m", terminal.text())
        self.end(job)

    def test_whatever_ends_it_the_terminal_is_restored(self):
        job = self.begin()
        terminal = self.top({"NO_COLOR": "1"})
        self.shown(terminal)
        terminal.process.send_signal(signal.SIGTSTP)  # nobody could wake it, so it does not stop
        wait_until(lambda: "\x1b[?1049l\x1b[?1049h" in terminal.text(), "it left the terminal and came back")
        self.shown(terminal)
        terminal.process.send_signal(signal.SIGTERM)
        self.leaves(terminal, 143)
        self.assertNotRegex(terminal.text(), r"\x1b\[[\d;]*m")
        terminal = self.top()
        self.shown(terminal)
        terminal.type(b"\x03")
        self.leaves(terminal, 130)
        terminal = self.top()
        self.shown(terminal)
        self.end(job)
        self.leaves(terminal, 0)
        wait_until(lambda: "the agent that was asked has ended" in terminal.text(), "it says why")

    def test_it_is_refused_where_it_cannot_be_shown(self):
        self.ctl("top", code=100)
        self.assertIn("top needs a terminal; for programs: cxxrunctl status --json", self.said)
        terminal = self.top({"TERM": "dumb"})
        self.assertEqual(terminal.process.wait(GUARD), 100)
        wait_until(lambda: "TERM=dumb" in terminal.text(), "it says why")
        self.assertNotIn("\x1b", terminal.text())


if __name__ == "__main__":
    jobs.main()
