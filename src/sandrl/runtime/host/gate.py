"""The gate as the daemon sees it: started for the first sandbox with network, and again if it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from sandrl.runtime import libraries
from sandrl.runtime.guest import wire
from sandrl.runtime.host.channel import AgentChannel, discard
from sandrl.runtime.limits import CONNECTIONS_TOLD, HOSTS, OTHER_HOSTS
from sandrl.runtime.network import Network

logger = logging.getLogger(__name__)

_MOST_KEPT, _MOST_KEPT_OF_ENDED = 5_000, 200_000
"""Records of one sandbox, of which the oldest are dropped first, and of all sandboxes that have ended."""
_CLOSE_SECONDS = 2.0
_SOURCE_ROOT = Path(__file__).resolve().parents[3]
_BUFFER_BYTES = 1 << 20


class GateError(Exception):
    """The gate cannot be started, or does not take a sandbox."""


@dataclass(eq=False)
class Passage:
    """The gate's work for one sandbox.

    Attributes:
        sandbox_id: Names it in the records of connections; empty before anybody knows the sandbox.
        closed: Set once all of its connections have ended and are recorded.
        records: Those of its connections, each with its number among those of all sandboxes.
        dropped: The number of the last record that is not kept any more.
        reached: Where its programs have been connected to, as `HOST:PORT`, with the number of the last time.
    """

    number: int
    sandbox_id: str = ""
    tags: frozenset[str] = frozenset()
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    records: deque[tuple[int, dict[str, Any]]] = field(default_factory=deque)
    dropped: int = 0
    reached: dict[str, int] = field(default_factory=dict)


class Gate:
    """Starts the process on use; a process that ends takes the network of its sandboxes with it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: AgentChannel | None = None
        self._passages: dict[int, Passage] = {}
        self._ended: deque[Passage] = deque()
        self._last = self._next_id = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def open(self, network: Network, sockets: Sequence[int]) -> Passage:
        """Let the gate serve the sockets of a sandbox; the caller keeps its own descriptors of them.

        Raises:
            GateError: If that fails.
        """
        self._next_id += 1
        message = {"op": "open", "id": self._next_id, "network": network.document()}
        try:
            if self._channel is None:
                self._start()
        except OSError as error:
            self._kill()
            raise GateError(f"the gate to the network: {error.strerror or error}") from error
        assert self._channel is not None, "it was started"
        passage = self._passages[self._next_id] = Passage(self._next_id)
        self._channel.send(message, sockets)
        if passage.closed.is_set():
            raise GateError("the gate to the network has ended")
        return passage

    async def close(self, passage: Passage) -> None:
        """End every connection of a sandbox, and wait until they are recorded."""
        if passage.number in self._passages and self._channel is not None:
            self._channel.send({"op": "close", "id": passage.number})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(passage.closed.wait(), _CLOSE_SECONDS)
        self._end(passage)

    def _end(self, passage: Passage) -> None:
        if self._passages.pop(passage.number, None) is None:
            return
        self._ended.append(passage)
        kept = sum(map(_size, self._ended))
        while kept > _MOST_KEPT_OF_ENDED:
            kept -= _size(self._ended.popleft())

    def connections(self, tags: Collection[str], after: int = 0) -> tuple[list[dict[str, Any]], int]:
        """The connections of sandboxes that have all of these tags, the oldest first.

        Args:
            after: The number that an earlier call has returned; only later connections are meant.

        Returns:
            Each as JSON, with its sandbox, at most `CONNECTIONS_TOLD`; and a number for the next call.
        """
        wanted = frozenset(tags)
        found = []
        for passage in (*self._ended, *self._passages.values()):
            if not passage.sandbox_id or not wanted <= passage.tags:
                continue
            found += [(number, passage, record) for number, record in passage.records if number > after]
            if passage.dropped > after:
                found.append((passage.dropped, passage, _event("older records of its connections are not kept")))
        found.sort(key=itemgetter(0))
        last = found[CONNECTIONS_TOLD - 1][0] if len(found) > CONNECTIONS_TOLD else self._last
        return [{"sandbox_id": passage.sandbox_id, **record} for _, passage, record in found[:CONNECTIONS_TOLD]], last

    def reached(self, sandbox_id: str, after: int = 0) -> tuple[list[str], int] | None:
        """Where programs of a sandbox have been connected to, as `HOST:PORT`, once it was.

        Args:
            after: The number that an earlier call has returned; only later connections are meant.

        Returns:
            Names where the programs have asked for them, else addresses; and a number for the next call. None if the
            gate does not know the sandbox.
        """
        for passage in (*self._passages.values(), *reversed(self._ended)):
            if passage.sandbox_id == sandbox_id:
                return [host for host, number in passage.reached.items() if number > after], self._last
        return None

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        environment = {"PATH": os.defpath, "PYTHONPATH": str(_SOURCE_ROOT), **libraries.start_environment()}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sandrl.runtime.gate"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
        self._channel = AgentChannel(ours, self._note, self._on_end)

    def _note(self, message: wire.Message, descriptors: list[int]) -> None:
        discard(descriptors)
        passage = self._passages.get(message["id"])
        if passage is None:
            return
        if "connection" in message:
            self._add(passage, message["connection"])
        elif "reached" in message:
            self._add_reached(passage, *message["reached"])
        else:
            passage.closed.set()

    def _add(self, passage: Passage, connection: dict[str, Any]) -> None:
        self._last += 1
        passage.records.append((self._last, connection))
        if len(passage.records) > _MOST_KEPT:
            passage.dropped, _ = passage.records.popleft()

    def _add_reached(self, passage: Passage, host: str, port: int) -> None:
        self._last += 1
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if name not in passage.reached and len(passage.reached) >= HOSTS:
            name = OTHER_HOSTS
        passage.reached[name] = self._last

    def _on_end(self) -> None:
        self._channel = None
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        asyncio.get_running_loop().run_in_executor(None, process.wait)
        if self._passages:
            logger.error("the gate ended: %d sandboxes have no network any more", len(self._passages))
        for passage in [*self._passages.values()]:
            self._add(passage, _event("the gate ended, and with it the network of this sandbox"))
            passage.closed.set()
            self._end(passage)

    def _kill(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def end(self) -> None:
        self._passages.clear()
        self._kill()


def _size(passage: Passage) -> int:
    return len(passage.records) + len(passage.reached) + 1


def _event(error: str) -> dict[str, Any]:
    """A record of no connection, but of what befell the network of a sandbox."""
    return {"host": "", "port": 0, "time": time.time(), "refused": "", "error": error}
