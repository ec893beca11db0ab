"""A machine with an Internet of its own, for tests of the network: `python -m tests.support.internet USER COMMAND`.

The command runs in a network namespace that has one way out, to another one with servers at addresses that look public,
private and special, and with the name server. `root` keeps the user; `user` makes it an ordinary one, without any right
but with the files of this one.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from sandrl.runtime.guest import syscalls

PUBLIC, OTHER, PUBLIC6, PRIVATE, METADATA, OWN = (
    *("93.184.216.34", "151.101.1.1", "2606:2800:220::1", "10.7.0.5", "169.254.169.254", "8.8.4.4"),
)
_ADDRESSES = (
    *(PUBLIC, OTHER, PUBLIC6, PRIVATE, METADATA, "172.16.9.9", "192.168.9.9", "100.100.100.200", "168.63.129.16"),
    *("fd00:ec2::254", "fd12::5", "2002:5db8:d822::1"),
)
_NAMES = {
    "allowed.example": [PUBLIC, PUBLIC6],
    "sub.wild.example": [PUBLIC],
    "other.example": [OTHER],
    "private.example": [PRIVATE],
    "metadata.example": [METADATA],
    "loop.example": ["127.0.0.1", "::1"],
    "mapped.example": ["::ffff:10.7.0.5", "::ffff:127.0.0.1"],
    "own.example": [OWN],
    "mixed.example": [PRIVATE, OTHER],
    "mirror.example": [PRIVATE],
}
_REBOUND = itertools.cycle(([PUBLIC], [PRIVATE]))
_GATEWAY, _HOST = "192.168.7.1", "192.168.7.2"
SERVED_PORTS = (53, 80, 443, 8080)
_LARGE_BYTES = 20 << 20


class _Seen:
    """What has reached the Internet: questions for names, and datagrams."""

    def __init__(self) -> None:
        self.questions: set[str] = set()
        self.datagrams: set[str] = set()


_seen = _Seen()


class _Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        address, port = self.connection.getsockname()[:2]
        path = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(path.query).items()}
        if path.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", query["to"])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if path.path == "/hang":
            time.sleep(600)
        if path.path == "/large":
            content = bytes(_LARGE_BYTES)
        elif path.path == "/seen":
            content = json.dumps({"questions": sorted(_seen.questions), "datagrams": sorted(_seen.datagrams)}).encode()
        else:
            content = json.dumps([address.removeprefix("::ffff:"), port]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        received = self.rfile.read(int(self.headers["Content-Length"]))
        content = str(len(received)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_: object) -> None:
        pass


def serve(address: str, port: int) -> None:
    server = _Server((address, port), _Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _answer_names() -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((_GATEWAY, 53))
    while True:
        message, client = server.recvfrom(4096)
        labels, place = [], 12
        while length := message[place]:
            labels.append(message[place + 1 : place + 1 + length].decode())
            place += 1 + length
        kind = int.from_bytes(message[place + 1 : place + 3])
        name = ".".join(labels).lower()
        _seen.questions.add(name)
        known = next(_REBOUND) if name == "rebound.example" and kind == 1 else _NAMES.get(name)
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        found = [each for each in known or () if (":" in each) == (family == socket.AF_INET6)] if family else []
        records = b""
        for each in found:
            packed = socket.inet_pton(socket.AF_INET6 if ":" in each else socket.AF_INET, each)
            records += struct.pack("!3HIH", 0xC00C, kind, 1, 0, len(packed)) + packed
        code = 0 if known else 3
        header = message[:2] + struct.pack("!5H", 0x8180 | code, 1, len(found), 0, 0)
        server.sendto(header + message[12 : place + 5] + records, client)


def _note_datagrams(port: int) -> None:
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.bind(("::", port))
    while True:
        message, client = server.recvfrom(4096)
        _seen.datagrams.add(f"{port}: {message[:20]!r}")
        server.sendto(message, client)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _be_the_internet(ready: int, begin: int) -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET)
    os.write(ready, b"1")
    os.read(begin, 1)
    _ip("link", "set", "lo", "up")
    for address in _ADDRESSES:
        _ip(
            "addr",
            "add",
            *((f"{address}/128", "dev", "lo", "nodad") if ":" in address else (f"{address}/32", "dev", "lo")),
        )
    _ip("addr", "add", f"{_GATEWAY}/24", "dev", "internet")
    _ip("addr", "add", "2600:1::1/64", "dev", "internet", "nodad")
    _ip("link", "set", "internet", "up")
    _ip("route", "add", OWN, "via", _HOST)
    for port in SERVED_PORTS:
        serve("::", port)
    for port in (123, 443, 5353):
        threading.Thread(target=_note_datagrams, args=(port,), daemon=True).start()
    threading.Thread(target=_answer_names, daemon=True).start()
    os.write(ready, b"1")
    signal.pause()


def _be_the_machine() -> None:
    _ip("link", "set", "lo", "up")
    _ip("addr", "add", f"{_HOST}/24", "dev", "eth0")
    _ip("addr", "add", f"{OWN}/32", "dev", "lo")
    _ip("addr", "add", "2600:1::2/64", "dev", "eth0", "nodad")
    _ip("link", "set", "eth0", "up")
    _ip("route", "add", "default", "via", _GATEWAY)
    _ip("-6", "route", "add", "default", "via", "2600:1::1")
    for target, text in (
        ("/etc/resolv.conf", f"nameserver {_GATEWAY}\n"),
        ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ):
        with tempfile.NamedTemporaryFile("w") as file:
            os.chmod(file.name, 0o644)
            file.write(text)
            file.flush()
            syscalls.mount(file.name, os.path.realpath(target), flags=syscalls.MS_BIND)
    # The machine's own services: on its loopback, and on all addresses.
    serve("::ffff:127.0.0.1", 8000)
    serve("::", 9000)


def _become_root_of_a_namespace(user: int, group: int, inner: int) -> None:
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    syscalls.write_maps(os.getpid(), [[inner, user, 1]], [[inner, group, 1]])


def main(kind: str, command: list[str]) -> int:
    if os.getuid() != 0:
        _become_root_of_a_namespace(os.getuid(), os.getgid(), 0)
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    ready, says_ready = os.pipe()
    begins, begin = os.pipe()
    internet = os.fork()
    if internet == 0:
        try:
            _be_the_internet(says_ready, begins)
        finally:
            os._exit(1)
    try:
        os.read(ready, 1)
        _ip("link", "add", "eth0", "type", "veth", "peer", "name", "internet", "netns", str(internet))
        os.write(begin, b"1")
        os.read(ready, 1)
        _be_the_machine()

        def enter() -> None:
            if kind == "user":
                _become_root_of_a_namespace(0, 0, 1000)

        return subprocess.run(command, check=False, preexec_fn=enter).returncode
    finally:
        os.kill(internet, signal.SIGKILL)
        os.waitpid(internet, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
