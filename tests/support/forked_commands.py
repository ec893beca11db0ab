"""Runs `sandrl` without starting an interpreter: each command is a fork of a process that has imported what it needs.

Imports are most of the time of a short command, and the tests run hundreds. A forked command is a process of its own,
with its own words, environment, directory, streams and exit code, and ends as an interpreter does; only its modules are
loaded already. What depends on the start of the interpreter (signals, limits, closed streams, terminals, variables that
Python reads itself) is tested with commands that are started.

`python -m tests.support.forked_commands DESCRIPTOR` is that process. It runs one command at a time.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

_ROOT = Path(__file__).parents[2]
_LARGEST_REQUEST = 1 << 17
# What commands import, at once or when they run.
_PRELOADED = (
    *("cwsandbox", "grpc.aio", "openai", "rich.console", "rich.markdown", "rich.table"),
    *("sandrl.cli.entry", "sandrl.cli.app", "sandrl.cli.results", "sandrl.cli.sandboxes.table", "sandrl.cli.scores"),
    *("sandrl.evaluation", "sandrl.rewards.scored_run", "sandrl.rollouts", "sandrl.runs", "sandrl.sandboxes.listing"),
    *("sandrl.sandboxes.providers.local", "sandrl.sandboxes.session"),
)
_READ_BY_PYTHON = ("PYTHON", "LC_", "LANG")


class ForkedCommands:
    """A process that `sandrl` commands are forked from; use it in a `with` block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._variables = _read_by_python(os.environ)
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                # Python finds out at its start what its streams can do: pipes, as a command's are.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=_ROOT,
                pass_fds=[theirs.fileno()],
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._server:
            self._connection.close()

    def _answer(self) -> int:
        answer = self._connection.recv(64)
        if not answer:
            raise RuntimeError(f"the process that forks commands ended:\n{self._server.communicate()[1]}")
        return int(answer)

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Tells whether Python itself would start in this environment as it did in the server's."""
        return _read_by_python(environment) == self._variables

    def run(
        self,
        words: Sequence[str],
        *,
        stdin: str | None,
        directory: Path,
        environment: Mapping[str, str],
        timeout_seconds: float,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to the end of its output.

        What it reads is nothing unless given; after the timeout it is killed.

        Raises:
            subprocess.TimeoutExpired: If it, or what it started with its output, did not end in time.
        """
        request = json.dumps({"words": list(words), "directory": str(directory), "environment": dict(environment)})
        with self._lock:
            (its_stdin, stdin_end), (stdout_end, its_stdout), (stderr_end, its_stderr) = os.pipe(), os.pipe(), os.pipe()
            its_ends = [its_stdin, its_stdout, its_stderr]
            socket.send_fds(self._connection, [request.encode()], its_ends)
            for descriptor in its_ends:
                os.close(descriptor)
            pid = self._answer()
            deadline = time.monotonic() + timeout_seconds
            try:
                out, err = _exchange((stdin_end, stdout_end, stderr_end), (stdin or "").encode(), deadline)
                self._connection.settimeout(max(deadline - time.monotonic(), 0.001))
                code = self._answer()
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._connection.settimeout(None)
                self._answer()
                raise subprocess.TimeoutExpired(["sandrl", *words], timeout_seconds) from None
            self._connection.settimeout(None)
        return subprocess.CompletedProcess(["sandrl", *words], code, _text(out), _text(err))


def _read_by_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_BY_PYTHON)}


def _text(output: bytes) -> str:
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")


def _exchange(ends: Sequence[int], given: bytes, deadline: float) -> tuple[bytes, bytes]:
    stdin, *outputs = ends
    read = {descriptor: bytearray() for descriptor in outputs}
    os.set_blocking(stdin, False)
    open_ends = set(ends)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_WRITE)
            for descriptor in outputs:
                selector.register(descriptor, selectors.EVENT_READ)
            while open_ends:
                ready = selector.select(deadline - time.monotonic())
                if time.monotonic() >= deadline:
                    raise TimeoutError
                for key, _ in ready:
                    if key.fd == stdin:
                        try:
                            given = given[os.write(stdin, given) :] if given else b""
                        except BrokenPipeError:
                            given = b""
                        is_over = not given
                    else:
                        block = os.read(key.fd, 1 << 16)
                        read[key.fd] += block
                        is_over = not block
                    if is_over:
                        selector.unregister(key.fd)
                        open_ends.remove(key.fd)
                        os.close(key.fd)
    finally:
        for descriptor in open_ends:
            os.close(descriptor)
    first, second = (bytes(read[descriptor]) for descriptor in outputs)
    return first, second


def _serve(connection: socket.socket) -> int:
    # As sandrl sets it before it loads gRPC.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    for name in _PRELOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 3)
        if not request:
            return 0
        pid = os.fork()
        if pid == 0:
            connection.close()
            return _run(json.loads(request), streams)
        for descriptor in streams:
            os.close(descriptor)
        connection.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(request: Mapping[str, Any], streams: Sequence[int]) -> int:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    # As `python -m sandrl` sets them.
    sys.path[0] = request["directory"]
    sys.argv = [str(_ROOT / "src" / "sandrl" / "__main__.py"), *request["words"]]
    return int(importlib.import_module("sandrl.cli.entry").main())


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _connection:
        _code = _serve(_connection)
    sys.exit(_code)
