"""Framed JSON messages with file descriptors, over a Unix stream socket.

A frame is a 5-byte header (payload length, number of descriptors) and a JSON object. Descriptors ride on the
first byte of their frame; the kernel may hand over the bytes of several frames at once, so they are matched to
frames by count, in order.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

_HEADER = struct.Struct("!IB")
_READ_BYTES = 1 << 16
_MAX_DESCRIPTORS = 8
_ANCILLARY_BYTES = socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS * 4)
MAX_FRAME_BYTES = 16 << 20
"""Longest request to an agent; a program's arguments and environment are less than 2 MiB, and JSON has six for one."""
MAX_ANSWER_BYTES = 64 << 10
"""Longest answer of an agent."""

Message = dict[str, Any]


class ProtocolError(Exception):
    """The other side sent something that is not a frame."""


def encode(message: Message, descriptor_count: int = 0) -> bytes:
    payload = json.dumps(message, separators=(",", ":")).encode()
    return _HEADER.pack(len(payload), descriptor_count) + payload


def send(sock: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    data = encode(message, len(descriptors))
    sent = send_with_descriptors(sock, data, descriptors)
    if sent < len(data):
        sock.sendall(data[sent:])


def send_with_descriptors(sock: socket.socket, data: bytes, descriptors: Sequence[int]) -> int:
    """sendmsg(2) of bytes and descriptors.

    Returns:
        How many bytes were taken; the descriptors went with the first of them.
    """
    if not descriptors:
        return sock.send(data)
    rights = array.array("i", descriptors)
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


class FrameReader:
    """Collects the frames that arrive on one socket."""

    def __init__(self, sock: socket.socket, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._socket = sock
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._descriptors: list[int] = []
        self.closed = False

    def receive(self) -> Iterator[tuple[Message, list[int]]]:
        """Read what is there (once) and yield the complete frames, each with its descriptors.

        Sets `closed` at end of file. The caller owns the descriptors.

        Raises:
            BlockingIOError: On a non-blocking socket with nothing to read.
            ProtocolError: If a frame is longer than any real one.
        """
        try:
            data, ancillary, flags, _address = self._socket.recvmsg(
                _READ_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            data, ancillary, flags = b"", [], 0
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                rights = array.array("i")
                rights.frombytes(payload[: len(payload) - len(payload) % rights.itemsize])
                self._descriptors.extend(rights)
        if flags & socket.MSG_CTRUNC or len(self._descriptors) > _MAX_DESCRIPTORS:
            raise ProtocolError("more descriptors than any frame has")
        if not data:
            self.closed = True
            return
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            length, count = _HEADER.unpack_from(self._buffer)
            if length > self._max_frame_bytes or count > _MAX_DESCRIPTORS:
                raise ProtocolError(f"frame of {length} bytes")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            message = json.loads(bytes(self._buffer[_HEADER.size : end]))
            del self._buffer[:end]
            if len(self._descriptors) < count:
                raise ProtocolError("descriptors are missing")
            descriptors, self._descriptors = self._descriptors[:count], self._descriptors[count:]
            yield message, descriptors

    def unclaimed(self) -> list[int]:
        """Descriptors that arrived without their frame; the caller owns them from here on."""
        descriptors, self._descriptors = self._descriptors, []
        return descriptors
