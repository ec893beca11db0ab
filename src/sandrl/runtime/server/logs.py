"""The output of a sandbox's main program: kept up to a bound, streamed with follow, tail, since and resume.

A stream is a window over the log from some byte on, rendered (with or without timestamps). Its offsets count rendered
bytes from its own beginning, so a client that lost its connection names session and offset and resumes exactly there.
Clients only name offsets at which a frame ended, which a session remembers.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sandrl.runtime import limits

_REMEMBERED_FRAMES = 4096
_FRAME_BYTES = 1 << 16
_MERGED_BYTES, _MERGED_SECONDS = 1 << 14, 0.2
_REMEMBERED_SESSIONS = 64


@dataclass(frozen=True)
class Chunk:
    """Bytes as they arrived: absolute position of the first, and when, in seconds since the epoch."""

    start: int
    arrived: float
    data: bytes


@dataclass
class LogSession:
    """One window over a log: where in the log each frame ended, by its rendered offset."""

    session_id: str
    timestamps: bool
    positions: OrderedDict[int, tuple[int, bool]] = field(default_factory=OrderedDict)

    def remember(self, offset: int, position: int, at_line_start: bool) -> None:
        self.positions[offset] = (position, at_line_start)
        if len(self.positions) > _REMEMBERED_FRAMES:
            self.positions.popitem(last=False)


class Log:
    """What one main program wrote, in order, standard output and error together."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._end = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._sessions: OrderedDict[str, LogSession] = OrderedDict()

    def append(self, data: bytes) -> None:
        """Add output, forgetting the oldest beyond the bound."""
        now = time.time()
        last = self._chunks[-1] if self._chunks else None
        if last is not None and len(last.data) + len(data) <= _MERGED_BYTES and now - last.arrived < _MERGED_SECONDS:
            # A program that writes byte by byte must not cost an object per byte.
            self._chunks[-1] = Chunk(last.start, last.arrived, last.data + data)
        else:
            self._chunks.append(Chunk(self._end, now, data))
        self._end += len(data)
        while self._chunks and self._end - self._chunks[0].start - len(self._chunks[0].data) > limits.LOG_MAX_BYTES:
            self._chunks.popleft()
        self._notify()

    @property
    def kept_bytes(self) -> int:
        return self._end - self._chunks[0].start if self._chunks else 0

    def forget(self) -> None:
        self._chunks.clear()

    def close(self) -> None:
        self._closed = True
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def open_session(
        self, *, timestamps: bool = False, tail_lines: int | None = None, since: float | None = None
    ) -> LogSession:
        """A window over the last lines, what came since a time, or everything kept."""
        session = LogSession(uuid.uuid4().hex, timestamps)
        session.remember(0, self._position_of(tail_lines, since), True)
        self._sessions[session.session_id] = session
        if len(self._sessions) > _REMEMBERED_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def find_session(self, session_id: str) -> LogSession | None:
        """A window opened earlier, if it is still known."""
        return self._sessions.get(session_id)

    def _position_of(self, tail_lines: int | None, since: float | None) -> int:
        start = self._chunks[0].start if self._chunks else self._end
        if since is not None:
            start = next((chunk.start for chunk in self._chunks if chunk.arrived >= since), self._end)
        if tail_lines is not None:
            start = max(start, self._tail_position(tail_lines))
        return start

    def _tail_position(self, lines: int) -> int:
        if lines <= 0:
            return self._end
        kept = b"".join(chunk.data for chunk in self._chunks)
        position = len(kept)
        if kept.endswith(b"\n"):
            position -= 1
        for _ in range(lines):
            position = kept.rfind(b"\n", 0, max(position, 0))
            if position < 0:
                break
        return self._end - len(kept) + position + 1

    async def stream(
        self, session: LogSession, offset: int = 0, *, follow: bool = False
    ) -> AsyncIterator[tuple[bytes, float, int]]:
        """Rendered frames of a window from an offset on at which a frame ended.

        Yields:
            Data, when it arrived, and the offset after it.
        """
        position, at_line_start = session.positions[offset]
        while True:
            changed = self._changed
            for chunk in [chunk for chunk in self._chunks if chunk.start + len(chunk.data) > position]:
                begin = max(position - chunk.start, 0)
                while begin < len(chunk.data):
                    piece = chunk.data[begin : begin + _FRAME_BYTES]
                    begin += len(piece)
                    position = chunk.start + begin
                    rendered = _with_timestamps(piece, chunk.arrived, at_line_start) if session.timestamps else piece
                    at_line_start = piece.endswith(b"\n")
                    offset += len(rendered)
                    session.remember(offset, position, at_line_start)
                    yield rendered, chunk.arrived, offset
            if position >= self._end:
                if self._closed or not follow:
                    return
                await changed.wait()


def _with_timestamps(data: bytes, arrived: float, at_line_start: bool) -> bytes:
    stamp = datetime.fromtimestamp(arrived, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ ").encode()
    lines = data.split(b"\n")
    ends_line = lines[-1] == b""
    if ends_line:
        lines.pop()
    rendered = [line if index == 0 and not at_line_start else stamp + line for index, line in enumerate(lines)]
    return b"\n".join(rendered) + (b"\n" if ends_line else b"")
