"""The replies to requests, from the first result to the last, and for some time after it.

A reply belongs to the service, not to the connection that it is sent on. A client that named its request loses nothing
when a connection breaks: a request with the same key continues the same reply. Without a key, or without a client that
returns, waiting work is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

from sandrl.events.results import ScoredCompletion
from sandrl.service.failures import Failure

KEPT_SECONDS = 600.0
"""How long the reply to a request with a key is kept after its end."""

GRACE_SECONDS = 60.0
"""How long the work for a request with a key continues without a client that waits for it."""

KEPT_BYTES = 256 << 20
_LONGEST_KEY = 200
_LOOK_SECONDS = 1.0
_BYTES_OF_RESULT, _BYTES_OF_CHECK = 600, 200


class Reply:
    """The results of one request, as they come.

    Attributes:
        bytes: About how much memory its results take.
        last_call: Gives it up after a while without a client.
    """

    def __init__(self, total: int) -> None:
        self.results: list[ScoredCompletion] = []
        self.total = total
        self.error: BaseException | None = None
        self.readers = 0
        self.ended_at: float | None = None
        self.bytes = 0
        self.last_call: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._give_up: Callable[[], None] = lambda: None

    @property
    def is_done(self) -> bool:
        return self.error is not None or len(self.results) >= self.total

    def owns(self, give_up: Callable[[], None]) -> None:
        self._give_up = give_up

    def add(self, result: ScoredCompletion) -> None:
        self.results.append(result)
        self.bytes += _BYTES_OF_RESULT + len(result.detail)
        self.bytes += sum(
            _BYTES_OF_CHECK + len(check.detail) + len(check.got or "") + len(check.expected or "")
            for check in result.checks
        )
        self._note_end()
        self._changed.set()

    def fail(self, error: BaseException) -> None:
        """Ends it with an error; one that is done stays as it is."""
        if not self.is_done:
            self.error = error
            self._note_end()
            self._changed.set()

    def _note_end(self) -> None:
        if self.is_done and self.ended_at is None:
            self.ended_at = time.monotonic()

    def give_up(self) -> None:
        """Gives up what has not begun, unless all is done."""
        if not self.is_done:
            self._give_up()
            self.fail(Failure(HTTPStatus.SERVICE_UNAVAILABLE, "the request was given up: its client disconnected"))

    async def read(self) -> AsyncIterator[ScoredCompletion]:
        """The results, each as soon as there is one.

        Raises:
            Exception: The error that ended it.
        """
        position = 0
        while True:
            while position < len(self.results):
                yield self.results[position]
                position += 1
            if self.error is not None:
                raise self.error
            if self.is_done:
                return
            self._changed.clear()
            await self._changed.wait()

    async def wait(self) -> list[ScoredCompletion]:
        """All results in the order of the request.

        Raises:
            Exception: The error that ended it.
        """
        async for _ in self.read():
            pass
        return sorted(self.results, key=lambda result: result.index)


class Replies:
    """Replies by the keys of their requests, for as long as a client may ask for one again."""

    def __init__(
        self,
        *,
        kept_seconds: float = KEPT_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._kept_seconds = kept_seconds
        self._grace_seconds = grace_seconds
        self._kept_bytes = kept_bytes
        self._replies: OrderedDict[str, tuple[bytes, Reply]] = OrderedDict()
        self._looked_at = 0.0

    def __len__(self) -> int:
        return len(self._replies)

    def find(self, key: str, digest: bytes) -> Reply | None:
        """The reply to an earlier request with this key and digest; None without one, or if it ended with an error.

        Raises:
            Failure: If the key is none, or was used for another request.
        """
        if not key or len(key) > _LONGEST_KEY or not key.isprintable():
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency-Key must be 1 to 200 printable characters")
        self._forget()
        known = self._replies.get(key)
        if known is None:
            return None
        if known[0] != digest:
            message = "this Idempotency-Key was used for another request"
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, message, "use a new key for each request")
        if known[1].error is not None:
            del self._replies[key]
            return None
        return known[1]

    def keep(self, key: str, digest: bytes, reply: Reply) -> None:
        self._replies[key] = digest, reply

    def join(self, reply: Reply) -> None:
        reply.readers += 1
        if reply.last_call is not None:
            reply.last_call.cancel()
            reply.last_call = None

    def leave(self, reply: Reply, *, has_key: bool) -> None:
        reply.readers -= 1
        if reply.readers or reply.is_done:
            return
        if has_key:
            reply.last_call = asyncio.get_running_loop().call_later(self._grace_seconds, reply.give_up)
        else:
            reply.give_up()

    def _forget(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < min(_LOOK_SECONDS, self._kept_seconds):
            return
        self._looked_at = now
        size = sum(reply.bytes for _, reply in self._replies.values())
        for key, (_, reply) in list(self._replies.items()):
            if reply.ended_at is None:
                continue
            if size > self._kept_bytes or now - reply.ended_at >= self._kept_seconds:
                size -= reply.bytes
                del self._replies[key]
