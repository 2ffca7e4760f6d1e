"""cxxrunctl page and metrics beside jobs that run. Usage: page_test.py CXXRUN CXXRUNCTL"""
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.parse

import browser
import jobs
from jobs import GUARD, wait_until
from live_jobs import CTL, PACKAGE, LiveCase

# Says what a browser must not take for its own, and trains while there is a file for its rank.
TRAINER = """
import os
import cxxrun
cxxrun.install()
note("up")
print("</pre><script>alert(1)</script>\\x1b[31mred", flush=True)
for step in range(1, 100000):
    while not os.path.exists(DIR + "/go" + RANK):
        time.sleep(0.01)
    cxxrun.step(step)
    time.sleep(0.01)
"""


def promtool(text):
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=GUARD)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done


class Proxy(http.server.ThreadingHTTPServer):
    """Has the page of a port below a path, as jupyter-server-proxy does. `holds`: it passes on whole answers alone, so nothing
    of a stream before its end, as releases up to 4.1 do; later ones pass on a stream that is asked for by `Accept`."""
    daemon_threads = True

    def __init__(self, port, holds):
        self.page_port, self.holds, self.below = port, holds, f"/user/me/proxy/{port}/"
        self.asked, self.streams, self.strays = [], [], []
        super().__init__(("127.0.0.1", 0), Passing)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Passing(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ours = self.path.startswith(self.server.below)
        path = "/" + self.path.removeprefix(self.server.below) if ours else self.path
        (self.server.asked if ours else self.server.strays).append(path)
        if not ours:
            self.send_response(204)
            return self.end_headers()
        page = http.client.HTTPConnection("127.0.0.1", self.server.page_port)
        try:
            page.request("GET", path, headers={name: value for name, value in self.headers.items() if name != "Connection"})
            answer = page.getresponse()
            if self.headers["Accept"] == "text/event-stream" and not self.server.holds:
                self.server.streams.append(path)
                parts = iter(lambda: answer.read1(65536), b"")
            else:
                parts = [answer.read()]
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.end_headers()
            for part in parts:
                self.wfile.write(part)
        except (OSError, http.client.HTTPException):
            pass  # one of the two ends has gone
        finally:
            page.close()

    def log_message(self, *_):
        pass


class PageCase(LiveCase):
    def begin_job(self, ranks=2):
        job = self.start_node(f"--nproc-per-node={ranks}", "--rdzv-id", self.run_id(), "--log-dir", self.path("logs"), "--tee", "3",
                              *self.python_worker(TRAINER, "train.py"), nnodes="1", env=PACKAGE)
        self.await_events(ranks, "up")
        self.go(*range(ranks))
        self.await_table(self.run_id(), lambda table: len([w for w in table["workers"] if w.get("per_step_ms")]) == ranks, "it trains")
        return job

    def open_page(self, *arguments):
        self.page = subprocess.Popen([CTL, "page", self.run_id(), *arguments], env=self.environment(), stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.page.communicate)
        self.addCleanup(self.page.kill)
        first, second = self.page.stdout.readline(), self.page.stdout.readline()
        self.url = re.search(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{32}) ", first)
        self.assertTrue(self.url, first)
        self.http_port, self.token = int(self.url[1]), self.url[2]
        self.assertIn(f"ssh -N -L {self.http_port}:127.0.0.1:{self.http_port} ", second)

    def ask(self, path, token=True, method="GET", headers=None, body=None):
        """Status and text; the answer's headers are kept."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=GUARD)
        with_token = {"X-Cxxrun-Token": self.token} if token is True else {"X-Cxxrun-Token": token} if token else {}
        connection.request(method, path, body, {**with_token, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        self.headers = answer.headers
        connection.close()
        return answer.status, text

    def put_proxy(self, holds=False):
        """Before the page: requests go through it from now on."""
        proxy = Proxy(self.http_port, holds)
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        self.http_port = proxy.server_address[1]
        return proxy

    def stream(self, path="/live"):
        """A viewer: its connection, and a file of what comes."""
        viewer = socket.create_connection(("127.0.0.1", self.http_port), timeout=GUARD)
        self.addCleanup(viewer.close)
        viewer.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
                       f"X-Cxxrun-Token: {self.token}\r\n\r\n".encode())
        return viewer

    def news(self, file):
        """The events of a stream, until it ends."""
        kind = ""
        for line in file:
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield kind, json.loads(line[6:])

    def leave(self, code=0):
        said = self.page.communicate(timeout=GUARD)
        self.assertEqual((self.page.returncode, said[1]), (code, ""))
        return said[0]


class Page(PageCase):
    def test_it_shows_the_job_to_those_alone_who_have_the_token_and_ends_with_it(self):
        job = self.begin_job()
        self.open_page("--token-file", self.path("token"))
        kept = os.stat(self.path("token"))
        self.assertEqual((jobs.read(self.path("token")), kept.st_mode & 0o777), (self.token + "\n", 0o600))

        self.assertEqual(self.ask("/healthz", token=None), (200, "ok\n"))
        status, page = self.ask("/", token=None)
        self.assertEqual(status, 200)
        self.assertNotIn(self.run_id(), page)
        self.assertRegex(self.headers["Content-Security-Policy"], r"^default-src 'none'; script-src 'sha256-[^;]*'; style-src 'sha256-")
        for name, value in {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}.items():
            self.assertEqual(self.headers[name], value)
        self.assertNotIn("Access-Control-Allow-Origin", self.headers)
        for path in ("/live", "/state", "/events", "/logs?rank=0", "/stacks?rank=0", "/metrics", "/other"):
            for wrong in (None, "x", self.token[:-1], self.token + "0", "0" * 32):
                self.assertEqual(self.ask(path, token=wrong)[0], 401, path)
        self.assertEqual(self.ask("/other")[0], 404)
        self.assertEqual(self.ask("/logs?rank=-1")[0], 404)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
            self.assertEqual(self.ask("/state", method=method)[0], 405, method)
        self.assertEqual(self.ask("/healthz", headers={"X-Long": "a" * 9000})[0], 431)
        self.assertEqual(self.ask("/healthz", body="hello")[0], 413)
        self.assertEqual(self.ask("/healthz", headers={"Transfer-Encoding": "chunked"})[0], 413)

        state = json.loads(self.ask("/state")[1])
        self.assertRegex(state["says"], r"^trains: step \d+")
        self.assertEqual((state["run"], state["counts"], len(state["behind"])), (self.run_id(), [2], 2))
        self.assertRegex(state["goodput"], r"^\d+\.\d %$")
        self.assertEqual([name for name, _ in state["spent"]],
                         ["waiting", "startup", "training", "checkpoint", "lost", "stopping"])
        log = json.loads(self.ask("/logs?rank=1")[1])
        self.assertIn("</pre><script>alert(1)</script>red", log["files"][0]["text"] + log["files"][1]["text"])
        self.assertEqual(self.headers["Content-Type"], "application/json")
        self.assertIn("there is no rank 7", json.loads(self.ask("/logs?rank=7")[1])["errors"][0])
        self.assertIn("train.py", json.loads(self.ask("/stacks?rank=1")[1])["stacks"][0]["frames"][0])
        kinds = [json.loads(line)["kind"] for line in self.ask("/events")[1].splitlines()]
        self.assertIn("started", kinds)

        status, text = self.ask("/metrics", token=None, headers={"Authorization": "Bearer " + self.token})
        self.assertEqual(status, 200)
        self.assertIn(f'cxxrun_ranks{{run="{self.run_id()}"}} 2\n', text)
        self.assertRegex(text, r'\ncxxrun_spent_seconds_total\{run="[^"]*",on="training"\} \d')
        self.assertIn("\ncxxrun_goodput_ratio{", text)
        promtool(text)
        promtool(self.ctl("metrics", self.run_id()))

        viewer = self.stream()
        events = self.news(viewer.makefile("rb"))
        kind, first = next(events)
        self.assertEqual((kind, first["run"]), ("all", self.run_id()))
        kind, tick = next(events)
        self.assertEqual(kind, "tick")
        self.assertNotIn("run", tick)
        self.end(job)
        last = list(events)[-1]
        self.assertEqual(last[0], "over")
        self.assertRegex(self.leave(), rf"^{self.run_id()}: is (over|OVER)")

    def test_strangers_and_those_who_do_not_read_hold_nobody_up(self):
        job = self.begin_job()
        self.open_page()
        # Half requests, garbage, and many who say nothing.
        idle = [socket.create_connection(("127.0.0.1", self.http_port), timeout=GUARD) for _ in range(100)]
        for i, one in enumerate(idle):
            one.sendall([b"", b"GET /", b"\0\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"a" * 20000][i % 5])
        self.assertEqual(self.ask("/healthz")[0], 200)
        for one in idle:
            one.close()
        viewers = [self.stream() for _ in range(64)]
        seen = [next(self.news(viewer.makefile("rb"))) for viewer in viewers]
        self.assertEqual({kind for kind, _ in seen}, {"all"})
        wait_until(lambda: self.ask("/live")[0] == 503, "there is room for 64 viewers")
        for viewer in viewers[:-1]:
            viewer.close()
        def room():
            with self.stream() as one:
                return b" 200 " in one.makefile("rb").readline()
        wait_until(room, "those who have gone make room")
        self.assertEqual(self.ask("/state")[0], 200)
        self.page.send_signal(signal.SIGINT)
        self.assertIn(": this page was ended where it was started\n", self.leave())
        self.assertEqual(self.table(self.run_id())["phase"], "running")
        old = self.token
        self.open_page("--port", str(self.http_port))
        self.assertEqual((self.ask("/state")[0], self.ask("/state", token=old)[0]), (200, 401))
        self.end(job)
        self.leave()

    def test_it_is_seen_below_a_path_of_a_proxy_that_has_a_token_of_its_own(self):
        job = self.begin_job(1)
        self.open_page()
        proxy = self.put_proxy()
        of_hub = {"Authorization": "token of-the-hub"}
        status, page = self.ask(proxy.below, token=None, headers=of_hub)
        self.assertEqual((status, proxy.asked), (200, ["/"]))
        self.assertNotRegex(page, r"""(fetch\(|href=|src=)["'`]?(/|http)""")
        for path in ("state", "live", "logs?rank=0"):
            self.assertEqual(self.ask(proxy.below + path, token=None, headers=of_hub)[0], 401, path)
        self.assertEqual(json.loads(self.ask(proxy.below + "state", headers=of_hub)[1])["run"], self.run_id())
        self.assertIn("red", self.ask(proxy.below + "logs?rank=0", headers=of_hub)[1])
        events = self.news(self.stream(proxy.below + "live").makefile("rb"))
        self.assertEqual([next(events)[0] for _ in range(3)], ["all", "tick", "tick"])
        self.end(job)
        self.assertEqual(list(events)[-1][0], "over")
        self.leave()

    def test_a_port_that_is_taken_and_a_file_that_cannot_be_written_are_said(self):
        job = self.begin_job(1)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.ctl("page", self.run_id(), "--port", str(taken.getsockname()[1]), code=111)
            self.assertIn("cannot listen on 127.0.0.1:", self.said)
        self.ctl("page", self.run_id(), "--token-file", "/no/such/token", code=111)
        self.assertIn("cannot write /no/such/token: No such file or directory", self.said)
        os.symlink(self.path("elsewhere"), self.path("link"))
        self.open_page("--token-file", self.path("link"))
        self.assertFalse(os.path.islink(self.path("link")) or os.path.exists(self.path("elsewhere")))
        self.end(job)
        self.leave()

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_another_user_gets_nothing_without_the_token(self):
        job = self.begin_job(1)
        self.open_page("--token-file", self.path("token"))
        os.chmod(self.dir, 0o755)
        script = ("import sys, urllib.request, urllib.error\n"
                  "def code(path):\n"
                  "  try: return urllib.request.urlopen(sys.argv[1] + path).status\n"
                  "  except urllib.error.HTTPError as error: return error.code\n"
                  "print([code(path) for path in ('state', 'live', 'metrics', 'logs?rank=0')])\n"
                  "try: print(open(sys.argv[2]).read())\n"
                  "except PermissionError: print('closed')\n")
        done = subprocess.run(["/usr/bin/python3", "-c", script, f"http://127.0.0.1:{self.http_port}/", self.path("token")], user=65534,
                              group=65534, extra_groups=[], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=GUARD)
        self.assertEqual((done.stdout, done.stderr), ("[401, 401, 401, 401]\nclosed\n", ""))
        self.end(job)
        self.leave()

    def test_what_is_shown_stays_while_nobody_coordinates(self):
        self.go(0, 1, 2)
        agents = [self.start_node("--rdzv-id", self.run_id(), "--nproc-per-node=1", *self.python_worker(TRAINER, "train.py"),
                                  nnodes="2:3", env=PACKAGE) for _ in range(3)]
        self.await_events(3, "up", generation=1)
        self.await_table(self.run_id(), lambda table: len(table["workers"]) == 3, "three workers are told of")
        self.open_page()
        events = self.news(self.stream().makefile("rb"))
        seen = next(events)[1]
        self.assertEqual(seen["ranks"], 3)
        coordinator = next(agent for agent in agents if "coordinates" in agent.stderr or agent is agents[0])
        coordinator.process.kill()
        for kind, fields in events:
            self.assertIn(kind, ("all", "tick"))
            seen.update(fields)
            if seen["generation"] > 1 and len(seen["behind"]) == 2 and not seen["trouble"]:
                break
        self.end(*[agent for agent in agents if agent is not coordinator])
        self.leave()


    def test_numbers_that_no_worker_can_have_are_no_trouble(self):
        script = self.python_worker("""
import random
from cxxrun import _page
if RANK == "0":  # its page says anything
    page = _page.connect()
    note("up")
    while True:
        for offset in (_page.STEP, _page.FIRST_STEP, _page.LAST_STEP, _page.ENTERED, _page.DONE, *range(_page.IDLE, _page.SAVED + 1, 8)):
            page.put(offset, random.choice((0, 1, 2**63 - 1, 2**63, 2**64 - 1, random.getrandbits(64))))
        time.sleep(0.001)
""" + TRAINER, "train.py")
        job = self.start_node("--nproc-per-node=3", "--rdzv-id", self.run_id(), *script, nnodes="1", env=PACKAGE)
        self.await_events(3, "up")
        self.go(1, 2)
        self.open_page()
        def trains(table):
            screen = self.ctl("status", self.run_id())
            self.assertLessEqual(max(map(len, screen.splitlines())), 80)
            self.assertEqual(json.loads(self.ask("/state")[1])["counts"], [3])
            promtool(self.ctl("metrics", self.run_id()))
            worker = next(each for each in table["workers"] if each["rank"] == 1)
            return worker["step"] > 100 and worker.get("per_step_ms")
        self.await_table(self.run_id(), lambda table: len(table["workers"]) == 3 and trains(table), "the others are shown as before")
        self.end(job)
        self.leave()


class Stalled(PageCase):
    """Slow: a viewer has 10 s for each tick, behind what the kernel keeps for it."""

    def test_a_viewer_who_does_not_read_is_let_go(self):
        job = self.begin_job()
        self.open_page()
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            deaf.connect(("127.0.0.1", self.http_port))
            request = f"GET /state HTTP/1.1\r\nX-Cxxrun-Token: {self.token}\r\n\r\n".encode()
            deaf.settimeout(1)
            try:  # asks again and again, and reads no answer
                while True:
                    deaf.sendall(request * 100)
            except TimeoutError:
                pass
            def gone():
                with open("/proc/net/tcp") as table:
                    own = f"0100007F:{deaf.getsockname()[1]:04X}"
                    rows = [line.split() for line in table]
                    return not any(row[2] == own and row[3] == "01" for row in rows[1:])
            wait_until(gone, "the server has let it go", 60)
        self.assertEqual(self.ask("/state")[0], 200)
        self.end(job)
        self.leave()


class InBrowser(PageCase):
    """With CXXRUN_SCREENSHOTS=DIR the pictures stay there."""

    @unittest.skipUnless(browser.PROGRAM, "Debian: chromium")
    def test_a_real_browser_shows_it_at_each_width_and_says_nothing_against_it(self):
        job = self.begin_job(4)
        self.open_page()
        tab = browser.Browser()
        self.addCleanup(tab.close)
        pictures = pathlib.Path(os.environ.get("CXXRUN_SCREENSHOTS", self.dir))
        url = f"http://127.0.0.1:{self.http_port}/#{self.token}"
        for width in (1280, 390):
            for dark in (False, True):
                tab.show("about:blank", width)
                tab.show(url, width, dark=dark)
                tab.await_value("typeof v === 'object' && v && v.run && cells.length === 4")
                self.assertEqual(tab.value("location.hash + location.search"), "")
                self.assertRegex(tab.value("document.getElementById('says').textContent"), "trains: step")
                self.assertLessEqual(tab.value("document.documentElement.scrollWidth - innerWidth"), 0)
                self.assertEqual(tab.value("document.querySelectorAll('#node-rows tr').length"), 1)
                tab.await_value("document.getElementById('spent').textContent.includes('training')")
                tab.await_value("/^M[0-9. ]+L/.test(document.querySelector('#chart path').getAttribute('d'))")
                self.assertRegex(tab.value("document.getElementById('chart').getAttribute('aria-label')"),
                                 r"^time of a step: [\d.]+ s, median [\d.]+ s$")
                self.assertTrue(tab.value("document.getElementById('text').hidden"))
                tab.value("document.getElementById('grid').dispatchEvent(new KeyboardEvent('keydown', {key: 'End'}))")
                tab.value("document.getElementById('log').click()")
                tab.await_value("document.getElementById('text').textContent.includes('</pre><script>alert(1)</script>red')")
                self.assertIn("rank 3 on ", tab.value("document.getElementById('figures-of-one').textContent"))
                tab.screenshot(str(pictures / f"page-{width}-{'dark' if dark else 'light'}.png"))
        self.end(job)
        tab.await_value("document.getElementById('trouble').textContent.startsWith('No more news: ')")
        self.assertEqual(tab.value("document.querySelectorAll('#node-rows tr').length"), 1)
        self.assertEqual(tab.said, [])
        self.leave()

    @unittest.skipUnless(browser.PROGRAM, "Debian: chromium")
    def test_a_real_browser_shows_it_through_a_proxy_also_through_one_that_holds_streams_back(self):
        job = self.begin_job(1)
        tab = browser.Browser()
        self.addCleanup(tab.close)
        for holds in (False, True):
            self.open_page()
            proxy = self.put_proxy(holds)
            tab.show("about:blank", 1280)
            tab.show(f"http://127.0.0.1:{self.http_port}{proxy.below}#{self.token}", 1280)
            tab.await_value("typeof v === 'object' && v && v.run && cells.length === 1")
            tab.await_value(f"v.steps > {tab.value('v.steps') or 0}")
            self.assertEqual((tab.value("location.pathname"), tab.value("location.hash")), (proxy.below, ""))
            self.assertIn("/state" if holds else "/live", proxy.asked if holds else proxy.streams)
            self.assertLessEqual(set(proxy.strays), {"/favicon.ico"})
            self.assertEqual(tab.said, [])
            self.page.send_signal(signal.SIGINT)
            self.leave()
        self.end(job)

    @unittest.skipUnless(shutil.which("prometheus"), "Debian: prometheus")
    def test_prometheus_scrapes_it(self):
        job = self.begin_job()
        self.open_page("--token-file", self.path("token"))
        port = jobs.free_port()
        config = self.make_file(
            "prometheus.yml",
            "scrape_configs:\n- job_name: cxxrun\n  scrape_interval: 1s\n  authorization: {credentials_file: "
            f"{self.path('token')}}}\n  static_configs: [{{targets: ['127.0.0.1:{self.http_port}']}}]\n")
        server = subprocess.Popen(["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + self.path("series"),
                                   f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        def scraped():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
                connection.request("GET", "/api/v1/query?query=" + urllib.parse.quote("cxxrun_rank_step"))
                return json.load(connection.getresponse())["data"]["result"]
            except (OSError, ValueError, KeyError):
                time.sleep(0.1)
        rows = wait_until(scraped, "Prometheus knows the ranks", 90)
        self.assertEqual(sorted(row["metric"]["rank"] for row in rows), ["0", "1"])
        self.assertEqual({row["metric"]["run"] for row in rows}, {self.run_id()})
        self.end(job)
        self.leave()


if __name__ == "__main__":
    jobs.main()
