"""HTTP/1.1 with a bound on the heads of requests, which come before anything can ask for the token."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 << 10
"""How long the request line and the headers of a request may be together."""

HEAD_SECONDS = 60.0
"""How long a client may take to send them, once it has begun."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not get to the end of its headers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_in_head = True
        self._ended_messages = 0
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._ended_messages += 1

    def data_received(self, data: bytes) -> None:
        ended_messages = self._ended_messages
        super().data_received(data)
        # Data in which a message ended is that message's, but for what stands after it: less than is read at a time.
        if not self._is_in_head or self._ended_messages > ended_messages or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self.transport.close()
        elif self._timer is None and self._head_bytes:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def _end_head(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
