"""The daemon's end of the socket to one sandbox's agent, on asyncio."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections.abc import Callable

from sandrl.runtime.guest import wire

logger = logging.getLogger(__name__)

OnMessage = Callable[[wire.Message, list[int]], None]


class AgentChannel:
    """Sends requests to an agent, and hands over each of its messages with its descriptors. It owns its socket."""

    def __init__(self, sock: socket.socket, on_message: OnMessage, on_close: Callable[[], None]) -> None:
        self._socket = sock
        self._socket.setblocking(False)
        self._frames = wire.FrameReader(sock, wire.MAX_ANSWER_BYTES)
        self._on_message = on_message
        self._on_close = on_close
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._loop.add_reader(sock.fileno(), self._receive)

    @property
    def is_open(self) -> bool:
        """Whether the agent can still be told anything; never again once it is gone."""
        return self._open

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def send(self, message: wire.Message) -> None:
        """Queue one message; small ones leave at once. Without an agent, it is dropped."""
        if not self._open:
            return
        data = wire.encode(message)
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.close()
                return
            data = data[sent:]
        if data:
            self._unsent += data
            self._loop.add_writer(self._socket.fileno(), self._flush)

    def _flush(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        try:
            for message, descriptors in self._frames.receive():
                self._on_message(message, descriptors)
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - only our agent speaks here; whatever else does gets no second chance
            logger.warning("a sandbox's agent broke the protocol: %r", error)
            self.close()
            return
        if self._frames.closed:
            self.close()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        descriptor = self._socket.fileno()
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._socket.close()
        discard(self._frames.unclaimed())
        self._on_close()


def are_streams(descriptors: list[int]) -> bool:
    """Whether descriptors from a sandbox are what an agent hands over: ends of pipes, and terminals."""
    modes = [os.fstat(descriptor).st_mode for descriptor in descriptors]
    return all(stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) for mode in modes)


def discard(descriptors: list[int]) -> None:
    """Close descriptors that nobody will use.

    Not here: closing a socket may take as long as the sandbox it came from likes.
    """
    loop = asyncio.get_running_loop()
    for descriptor in descriptors:
        loop.run_in_executor(None, os.close, descriptor)
