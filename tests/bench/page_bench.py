#!/usr/bin/python3
"""What the page of a job of 1,024 ranks costs (docs/use/live.md): from the start of the navigation to the first paint and to
the drawn ranks, in a headless Chromium that runs already; bytes of an update; processor time of the page's program and
of the agents, without a viewer, with one and with 50.

The workers of 8 agents report a step each second; all runs on this machine. Paint times are the browser's.
Usage: page_bench.py --cxxrun PROGRAM --cxxrunctl PROGRAM [--worker live_bench] [--smoke]
Exit code 1: a bar is missed."""
import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/jobs"))
import browser
from live_bench import Job, on_processor_ms

PAINT_MS, UPDATE_KB, VIEWERS_PERCENT = 300, 20, 0.5
DRAWN = """(() => {
  const timer = setInterval(() => {
    if (typeof cells !== "object" || cells.length !== %d) return;
    clearInterval(timer);
    window.drawn = performance.now();
  }, 5);
})()"""


class Viewer(threading.Thread):
    """Reads what comes. `updates`: their bytes, from the second on."""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(f"GET /live HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
                            f"X-Cxxrun-Token: {token}\r\n\r\n".encode())
        self.updates = []
        self.start()

    def run(self):
        size = 0
        for line in self.socket.makefile("rb"):
            size += len(line)
            if not line.strip():
                self.updates.append(size)
                size = 0


class Page:
    def __init__(self, job):
        self.process = subprocess.Popen([job.ctl, "page", job.id], env=job.env, stdout=subprocess.PIPE, text=True)
        found = re.search(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{32}) ", self.process.stdout.readline())
        self.port, self.token = int(found[1]), found[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def painted(page, ranks, reps):
    """Milliseconds to the first paint, and to the drawn ranks: medians."""
    tab = browser.Browser()
    try:
        tab.ask("Page.addScriptToEvaluateOnNewDocument", source=DRAWN % ranks)
        times = []
        for _ in range(reps):
            tab.show("about:blank", 1280)
            tab.show(f"http://127.0.0.1:{page.port}/#{page.token}", 1280)
            drawn = tab.await_value("window.drawn")
            paint = tab.await_value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            times.append((paint, drawn))
        return [statistics.median(column) for column in zip(*times)]
    finally:
        tab.close()


def percent(pids, seconds):
    before, began = on_processor_ms(pids), time.monotonic()
    time.sleep(seconds)
    return (on_processor_ms(pids) - before) / (time.monotonic() - began) / 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cxxrun", default=os.path.join(ROOT, "build/release/bin/cxxrun"))
    parser.add_argument("--cxxrunctl", default=os.path.join(ROOT, "build/release/bin/cxxrunctl"))
    parser.add_argument("--worker", default=os.path.join(ROOT, "build/release/tests/live_bench"))
    parser.add_argument("--smoke", action="store_true", help="two ranks, and no bars")
    given = parser.parse_args()
    agents, ranks, reps, seconds = (1, 2, 1, 0.2) if given.smoke else (8, 1024, 9, 30)
    missed = []

    def row(what, value, unit, bar=None):
        print(f"{what}: {value:.3g} {unit}" + (f" (at most {bar})" if bar else ""), flush=True)
        if bar and value > bar and not given.smoke:
            missed.append(what)

    with tempfile.TemporaryDirectory() as folder, Job(given, folder, agents, ranks, (given.worker, "--worker")) as job:
        pids = job.agents()
        job.await_table()
        row("agents, nobody looks", percent(pids, seconds), "% of a core")
        with Page(job) as page:
            if browser.PROGRAM:
                paint, drawn = painted(page, ranks, reps)
                row("first paint", paint, "ms", PAINT_MS)
                row("all ranks drawn", drawn, "ms")
            else:
                print("not measured: no chromium for the paint")
            viewers = []
            for count in (1, 50):
                viewers += [Viewer(page.port, page.token) for _ in range(count - len(viewers))]
                time.sleep(seconds / 5)
                row(f"agents, {count} viewers", percent(pids, seconds), "% of a core")
                row(f"page, {count} viewers", percent([page.process.pid], seconds), "% of a core",
                    VIEWERS_PERCENT if count == 50 else None)
            sizes = sorted(viewers[0].updates[1:]) or [0]
            row("update, median", statistics.median(sizes) / 1000, "KB", UPDATE_KB)
            row("update, largest", sizes[-1] / 1000, "KB")
    for what in missed:
        print("MISSED: " + what)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
