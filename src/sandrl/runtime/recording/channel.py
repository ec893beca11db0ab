"""A connection, with TLS or without, as the recorder and the HTTP client of the recorder use it.

TLS runs over buffers in memory, so it can begin after bytes have arrived, on any pair of asyncio's streams.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import httpcore

_PIECE = 64 << 10
_CLOSING_SECONDS = 10.0

_Result = TypeVar("_Result")


class Channel(httpcore.AsyncNetworkStream):
    """A connection over streams of asyncio, used by one task at a time; errors are those of httpcore."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ahead = b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None

    async def peek(self, timeout: float | None = None) -> bytes:
        """The first bytes that the peer sends, which stay to be read; none if it sends nothing."""
        with _translated(httpcore.ReadTimeout, httpcore.ReadError):
            async with asyncio.timeout(timeout):
                self._ahead = self._ahead or await self._reader.read(_PIECE)
        return self._ahead

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Up to some bytes; none at the end."""
        with _translated(httpcore.ReadTimeout, httpcore.ReadError):
            async with asyncio.timeout(timeout):
                if self._tls is None:
                    return await self._received(max_bytes)
                return await self._through(self._tls, lambda tls: tls.read(max_bytes), b"")

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Sends all, and waits until the peer has taken nearly all."""
        with _translated(httpcore.WriteTimeout, httpcore.WriteError):
            async with asyncio.timeout(timeout):
                if self._tls is None:
                    self._writer.write(buffer)
                    await self._writer.drain()
                    return
                for start in range(0, len(buffer), _PIECE):
                    piece = buffer[start : start + _PIECE]
                    await self._through(self._tls, lambda tls, piece=piece: tls.write(piece), 0)  # type: ignore[misc]

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Channel:
        """Begins TLS; without the name of a server, as the server."""
        is_server = server_hostname is None
        try:
            with _translated(httpcore.ConnectTimeout, httpcore.ConnectError):
                async with asyncio.timeout(timeout):
                    tls = ssl_context.wrap_bio(self._incoming, self._outgoing, is_server, server_hostname)
                    self._incoming.write(self._ahead)
                    self._ahead = b""
                    await self._through(tls, lambda tls: tls.do_handshake(), None)
        except BaseException:
            self.abort()
            raise
        self._tls = tls
        return self

    async def aclose(self) -> None:
        """Ends it, after all that was sent."""
        if self._tls is not None:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            if rest := self._outgoing.read():
                self._writer.write(rest)
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                await self._writer.wait_closed()
        except OSError:
            self.abort()

    def abort(self) -> None:
        """Ends it at once, so that the peer cannot take what it has for the whole."""
        self._writer.transport.abort()

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks: the object of TLS, and whether an idle connection has ended."""
        if info == "ssl_object":
            return self._tls
        return info == "is_readable" and (self._reader.at_eof() or self._writer.is_closing())

    async def _received(self, most_bytes: int) -> bytes:
        if not self._ahead:
            return await self._reader.read(most_bytes)
        data, self._ahead = self._ahead[:most_bytes], self._ahead[most_bytes:]
        return data

    async def _through(self, tls: ssl.SSLObject, step: Callable[[ssl.SSLObject], _Result], end: _Result) -> _Result:
        while True:
            try:
                result = step(tls)
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._received(_PIECE)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
                continue
            except ssl.SSLZeroReturnError:
                return end
            except ssl.SSLError:
                # The alert that tells the peer why.
                await self._flush()
                raise
            await self._flush()
            return result

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            self._writer.write(data)
            await self._writer.drain()


@contextmanager
def _translated(timeout: type[Exception], failure: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise timeout("it did not answer in time") from error
    except ssl.SSLCertVerificationError as error:
        raise failure(f"its certificate is not trusted: {error.verify_message}") from error
    except OSError as error:
        raise failure(error.strerror or str(error)) from error
