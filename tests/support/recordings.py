"""A front that leads programs to a recorder, and servers on loopback that it asks by the names of the internet."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme

from sandrl.runtime.recording.authority import open_authority
from sandrl.runtime.recording.recorder import Recorder, RecordingLimits, RecordingMode
from sandrl.runtime.recording.recording import Recording
from sandrl.runtime.recording.servers import ServerOptions

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Site:
    """A server of one name: what it answers, what it was asked, and where it is."""

    answers: Callable[[Request], Answer]
    asked: list[Request] = field(default_factory=list)
    port: int = 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        del request, client_address  # programs that end their connections are no faults of a test


@dataclass(frozen=True)
class Request:
    """What a server was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Internet:
    """Servers by name and port; closed at the end of the test."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self._servers: list[ThreadingHTTPServer] = []
        self._others: list[Path] = []
        self.places: dict[tuple[str, int], int] = {}

    def add(self, name: str, answers: Callable[[Request], Answer], *, port: int = 443) -> Site:
        """Serves a name over TLS, or at another port than 443 without."""
        site = Site(answers)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, body)
                site.asked.append(request)
                status, about, content = site.answers(request)
                self.send_response(status)
                for header, value in ({"Content-Length": str(len(content))} | about).items():
                    if value:
                        self.send_header(header, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = do_OPTIONS = _serve  # noqa: N815

            def log_message(self, *words: object) -> None:
                del words

        server = _Server(("127.0.0.1", 0), Handler)
        if port == 443:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.authority.issue_cert(name).configure_cert(context)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._servers.append(server)
        site.port = server.server_port
        self.places[name, port] = site.port
        return site

    async def connect(self, name: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens a connection to a server of this internet."""
        if (name, port) not in self.places:
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_connection("127.0.0.1", self.places[name, port])

    def trust(self, certificates: Path) -> None:
        """Lets recorders also trust the certificates of a file."""
        self._others.append(certificates)

    def trusted(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        for each in self._others:
            context.load_verify_locations(each)
        return context

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


@dataclass(frozen=True)
class Front:
    """A proxy that leads every connection to a recorder.

    Attributes:
        address: Of the proxy; it serves CONNECT only.
        certificates: The file that programs must trust.
    """

    recorder: Recorder
    address: str
    certificates: Path
    loop: asyncio.AbstractEventLoop
    listeners: list[asyncio.Server]
    missed: list[str]
    internet: Internet

    def curl(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Runs curl with this front."""
        command = ["curl", "-q", "--silent", "--show-error", "--max-time", "60", "--noproxy", ""]
        command += ["--proxytunnel", "--proxy", self.address, "--cacert", str(self.certificates)]
        return subprocess.run([*command, *words], capture_output=True, check=False, env={"PATH": os.environ["PATH"]})

    def listen(self, destination: tuple[str, int]) -> int:
        """A port that leads to the recorder without a proxy, as if to a destination."""

        async def listen() -> int:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with suppress(asyncio.CancelledError):
                    await self.recorder.serve(reader, writer, destination, lambda: self.internet.connect(*destination))

            self.listeners.append(server := await asyncio.start_server(serve, "127.0.0.1", 0))
            return int(server.sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(listen(), self.loop).result(10)


@contextmanager
def front(
    directory: Path, internet: Internet, mode: RecordingMode, limits: RecordingLimits | None = None, **options: object
) -> Iterator[Front]:
    """Records into, or replays from, `recording` in a directory."""
    authority = open_authority(directory / "state")
    certificates = directory / "certificates.pem"
    directory.mkdir(exist_ok=True)
    certificates.write_bytes(authority.certificate)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> Front:
        asked = ServerOptions(internet.trusted(), **options)  # type: ignore[arg-type]
        missed: list[str] = []
        recording = Recording(directory / "recording")
        recording.make()
        recorder = Recorder(recording, authority, mode, asked, limits, lambda destination, what: missed.append(what))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            words = (await reader.readuntil(b"\r\n\r\n")).split()
            name, _, port = words[1].decode().rpartition(":")
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            with suppress(asyncio.CancelledError):
                destination = name.strip("[]"), int(port)
                await recorder.serve(reader, writer, destination, lambda: internet.connect(*destination))

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return Front(recorder, address, certificates, loop, [server], missed, internet)

    async def stop(made: Front) -> None:
        for listener in made.listeners:
            listener.close()
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        made = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        try:
            yield made
        finally:
            asyncio.run_coroutine_threadsafe(stop(made), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
