"""The daemon's end of the socket to one sandbox's agent, on asyncio."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
from collections import deque
from collections.abc import Callable, Sequence

from sandrl.runtime.guest import wire

logger = logging.getLogger(__name__)

OnMessage = Callable[[wire.Message, list[int]], None]


class AgentChannel:
    """Sends requests to an agent, and hands over each of its messages with its descriptors. It owns its socket."""

    def __init__(
        self,
        sock: socket.socket,
        on_message: OnMessage,
        on_close: Callable[[], None],
        most_bytes: int = wire.MAX_ANSWER_BYTES,
    ) -> None:
        self._socket = sock
        self._socket.setblocking(False)
        self._frames = wire.FrameReader(sock, most_bytes)
        self._on_message = on_message
        self._on_close = on_close
        # What waits for room, each with descriptors of its own that go with its first byte.
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self.unsent_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._open = True
        self._loop.add_reader(sock.fileno(), self._receive)

    @property
    def is_open(self) -> bool:
        """Whether the agent can still be told anything; never again once it is gone."""
        return self._open

    def send(self, message: wire.Message, descriptors: Sequence[int] = ()) -> None:
        """Queue one message; small ones leave at once. Without an agent, it is dropped.

        The caller keeps its descriptors.
        """
        if not self._open:
            return
        data = wire.encode(message, len(descriptors))
        self._unsent.append((data, [os.dup(each) for each in descriptors]))
        self.unsent_bytes += len(data)
        if len(self._unsent) == 1:
            self._flush()
            if self._unsent:
                self._loop.add_writer(self._socket.fileno(), self._flush)

    def _flush(self) -> None:
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                sent = wire.send_with_descriptors(self._socket, data, descriptors)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            self.unsent_bytes -= sent
            for each in descriptors:
                os.close(each)
            if sent < len(data):
                self._unsent[0] = data[sent:], []
            else:
                self._unsent.popleft()
        self._loop.remove_writer(self._socket.fileno())

    def _receive(self) -> None:
        try:
            for message, descriptors in self._frames.receive():
                self._on_message(message, descriptors)
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - only our agent speaks here; whatever else does gets no second chance
            logger.warning("an agent or the gate broke the protocol: %r", error)
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
        discard([*self._frames.unclaimed(), *(each for _, own in self._unsent for each in own)])
        self._unsent.clear()
        self.unsent_bytes = 0
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
