"""The recorder: it serves the connections of sandboxes, from servers or from a recording.

A program's request for a part, or for what has changed, is sent to its server as one for the whole, which is kept; the
recorder itself gives the part. So one answer is kept for each request, regardless of what a program already has.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import h11
import httpcore

from sandrl.runtime.recording.channel import Channel
from sandrl.runtime.recording.client import Client, TooLargeError
from sandrl.runtime.recording.recording import Answer, Body, Recording, pieces
from sandrl.runtime.recording.request import Headers, Request, given_headers, is_unchanged, part_of
from sandrl.runtime.recording.servers import Connect, ServerOptions, Servers

if TYPE_CHECKING:
    from sandrl.runtime.recording.authority import Authority

_HANDSHAKE = 0x16
_FIRST_SECONDS = 60.0
_MOST_REQUEST_BYTES = 256 << 20
_MOST_TOLD = 1000
_REFUSED = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, httpcore.ProxyError)
# What a server says of the moment, not of the request.
_PASSING = frozenset({408, 425, 429})
_LAST = (("connection", "close"),)
_WITHOUT_BODY = frozenset({204, 304})


class RecordingMode(StrEnum):
    """What the recorder does with a request."""

    RECORD = "record"
    """Asks its server, and keeps the answer in place of an earlier one."""
    FILL = "fill"
    """Gives the kept answer, and records where there is none."""
    REPLAY = "replay"
    """Gives the kept answer, and asks no server."""


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """How much the recorder takes.

    Attributes:
        new_bytes: The bytes of all bodies that it writes.
        silence_seconds: How long a program may send or take nothing.
    """

    new_bytes: int = 64 << 30
    silence_seconds: float = 300.0


class Recorder:
    """Records or replays what sandboxes download; all of its methods are of one event loop.

    Args:
        recording: Where answers are kept.
        authority: Gives the certificates that sandboxes see.
        mode: What is done with a request.
        options: How servers are asked.
        tell: Called with each request that had no answer, `METHOD ADDRESS: REASON`, once, without credentials; for at
            most 1,000 of them.
    """

    def __init__(
        self,
        recording: Recording,
        authority: Authority,
        mode: RecordingMode,
        options: ServerOptions | None = None,
        limits: RecordingLimits | None = None,
        tell: Callable[[tuple[str, int], str], None] = lambda destination, what: None,
    ) -> None:
        self._recording = recording
        self._authority = authority
        self._mode = mode
        self._options = options or ServerOptions()
        self._tell_of = tell
        self._limits = limits or RecordingLimits()
        self._written = 0
        self._told: set[str] = set()

    @property
    def is_offline(self) -> bool:
        """Whether it needs no server."""
        return self._mode is RecordingMode.REPLAY

    async def serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        destination: tuple[str, int],
        connect: Connect,
    ) -> None:
        """Serves a connection of a sandbox until it ends; no error of a program or of a server is raised.

        Args:
            reader: What the program sends.
            writer: What it is sent; closed at the end.
            destination: The name or the address that it connected to, and the port.
            connect: Connects to it; errors other than `OSError` are raised.
        """
        channel = Channel(reader, writer)
        servers = Servers(connect, self._options)
        try:
            first = await channel.peek(_FIRST_SECONDS)
            is_secure = first[:1] == bytes([_HANDSHAKE])
            if is_secure:
                await channel.start_tls(self._authority.context(destination[0]), timeout=_FIRST_SECONDS)
            client = Client(channel, "https" if is_secure else "http", destination, self._limits.silence_seconds)
            try:
                while await self._exchange(client, servers):
                    pass
            finally:
                client.close_body()
            await channel.aclose()
        except (h11.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException, ValueError, OSError):
            # What the program has is not the whole: it must see that.
            channel.abort()
        except BaseException:
            channel.abort()
            raise
        finally:
            await servers.aclose()

    async def _exchange(self, client: Client, servers: Servers) -> bool:
        try:
            request = await client.request(_MOST_REQUEST_BYTES)
        except h11.RemoteProtocolError as error:
            if client.can_be_answered:
                await client.explain(error.error_status_hint, "sandrl: a recorder cannot read this request")
            return False
        except TooLargeError:
            await client.explain(413, f"sandrl: a recorder takes requests of up to {_MOST_REQUEST_BYTES} bytes")
            return False
        if request is None:
            return False
        if not _is_for_its_server(request):
            text = f"sandrl: a request for another server than {request.server} is not recorded"
            await client.explain(421, text, _LAST)
            return False
        await self._answer(client, request, servers)
        return True

    async def _answer(self, client: Client, request: Request, servers: Servers) -> None:
        if self._mode is not RecordingMode.RECORD:
            kept = self._recording.find(request)
            if kept is not None and await self._give_kept(client, request, kept):
                return
        if self.is_offline:
            why = f"not in the recording {self._recording.path}"
            self._tell(request, why)
            await client.explain(504, f"sandrl: {request.method} {request.url} is {why}; record it first")
            return
        try:
            response = await servers.ask(request, client.sent_body() if client.body is not None else None)
        except _REFUSED as error:
            # Of errors of the protocol, the text may repeat what was sent.
            why = "gave no valid answer" if isinstance(error, httpcore.ProtocolError) else f"does not answer: {error}"
            self._tell(request, f"{request.server} {why}")
            await client.explain(502, f"sandrl: {request.method} {request.url}: {request.server} {why}")
            return
        except Exception as error:
            # The caller's own reasons not to connect; it reports them.
            await client.explain(502, f"sandrl: {request.url}: {request.server} is not reached: {error}", _LAST)
            await client.channel.aclose()
            raise
        try:
            await self._record(client, request, response)
        finally:
            await response.aclose()

    async def _record(self, client: Client, request: Request, response: httpcore.Response) -> None:
        headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers)
        reason = bytes(response.extensions.get("reason_phrase", b"")).decode("latin-1")
        # A part, or that nothing has changed, can be said only of a whole answer.
        is_later = request.is_conditional and response.status == 200
        is_kept = response.status < 500 and response.status not in _PASSING
        if not is_later:
            await client.begin(response.status, reason, given_headers(headers))
        try:
            kept = None
            body = self._recording.begin_body()
            try:
                is_there, digest = await self._receive(response, body, None if is_later else client)
                if is_kept:
                    kept = self._recording.keep(request, body, digest, response.status, reason, headers)
            finally:
                self._recording.drop(body)
        except (*_REFUSED, OSError, ValueError) as error:
            self._tell(request, f"not recorded: {str(error) or type(error).__name__}")
            if not is_later:
                raise httpcore.WriteError("an answer that has begun cannot be given") from error
            await client.explain(502, f"sandrl: {request.method} {request.url} could not be recorded")
            return
        if not is_there:
            raise httpcore.WriteError("the program has gone")
        if not is_later:
            await client.end()
        elif kept is None or not await self._give_kept(client, request, kept):
            raise httpcore.WriteError("the recording has been removed")

    async def _receive(self, response: httpcore.Response, body: Body, client: Client | None) -> tuple[bool, str]:
        # A program may go when it has seen enough, for example `curl | head`; the answer is kept all the same.
        is_there, digest = True, hashlib.sha256()
        async for piece in response.aiter_stream():
            digest.update(piece)
            body.file.write(piece)
            self._written += len(piece)
            if self._written > self._limits.new_bytes:
                raise ValueError(f"more than {self._limits.new_bytes} bytes were downloaded")
            if client is not None and is_there:
                try:
                    await client.give(piece)
                except (httpcore.WriteError, httpcore.WriteTimeout):
                    is_there = False
        return is_there, digest.hexdigest()

    async def _give_kept(self, client: Client, request: Request, kept: Answer) -> bool:
        file = self._recording.open_body(kept)
        if file is None:
            return False
        with file:
            answer = _answer_to(request, kept)
            await client.begin(answer.status, kept.reason if answer.status == kept.status else "", answer.headers)
            for piece in pieces(file, answer.part, kept):
                await client.give(piece)
            await client.end()
        return True

    def _tell(self, request: Request, reason: str) -> None:
        what = f"{request.method} {request.url}: {reason}"
        if len(self._told) < _MOST_TOLD and what not in self._told:
            self._told.add(what)
            self._tell_of((request.server, request.port), what)


@dataclass(frozen=True, slots=True)
class _Given:
    status: int
    headers: Headers
    part: range


def _answer_to(request: Request, kept: Answer) -> _Given:
    nothing, headers = range(0), tuple(kept.headers)
    if kept.method == "HEAD" or kept.status in _WITHOUT_BODY:
        return _Given(kept.status, headers, nothing)
    headers = tuple(each for each in headers if each[0] != "content-length")
    whole = _Given(kept.status, (*headers, ("content-length", str(kept.size))), range(kept.size))
    if request.method not in ("GET", "HEAD") or kept.status != 200:
        return whole
    if is_unchanged(request, headers):
        return _Given(304, tuple(each for each in headers if not each[0].startswith("content-")), nothing)
    if request.method == "HEAD":
        return _Given(kept.status, whole.headers, nothing)
    part = part_of(request, headers, kept.size)
    if part is None:
        return whole
    if not part:
        return _Given(416, (("content-length", "0"), ("content-range", f"bytes */{kept.size}")), nothing)
    place = f"bytes {part.start}-{part.stop - 1}/{kept.size}"
    return _Given(206, (*headers, ("content-length", str(len(part))), ("content-range", place)), part)


def _is_for_its_server(request: Request) -> bool:
    host = request.header("host")
    if not request.target.startswith("/") and request.target != "*":
        return False
    with suppress(ValueError):
        ipaddress.ip_address(request.server)
        return True
    try:
        named = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return not host or named.rstrip(".") == request.server.lower().rstrip(".")
