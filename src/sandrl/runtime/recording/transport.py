"""Records what this process downloads itself, and replays it."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from typing import BinaryIO

import httpx

from sandrl.runtime.recording.recorder import RecordingMode
from sandrl.runtime.recording.recording import Answer, Recording, pieces
from sandrl.runtime.recording.request import DEFAULT_PORTS, Request

_PIECE_BYTES = 1 << 20


class RecordedTransport(httpx.BaseTransport):
    """Answers requests from a recording, or asks a client and records its answers once they were read whole.

    Raises:
        httpx.ConnectError: From a request that was not recorded and is to be replayed.
    """

    def __init__(self, recording: Recording, mode: RecordingMode, client: httpx.Client) -> None:
        self._recording = recording
        self._mode = mode
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        asked = _request_of(request)
        answer = None if self._mode is RecordingMode.RECORD else self._recording.find(asked)
        body = None if answer is None else self._recording.open_body(answer)
        if answer is not None and body is not None:
            return httpx.Response(answer.status, headers=answer.headers, stream=_Stream(_read(body, answer)))
        if self._mode is RecordingMode.REPLAY:
            raise httpx.ConnectError(f"it is not in the recording {self._recording.path}", request=request)
        response = self._client.send(request, stream=True)
        headers = tuple((name.lower(), value) for name, value in response.headers.multi_items())
        return httpx.Response(
            response.status_code, headers=response.headers, stream=_Stream(self._kept(asked, response, headers))
        )

    def _kept(self, asked: Request, response: httpx.Response, headers: tuple[tuple[str, str], ...]) -> Generator[bytes]:
        self._recording.make()
        body, digest = self._recording.begin_body(), hashlib.sha256()
        try:
            for piece in response.iter_raw(_PIECE_BYTES):
                body.file.write(piece)
                digest.update(piece)
                yield piece
            self._recording.keep(asked, body, digest.hexdigest(), response.status_code, response.reason_phrase, headers)
        finally:
            self._recording.drop(body)
            response.close()

    def close(self) -> None:
        self._client.close()


class _Stream(httpx.SyncByteStream):
    def __init__(self, blocks: Generator[bytes]) -> None:
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._blocks

    def close(self) -> None:
        self._blocks.close()


def _read(body: BinaryIO, answer: Answer) -> Generator[bytes]:
    with body:
        yield from pieces(body, range(answer.size), answer)


def _request_of(request: httpx.Request) -> Request:
    url = request.url
    return Request(
        method=request.method,
        scheme=url.scheme,
        server=url.host,
        port=url.port or DEFAULT_PORTS[url.scheme],
        target=url.raw_path.decode("ascii"),
        headers=tuple((name.lower(), value) for name, value in request.headers.multi_items()),
    )
