"""Servers and programs that break the protocol get no answer recorded and do not stop the recorder."""

from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from sandrl.runtime.recording.recorder import RecordingLimits, RecordingMode
from tests.support.programs import require_program
from tests.support.recordings import Internet, front

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def speaking(internet: Internet, name: str, speak: Callable[[socket.socket], None]) -> Iterator[None]:
    """A server without TLS that says anything, after it has read a request."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.recv(65536)
                        speak(connection)

        threading.Thread(target=serve, daemon=True).start()
        internet.places[name, 80] = listener.getsockname()[1]
        yield
        listener.shutdown(socket.SHUT_RDWR)


def endless_headers(connection: socket.socket) -> None:
    connection.sendall(HEAD)
    while True:
        connection.sendall(b"X-More: " + b"m" * 1000 + b"\r\n")


def silent(connection: socket.socket) -> None:
    connection.recv(1)


def short(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\nabc")


def broken_chunks(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")


def no_http(connection: socket.socket) -> None:
    connection.sendall(b"220 mail ready\r\n" * 10)


def nothing(connection: socket.socket) -> None:
    del connection


def two_lengths(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde")


def stalled(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\nabc")
    connection.recv(1)


@pytest.mark.parametrize(
    "speak", [endless_headers, silent, short, broken_chunks, no_http, nothing, two_lengths, stalled]
)
def test_a_server_that_breaks_the_protocol_fails_its_request_alone(
    internet: Internet, tmp_path: Path, speak: Callable[[socket.socket], None]
) -> None:
    require_program("curl")
    internet.add("files.test", lambda request: (200, {}, b"well"))
    with (
        speaking(internet, "bad.test", speak),
        front(tmp_path, internet, RecordingMode.RECORD, silence_seconds=0.5) as recorded,
    ):
        assert recorded.curl("--fail", "http://bad.test/").returncode != 0
        assert len(recorded.missed) == 1
        assert recorded.missed[0].startswith("GET http://bad.test/: ")
        assert recorded.curl("https://files.test/").stdout == b"well"
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl("http://bad.test/", "--write-out", "%{http_code}").stdout.endswith(b"504")
    assert not [*(tmp_path / "recording" / "bodies").glob(".*")]


def test_more_than_the_recorder_may_write_breaks_the_download_off(internet: Internet, tmp_path: Path) -> None:
    require_program("curl")
    internet.add("files.test", lambda request: (200, {}, b"m" * int(request.path[1:])))
    with front(tmp_path, internet, RecordingMode.RECORD, RecordingLimits(new_bytes=500_000)) as recorded:
        assert recorded.curl("https://files.test/400000").returncode == 0
        assert recorded.curl("https://files.test/300000").returncode != 0
        assert recorded.missed == [
            "GET https://files.test/300000: not recorded: more than 500000 bytes were downloaded"
        ]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 this is no handshake",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-More: m\r\n" * 20_000,
        b"GET / HTTP/1.1\r\nHost: files.test\r\nHost: other.test\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: files.test\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: files.test\r\nContent-Length: 50\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: files.test\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"CONNECT other.test:443 HTTP/1.1\r\nHost: files.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: [files.test\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: files.test\r\n\r\n",
        b"",
    ],
)
def test_a_program_that_breaks_the_protocol_reaches_no_server(internet: Internet, tmp_path: Path, sent: bytes) -> None:
    site = internet.add("files.test", lambda request: (200, {}, b"well"), port=80)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        port = recorded.listen(("files.test", 80))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            with suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    received += piece
        assert not received.startswith(b"HTTP/1.1 2")
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.makefile("rb").read().endswith(b"well")
    assert [each.path for each in site.asked] == ["/"]


def test_requests_in_a_row_are_answered_in_order(internet: Internet, tmp_path: Path) -> None:
    internet.add("files.test", lambda request: (200, {}, request.path.encode() + request.body), port=80)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        port = recorded.listen(("files.test", 80))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            first = b"".join(b"GET /%d HTTP/1.1\r\nHost: files.test\r\n\r\n" % number for number in range(5))
            posted = (
                b"POST /p HTTP/1.1\r\nHost: files.test\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
            )
            last = b"GET /last HTTP/1.1\r\nHost: files.test\r\nConnection: close\r\n\r\n"
            connection.sendall(first + posted)
            file = connection.makefile("rb")
            for number in range(5):
                assert _body(file) == b"/%d" % number
            assert file.readline() == b"HTTP/1.1 100 \r\n"
            assert file.readline() == b"\r\n"
            connection.sendall(b"3\r\nabc\r\n0\r\n\r\n" + last)
            assert _body(file) == b"/pabc"
            assert _body(file) == b"/last"
            assert file.read() == b""


def _body(file: BinaryIO) -> bytes:
    length = 0
    while (line := file.readline()).strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return file.read(length)


def test_a_damaged_recording_is_not_taken_for_the_whole(internet: Internet, tmp_path: Path) -> None:
    require_program("curl")
    internet.add("files.test", lambda request: (200, {}, f"the text of {request.path}".encode()))
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        recorded.curl("https://files.test/a", "https://files.test/b", "https://files.test/c")
    for body in (each for each in (tmp_path / "recording" / "bodies").rglob("*") if each.is_file()):
        content = body.read_bytes()
        if content.endswith(b"a"):
            body.write_bytes(content.upper())
        if content.endswith(b"b"):
            body.write_bytes(content[:-3])
    for answer in (tmp_path / "recording" / "answers").rglob("*.json"):
        if "/c" in answer.read_text():
            answer.write_text("{}")
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl("https://files.test/a").returncode != 0
        for name in "bc":
            assert replayed.curl("--fail", f"https://files.test/{name}").returncode == 22
    with front(tmp_path, internet, RecordingMode.FILL) as filled:
        assert filled.curl("https://files.test/b").stdout == b"the text of /b"
        assert filled.curl("https://files.test/c").stdout == b"the text of /c"


def test_only_http_1_1_is_offered(internet: Internet, tmp_path: Path) -> None:
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        port = replayed.listen(("files.test", 443))
        context = ssl.create_default_context(cafile=replayed.certificates)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.set_alpn_protocols(["h2", "http/1.1"])
        with (
            socket.create_connection(("127.0.0.1", port)) as connection,
            context.wrap_socket(connection, server_hostname="files.test") as secured,
        ):
            assert secured.selected_alpn_protocol() == "http/1.1"


RECORDED = """
import asyncio, sys
from pathlib import Path
from typing import BinaryIO
from sandrl.runtime.recording.recording import Recording
from sandrl.runtime.recording.request import Request
recording = Recording(Path(sys.argv[1]))
recording.make()
number = 0
while True:
    number += 1
    request = Request("GET", "https", "files.test", 443, f"/{number % 50}", (("host", "files.test"),))
    body = recording.begin_body()
    content = b"m" * (number % 50) * 1000
    body.file.write(content)
    import hashlib
    recording.keep(request, body, hashlib.sha256(content).hexdigest(), 200, "OK", ())
    print(number, flush=True)
"""


def test_a_recorder_that_is_killed_leaves_whole_answers(internet: Internet, tmp_path: Path) -> None:
    require_program("curl")
    for lines in (1, 20, 75, 130):
        command = [sys.executable, "-c", RECORDED, str(tmp_path / "recording")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
        with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
            for number in range(1, min(lines, 49) + 1):
                assert replayed.curl(f"https://files.test/{number}").stdout == b"m" * number * 1000


def test_compressed_answers_are_kept_as_they_are(internet: Internet, tmp_path: Path) -> None:
    require_program("curl")
    packed = gzip.compress(b"plain" * 1000)
    internet.add("files.test", lambda request: (200, {"Content-Encoding": "gzip"}, packed))
    for mode in (RecordingMode.RECORD, RecordingMode.REPLAY):
        with front(tmp_path, internet, mode) as served:
            assert served.curl("--compressed", "https://files.test/").stdout == b"plain" * 1000
            assert served.curl("https://files.test/").stdout == packed
