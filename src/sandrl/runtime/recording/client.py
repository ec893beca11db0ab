"""The side of the recorder that a program in a sandbox speaks to: a server of HTTP/1.1 on one connection."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterable
from typing import IO

import h11

from sandrl.runtime.recording.channel import Channel
from sandrl.runtime.recording.request import Headers, Request

_MOST_HEADER_BYTES = 64 << 10
_IN_MEMORY_BYTES = 1 << 20
_PIECE = 64 << 10


class TooLargeError(Exception):
    """The body of a request is larger than the recorder takes."""


class Client:
    """A program's connection, on which it sends one request after the other.

    Args:
        scheme: `http` or `https`.
        destination: The name or address that it connected to, and the port.
        silence_seconds: How long it may send or take nothing.
    """

    def __init__(self, channel: Channel, scheme: str, destination: tuple[str, int], silence_seconds: float) -> None:
        self.channel = channel
        self.body: IO[bytes] | None = None
        self._scheme = scheme
        self._destination = destination
        self._seconds = silence_seconds
        self._method = ""
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEADER_BYTES)

    async def request(self, most_body_bytes: int) -> Request | None:
        """The next request, whose body is in `body`; None at the end.

        Raises:
            h11.RemoteProtocolError: If it is no request.
            TooLargeError: If its body is too large; it can be answered.
            httpcore.NetworkError, httpcore.TimeoutException: If the connection ends in it, or is silent.
        """
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        event = await self._event()
        if not isinstance(event, h11.Request):
            return None
        server, port = self._destination
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        target = event.target.decode("latin-1")
        self._method = event.method.decode("latin-1")
        if self._http.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        digest = await self._read_body(most_body_bytes)
        if self.body is not None:
            headers = tuple(each for each in headers if each[0] not in ("content-length", "transfer-encoding"))
            headers = (*headers, ("content-length", str(self.body.tell())))
        return Request(self._method, self._scheme, server, port, target, headers, digest)

    async def _read_body(self, most_bytes: int) -> str:
        self.close_body()
        digest, size = hashlib.sha256(), 0
        while isinstance(event := await self._event(), h11.Data):
            if self.body is None:
                self.body = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115
            size += len(event.data)
            if size > most_bytes:
                raise TooLargeError
            digest.update(event.data)
            self.body.write(event.data)
        return digest.hexdigest() if self.body is not None else ""

    def close_body(self) -> None:
        """Drops the body of the last request."""
        if self.body is not None:
            self.body.close()
        self.body = None

    async def sent_body(self) -> AsyncIterator[bytes]:
        """The body of the request, piece by piece."""
        if self.body is not None:
            self.body.seek(0)
            while piece := self.body.read(_PIECE):
                yield piece

    async def begin(self, status: int, reason: str, headers: Headers) -> None:
        """Begins the answer."""
        await self._send(h11.Response(status_code=status, reason=reason.encode("latin-1"), headers=_encoded(headers)))

    async def give(self, piece: bytes) -> None:
        """Gives a piece of the answer's body."""
        await self._send(h11.Data(data=piece))

    async def end(self) -> None:
        """Ends the answer.

        Raises:
            h11.LocalProtocolError: If it is shorter than it said.
        """
        await self._send(h11.EndOfMessage())

    async def explain(self, status: int, text: str, headers: Headers = ()) -> None:
        """Gives an answer of the recorder's own."""
        content = f"{text}\n".encode()
        about = (("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(content))))
        await self.begin(status, "", (*about, *headers))
        if self._method != "HEAD":
            await self.give(content)
        await self.end()

    @property
    def can_be_answered(self) -> bool:
        """Whether the request has no answer yet."""
        return self._http.our_state in (h11.SEND_RESPONSE, h11.IDLE)

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self.channel.read(_PIECE, self._seconds))
        return event

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self.channel.write(data, self._seconds)


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
