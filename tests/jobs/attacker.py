"""What somebody says to agents who has read this project: in clear, or with proofs, under the right key or another one.

For tests that import it, and as the first part of a program that a test runs as another user (`program`): it imports
nothing of the tests. The cryptography is libsodium's, as in the programs."""
import ctypes
import ctypes.util
import json
import os
import socket
import struct

GUARD = 45  # seconds; against hanging only
# Of a decree: a job that has just begun.
HISTORY = {"account": {"waiting": 0, "startup": 0, "training": 0, "checkpoint": 0, "lost": 0, "stopping": 0}, "past": [], "left_out": 0,
           "ranks": 0, "steps": False}
VERSION = 1
RUN = "job"
HEAD = b"\1cxxkey\2"
NOTE = b"\1cxxnote"


def frame(payload):
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return struct.pack(">I", len(data)) + data


def hello(**changes):
    return {"hello": "cxxrun", "version": VERSION, "run_id": RUN, "nonce": "stranger", "purpose": "agent",
            "asks": "meet", **changes}


def join(host="stranger", **changes):
    node = {"incarnation": "stranger", "host": host, "slots": 1, "role": "default", "coordinates": False, "announce": "",
            "standby_port": 0}
    return {"type": "join", "node": {**node, **changes}}


class Caller:
    """One connection that says what it likes."""

    def __init__(self, port, accepted=None, host="127.0.0.1"):
        self.socket = accepted or socket.create_connection((host, port), GUARD)
        self.socket.settimeout(GUARD)
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *frames):
        """Frames as values, or bytes as they are."""
        self.socket.sendall(b"".join(each if isinstance(each, bytes) else frame(each) for each in frames))

    def hear_frame(self):
        """The next frame's bytes; None when the other end has closed."""
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack(">I", self.data[:4])[0]:
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not more:
                return None
            self.data += more
        size = 4 + struct.unpack(">I", self.data[:4])[0]
        heard, self.data = self.data[4:size], self.data[size:]
        return heard or None  # an empty one says that the end follows

    def hear(self):
        """The next message; None when the other end has closed."""
        heard = self.hear_frame()
        return None if heard is None else json.loads(heard)

    def hear_until(self, kind):
        while True:
            message = self.hear()
            if message is None or message.get("type") == kind:
                return message

    def wait(self):
        """Until the other end closes, whatever it says."""
        while self.hear_frame() is not None:
            pass


def told(port, *frames, host="127.0.0.1"):
    """Says it on a connection of its own; every byte that comes back until that is closed."""
    with Caller(port, host=host) as call:
        try:
            call.send(*frames)
            heard = b""
            while more := call.socket.recv(65536):
                heard += more
        except ConnectionError:
            pass
        return heard


# ---- proofs

_sodium = None


def sodium():
    global _sodium
    _sodium = _sodium or ctypes.CDLL(ctypes.util.find_library("sodium"))
    return _sodium


def derive(key, purpose, context=b"", size=32):
    """rendezvous/trust/key.cpp"""
    text = bytes([len(purpose)]) + purpose + context
    out = ctypes.create_string_buffer(size)
    sodium().crypto_generichash(out, ctypes.c_size_t(size), text, ctypes.c_ulonglong(len(text)), key,
                                ctypes.c_size_t(len(key)))
    return out.raw


def secret_key(text):
    """Of what CXXRUN_SECRET or a file holds: rendezvous/trust/secret.cpp."""
    return derive(bytes(32), b"cxxrun secret", text.strip().encode())


def hidden_ports(secret, ports):
    """Ports at which agents with this secret meet, before `ports`: rendezvous/trust/secret.cpp."""
    drawn = derive(secret, b"cxxrun hidden ports", "".join(f"{port}," for port in ports).encode())
    found = [20000 + (drawn[i] * 256 + drawn[i + 1]) % 11987 for i in range(0, 32, 2)]
    return list(dict.fromkeys(found))[:8]


def aead(name, bytes_in, size, extra, nonce, key):
    """One call of libsodium's; None when it does not open."""
    out = ctypes.create_string_buffer(max(size, 1))
    before = (None,) if name.endswith("encrypt") else ()
    after = () if name.endswith("encrypt") else (None,)
    done = getattr(sodium(), "crypto_aead_" + name)(
        out, None, *after, bytes_in, ctypes.c_ulonglong(len(bytes_in)), extra, ctypes.c_ulonglong(len(extra or b"")),
        *before, nonce, key)
    return out.raw[:size] if done == 0 else None


def seal(key, number, plain):
    return aead("chacha20poly1305_ietf_encrypt", plain, len(plain) + 16, None, struct.pack(">IQ", 0, number), key)


def unseal(key, number, sealed):
    return aead("chacha20poly1305_ietf_decrypt", sealed, len(sealed) - 16, None, struct.pack(">IQ", 0, number), key)


def wrap(secret, words):
    nonce = os.urandom(24)
    return nonce + aead("xchacha20poly1305_ietf_encrypt", words, len(words) + 16, b"cxxrun wrapped key 2", nonce, secret)


def unwrap(secret, wrapped):
    return aead("xchacha20poly1305_ietf_decrypt", wrapped[24:], len(wrapped) - 40, b"cxxrun wrapped key 2", wrapped[:24],
                secret)


def grant(key, run, *calls):
    """rendezvous/trust/grant.cpp"""
    ids = b"".join(derive(bytes(32), b"cxxrun call", call)[:16] for call in calls)
    return b"cxxrun key 2:" + key + bytes([1, len(run)]) + run.encode() + bytes([len(calls)]) + ids


def channel_keys(key, call, answer):
    """Of the caller and of who was called: rendezvous/trust/handshake.cpp."""
    return [derive(key, name, call + answer) for name in (b"cxxrun caller", b"cxxrun called")]


def call_of_nobody():
    """Of who has no key."""
    return HEAD + os.urandom(32) + bytes(8)


def answer_to(key, *wraps):
    """What a coordinator with this key says to a call; `wraps`: (kind, bytes)."""
    said = HEAD + os.urandom(32) + derive(key, b"cxxrun key id")[:8]
    return said + b"".join(struct.pack(">BH", kind, len(each)) + each for kind, each in wraps)


def wraps_of(answer):
    """{kind: bytes}"""
    found, rest = {}, answer[48:]
    while rest:
        kind, length = struct.unpack(">BH", rest[:3])
        found[kind], rest = rest[3:3 + length], rest[3 + length:]
    return found


def note(key, *messages):
    words = b"".join(map(frame, messages))
    return NOTE + derive(derive(key, b"cxxrun note"), b"cxxrun proof", words, 16) + words


class Sealed(Caller):
    """A caller that proves itself, with this key or with the one that is wrapped under this secret."""

    def __init__(self, port, key=None, secret=None, host="127.0.0.1"):
        super().__init__(port, host=host)
        call = call_of_nobody()
        super().send(frame(call))
        answer = self.hear_frame()
        if answer is None:
            raise ConnectionResetError("no answer to the handshake")
        self.wraps = wraps_of(answer)
        self.key = key or unwrap(secret_key(secret), self.wraps[2])[13:45]
        self.ours, self.theirs = channel_keys(self.key, call, answer)
        self.said = self.heard = 0

    def send(self, *messages):
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            super().send(frame(seal(self.ours, self.said, data)))
            self.said += 1

    def hear_frame(self):
        heard = super().hear_frame()
        if heard is None or not hasattr(self, "heard"):
            return heard
        self.heard += 1
        return unseal(self.theirs, self.heard - 1, heard) or None

    def greet(self, **changes):
        """Says hello, as an honest end does."""
        ends = {"from": "%s:%d" % self.socket.getsockname(), "to": "%s:%d" % self.socket.getpeername()}
        self.send(hello(**ends, **changes))
        return self.hear()
# ---- what a test adds to `program` follows
