"""A DNS server for one name: answers A with ADDRESS, another question about the name with nothing, other names with
NXDOMAIN. Usage: name_server.py NAME ADDRESS; says "ready" and ends with its standard input."""
import os
import socket
import sys
import threading

NAME, ADDRESS = sys.argv[1], sys.argv[2]
A, NXDOMAIN = 1, 3


def read_question(packet):
    """The name, what is asked of it, and where the question ends."""
    words, at = [], 12
    while packet[at]:
        words.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(words).lower(), int.from_bytes(packet[at + 1:at + 3], "big"), at + 5


def answer(packet):
    name, kind, end = read_question(packet)
    known = name == NAME
    answers = known and kind == A
    head = packet[:2] + bytes([0x85, 0x80 | (0 if known else NXDOMAIN), 0, 1, 0, int(answers), 0, 0, 0, 0])
    record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04" + socket.inet_aton(ADDRESS)
    return head + packet[12:end] + (record if answers else b"")


def serve(server):
    while True:
        packet, caller = server.recvfrom(512)
        server.sendto(answer(packet), caller)


with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("", 53))
    print("ready", flush=True)
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    sys.stdin.read()
    os._exit(0)
