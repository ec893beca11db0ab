"""The gate as the daemon sees it: started for the first sandbox with network, and again if it has ended."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandrl.runtime import libraries
from sandrl.runtime.guest import wire
from sandrl.runtime.host.channel import AgentChannel, discard
from sandrl.runtime.network import Network

logger = logging.getLogger(__name__)

MOST_CONNECTIONS_KEPT = 2000
_SOURCE_ROOT = Path(__file__).resolve().parents[3]
_BUFFER_BYTES = 1 << 20


class GateError(Exception):
    """The gate cannot be started, or does not take a sandbox."""


class Passage:
    """What a gate does for one sandbox.

    Attributes:
        connections: What it has told of connections that have ended, the newest last; more than these are forgotten.
    """

    def __init__(self) -> None:
        self.connections: deque[dict[str, Any]] = deque(maxlen=MOST_CONNECTIONS_KEPT)
        self.total = 0

    def add(self, connection: dict[str, Any]) -> None:
        self.total += 1
        self.connections.append(connection)


class Gate:
    """Starts the process on use; a process that ends takes the network of its sandboxes with it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._channel: AgentChannel | None = None
        self._passages: dict[int, Passage] = {}
        self._next_id = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def open(self, network: Network, sockets: Sequence[int]) -> int:
        """Let the gate serve the sockets of a sandbox; the caller keeps its own descriptors of them.

        Returns:
            A number for `close` and `passage`.

        Raises:
            GateError: If that fails.
        """
        self._next_id += 1
        message = {"op": "open", "id": self._next_id, "network": network.document()}
        try:
            if self._channel is None:
                self._start()
            assert self._socket is not None, "it was started"
            wire.send(self._socket, message, sockets)
        except OSError as error:
            self._kill()
            raise GateError(f"the gate to the network: {error.strerror or error}") from error
        self._passages[self._next_id] = Passage()
        return self._next_id

    def passage(self, number: int) -> Passage:
        return self._passages[number]

    def close(self, number: int) -> None:
        """End every connection of a sandbox."""
        if self._passages.pop(number, None) is not None and self._channel is not None:
            self._channel.send({"op": "close", "id": number})

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
        self._socket = ours
        self._channel = AgentChannel(ours, self._note, self._on_end)

    def _note(self, message: wire.Message, descriptors: list[int]) -> None:
        discard(descriptors)
        passage = self._passages.get(message["id"])
        if passage is not None:
            passage.add(message["connection"])

    def _on_end(self) -> None:
        self._channel = self._socket = None
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        asyncio.get_running_loop().run_in_executor(None, process.wait)
        if self._passages:
            logger.error("the gate ended: %d sandboxes have no network any more", len(self._passages))
        for passage in self._passages.values():
            passage.add({"host": "", "port": 0, "error": "the gate ended, and with it the network of this sandbox"})

    def _kill(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def end(self) -> None:
        self._passages.clear()
        self._kill()
