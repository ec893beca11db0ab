"""The streams of a program in a pod: channels of one WebSocket (`v5.channel.k8s.io`, or `v4` of older servers)."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from sandrl.errors import InfrastructureError
from sandrl.extras import require
from sandrl.sandboxes.providers.kubernetes.cluster import one_line

_V5 = "v5.channel.k8s.io"

_INPUT, _OUTPUT, _ERRORS, _STATUS, _SIZE = range(5)
_CLOSE = 255
_BLOCK_BYTES = 1 << 15
_EXIT_SECONDS = 5.0
_PING_SECONDS, _PONG_SECONDS = 20.0, 10.0
# Of a connection that is quiet: when it is tried, how long apart, and how often.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class PodStream:
    """The connection of a program in a pod."""

    def __init__(self, connection: Any) -> None:
        self._library = require("websocket", extra="kubernetes")
        self._connection = connection
        self._connection.settimeout(None)
        self._socket: socket.socket = connection.sock
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
        self._status: Future[dict[str, Any]] = Future()
        self._is_closed = threading.Event()
        self._was_heard = threading.Event()

    @property
    def closes_input(self) -> bool:
        """Whether its protocol can say that the input has ended."""
        return bool(self._connection.getheaders().get("sec-websocket-protocol") == _V5)

    def set_size(self, rows: int, columns: int) -> None:
        self._send(_SIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def receive(self, pass_on: Callable[[int, bytes], None]) -> None:
        threading.Thread(target=self._ping, name="sandrl-ping", daemon=True).start()
        while frame := self._frame():
            channel, block = frame[0], frame[1:]
            if channel in (_OUTPUT, _ERRORS) and block:
                pass_on(channel - _OUTPUT, block)
            elif channel == _STATUS and block and not self._status.done():
                try:
                    self._status.set_result(json.loads(block))
                except ValueError:
                    return
                # It comes last, and then the server closes.
                self._connection.settimeout(1.0)

    def _frame(self) -> bytes:
        # The content of the next message; empty at the end of the connection.
        library = self._library
        while True:
            try:
                kind, content = self._connection.recv_data(control_frame=True)
            except (OSError, library.WebSocketException):
                return b""
            self._was_heard.set()
            if kind == library.ABNF.OPCODE_CLOSE:
                return b""
            if kind in (library.ABNF.OPCODE_BINARY, library.ABNF.OPCODE_TEXT) and content:
                return bytes(content)

    def _ping(self) -> None:
        # What lies between cuts connections that are quiet.
        with suppress(OSError, self._library.WebSocketException):
            while not self._is_closed.wait(_PING_SECONDS):
                self._connection.ping()

    def is_alive(self) -> bool:
        self._was_heard.clear()
        with suppress(OSError, self._library.WebSocketException):
            self._connection.ping()
        return self._was_heard.wait(_PONG_SECONDS)

    def send(self, block: bytes) -> None:
        for start in range(0, len(block), _BLOCK_BYTES):
            self._send(_INPUT, block[start : start + _BLOCK_BYTES])

    def close_input(self) -> None:
        self._send(_CLOSE, bytes([_INPUT]))

    def _send(self, channel: int, block: bytes) -> None:
        try:
            self._connection.send_binary(bytes([channel]) + block)
        except self._library.WebSocketException as error:
            raise OSError(str(error)) from error

    def drop_output(self) -> None:
        pass  # it is read until the status comes

    def interrupt(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def exit_code(self) -> int | None:
        try:
            return exit_code_of(self._status.result(_EXIT_SECONDS))
        except TimeoutError:
            return None

    def close(self) -> None:
        self._is_closed.set()
        with suppress(Exception):  # it was cut
            self._connection.close(timeout=1)
        self._socket.close()


def exit_code_of(status: dict[str, Any]) -> int:
    """The exit code that a status of the server tells.

    Raises:
        InfrastructureError: If it tells none.
    """
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
                return int(cause["message"])
    raise InfrastructureError(f"the cluster does not run the program: {one_line(status.get('message', 'no reason'))}")
