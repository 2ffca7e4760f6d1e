"""A headless Chromium, by its DevTools port; its WebSocket is spoken here, so that no package is needed for it."""
import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium")
GUARD = 90  # seconds; against hanging only: a browser starts slowly on a busy machine


class Browser:
    """One tab. `said`: what the page has thrown, what the browser has refused, and dialogs."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cxxrun-chromium-")
        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--hide-scrollbars",
             "--user-data-dir=" + self.dir, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.dir}, start_new_session=True)
        self.said = []
        self.number = 0
        self.rest = b""
        port_file = self.dir + "/DevToolsActivePort"
        deadline = time.monotonic() + GUARD
        while not (os.path.exists(port_file) and open(port_file).read().count("\n")):
            assert time.monotonic() < deadline and self.process.poll() is None, "chromium does not start"
            time.sleep(0.05)
        self.port = int(open(port_file).readline())
        self.socket = self.open(self.tab())
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.ask(domain + ".enable")

    def tab(self):
        deadline = time.monotonic() + GUARD
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD)
            connection.request("GET", "/json/list")
            tabs = [tab for tab in json.load(connection.getresponse()) if tab["type"] == "page"]
            if tabs:
                return tabs[0]["webSocketDebuggerUrl"].split(str(self.port), 1)[1]
            assert time.monotonic() < deadline, "chromium has no tab"
            time.sleep(0.05)

    def open(self, path):
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=GUARD)
        key = base64.b64encode(os.urandom(16)).decode()
        opened.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        while b"\r\n\r\n" not in self.rest:
            self.rest += opened.recv(65536)
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        assert b" 101 " in head, head
        return opened

    def take(self, size):
        while len(self.rest) < size:
            got = self.socket.recv(65536)
            assert got, "chromium has ended"
            self.rest += got
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def message(self):
        text = b""
        while True:
            first, length = self.take(2)
            length &= 0x7F
            if length > 125:
                length = int.from_bytes(self.take(2 if length == 126 else 8), "big")
            part = self.take(length)
            if first & 0xF in (0, 1):
                text += part
                if first & 0x80:
                    return json.loads(text)

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big") if len(
            data) < 65536 else b"\xff" + len(data).to_bytes(8, "big")
        self.socket.sendall(b"\x81" + size + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def ask(self, method, **params):
        self.number += 1
        self.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            message = self.message()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.hear(message)

    def hear(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.said.append("thrown: " + str(params["exceptionDetails"].get("exception", {}).get("description")))
        elif message.get("method") == "Log.entryAdded":
            self.said.append(params["entry"]["level"] + ": " + params["entry"]["text"])
        elif message.get("method") == "Page.javascriptDialogOpening":
            self.said.append("dialog: " + params["message"])

    def show(self, url, width, height=900, dark=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.ask("Page.navigate", url=url)

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def await_value(self, expression):
        deadline = time.monotonic() + GUARD
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, f"not within {GUARD} s: {expression}"
            time.sleep(0.05)
        return value

    def screenshot(self, path):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 3000), "scale": 1}
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.socket.close()
        os.killpg(self.process.pid, 9)
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
