"""Bounds on the heads of requests, in whatever pieces the data of a connection arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from sandrl.service.protocol import MOST_HEAD_BYTES, BoundedProtocol

LONG_BODY = b"x" * (4 * MOST_HEAD_BYTES)


@dataclass
class Wire(asyncio.Transport):
    written: bytes = b""
    is_closed: bool = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


async def application(scope: Any, receive: Any, send: Any) -> None:
    length, message = 0, {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        length += len(message.get("body", b""))
    answer = str(length).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(answer)).encode())]}
    )
    await send({"type": "http.response.body", "body": answer})


def request(body: bytes, *headers: bytes) -> bytes:
    lines = [b"POST /v1/score HTTP/1.1", b"Host: service", f"Content-Length: {len(body)}".encode(), *headers, b"", body]
    return b"\r\n".join(lines)


def received(pieces: Iterable[bytes]) -> Wire:
    async def receive() -> Wire:
        wire, config = Wire(), Config(application, access_log=False)
        config.load()
        protocol = BoundedProtocol(config, ServerState(), {})
        protocol.connection_made(wire)
        for piece in pieces:
            protocol.data_received(piece)
            for _ in range(20):
                await asyncio.sleep(0)
        try:
            return replace(wire)
        finally:
            protocol.connection_lost(None)  # which closes what is open

    return asyncio.run(receive())


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


@pytest.mark.parametrize("size", [10 * MOST_HEAD_BYTES, MOST_HEAD_BYTES + 1, MOST_HEAD_BYTES, 5000])
def test_the_end_of_a_long_body_is_no_head(size: int) -> None:
    sent = request(LONG_BODY)
    wire = received(cut(sent, size) * 3)
    assert wire.written.count(b"200 OK") == 3
    assert wire.written.count(f"\r\n\r\n{len(LONG_BODY)}".encode()) == 3
    assert not wire.is_closed


@pytest.mark.parametrize("size", [5000, MOST_HEAD_BYTES // 2])
def test_a_head_that_does_not_end_closes_the_connection(size: int) -> None:
    endless = b"POST /v1/score HTTP/1.1\r\nX-Endless: " + b"x" * (2 * MOST_HEAD_BYTES)
    assert received(cut(endless, size)).is_closed


def test_a_second_head_that_does_not_end_closes_the_connection_too() -> None:
    endless = b"POST /v1/score HTTP/1.1\r\nX-Endless: " + b"x" * (2 * MOST_HEAD_BYTES)
    wire = received([request(LONG_BODY), *cut(endless, 5000)])
    assert wire.written.count(b"200 OK") == 1
    assert wire.is_closed
