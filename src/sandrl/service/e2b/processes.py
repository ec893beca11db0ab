"""The processes of E2B's sandboxes: programs with streams, which outlive the request that began them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from sandrl.deadlines import in_background
from sandrl.errors import SandrlError
from sandrl.sandboxes.providers.protocol import AttachedProgram, Output
from sandrl.service.e2b.connect import RpcError
from sandrl.service.e2b.sandboxes import LONGEST_SECONDS, VARIABLE, E2BSandbox, words
from sandrl.service.state import Outbox
from sandrl.trials import guest
from sandrl.trials.place import RuntimeLost

_PROCESS = r"""IFS= read -r sandrl_words && eval "$sandrl_words" || exit 126
printf '%d\n' $$
unset sandrl_words sandrl_line sandrl_paths
exec "$@" """
# A line of a terminal holds 4,096 bytes, and some of its characters are keys.
_TERMINAL = r"""sandrl_words=$(cat "$0/words"); rm -rf -- "$0"; eval "$sandrl_words" || exit 126
printf '%d\n' $$
unset sandrl_words sandrl_line sandrl_paths
exec "$@" """
_SIGNAL = r'kill "-$1" "-$2" 2>/dev/null || kill "-$1" "$2"'
_SIZE = r'stty rows "$2" cols "$3" <"/proc/$1/fd/0"'
_SIGNALS = {"SIGNAL_SIGKILL": "KILL", "SIGNAL_SIGTERM": "TERM", 9: "KILL", 15: "TERM"}

MOST_BYTES = 64 << 20
"""How much memory the output of a process takes that a client does not read; a process that writes more is killed."""

_START_SECONDS = 60.0
_SIGNAL_SECONDS = 3.0
_TOO_MUCH = f"a client has left more than {MOST_BYTES >> 20} MiB of its output unread"
_LONGEST_NUMBER = re.compile(r"\s*(\d{1,10})\r?\n")
_BLOCK_BYTES, _BLOCK_COST, _MOST_READERS = 64 << 10, 1 << 10, 16


class Reader:
    """A client that reads the output of a process.

    Attributes:
        cost: Memory of what it has not read yet, in bytes.
    """

    def __init__(self) -> None:
        self.cost = 0
        self._blocks: deque[tuple[str, bytearray]] = deque()
        self._end: Mapping[str, Any] | None = None
        self._has_more = asyncio.Event()

    def put(self, name: str, block: bytes) -> None:
        """Adds output; what follows in the same stream becomes one event."""
        if self._blocks and self._blocks[-1][0] == name and len(self._blocks[-1][1]) < _BLOCK_BYTES:
            self._blocks[-1][1].extend(block)
            self.cost += len(block)
        else:
            self._blocks.append((name, bytearray(block)))
            self.cost += len(block) + _BLOCK_COST
        self._has_more.set()

    def end(self, end: Mapping[str, Any]) -> None:
        """Adds the last event, unless there is one."""
        self._end = self._end or end
        self._has_more.set()

    async def next(self) -> dict[str, Any]:
        """The next event; without output, that of the end."""
        await self._has_more.wait()
        if not self._blocks:
            assert self._end is not None, "it has more"
            return dict(self._end)
        name, block = self._blocks.popleft()
        self.cost -= len(block) + _BLOCK_COST
        if not self._blocks and self._end is None:
            self._has_more.clear()
        return {"event": {"data": {name: base64.b64encode(block).decode()}}}


class Process:
    """A process of a sandbox.

    Attributes:
        config: As the client has named it: `cmd`, `args`, `envs` and `cwd`.
        pid: Its process id in the sandbox; 0 until it is known.
        end: The event of its end; None while it runs.
    """

    def __init__(self, sandbox: E2BSandbox, config: Mapping[str, Any], tag: str | None, *, is_terminal: bool) -> None:
        self.config = config
        self.tag = tag
        self.pid = 0
        self.end: dict[str, Any] | None = None
        self.is_terminal = is_terminal
        self._sandbox = sandbox
        self._readers: set[Reader] = set()
        self._outbox = Outbox(self._tell)
        self._head = bytearray()
        self._lock = threading.Lock()
        self._coming = 0
        self._is_killed = self._is_abandoned = False
        self._user: str | None = None
        self._has_pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._program: AttachedProgram | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._killing: asyncio.Future[None] | None = None

    async def start(
        self, argv: list[str], variables: Mapping[str, str], directory: str | None, *, user: str | None, size: Any
    ) -> None:
        """Starts it, and waits until its process id is known.

        Raises:
            RpcError: If it cannot be started.
        """
        self._sandbox.check()
        machine, self._user = self._sandbox.machine, user
        becoming, own = await self._sandbox.becoming(user)
        line = words(argv, {**own, **self._sandbox.variables, **variables}, directory)
        if b"\0" in line:
            raise RpcError("invalid_argument", "a word of the command has a NUL byte")
        command = (*becoming, *machine.program(_PROCESS))
        if self.is_terminal:
            made = await self._sandbox.run(guest.TERMINAL, user=user, stdin=line)
            if made.exit_code:
                raise RpcError("internal", f"the terminal cannot begin: {made.stderr[-200:].decode(errors='replace')}")
            command = (*becoming, *machine.program(_TERMINAL, made.stdout.decode(errors="replace")))

        def begin() -> AttachedProgram:
            if self.is_terminal:
                columns, rows = size
                program = machine.sandbox.open_terminal(
                    command, columns=columns, rows=rows, output=lambda block: self._take("pty", block)
                )
            else:
                program = machine.sandbox.attach(
                    command,
                    stdin=True,
                    stdout=Output(lambda block: self._take("stdout", block)),
                    stderr=Output(lambda block: self._take("stderr", block)),
                    timeout_seconds=float(LONGEST_SECONDS),
                )
            program.ended.add_done_callback(lambda _: in_background(lambda: self._finish(program)))
            if not self.is_terminal:
                program.write(line)
            self._program = program
            if self._is_abandoned:
                program.cancel()
            return program

        try:
            await asyncio.wrap_future(in_background(begin))
            async with asyncio.timeout(_START_SECONDS):
                self.pid = await self._has_pid
        except BaseException as error:
            # A client that has left, too, leaves no program that nobody knows.
            self._is_abandoned = True
            self._cancel()
            if isinstance(error, SandrlError | RuntimeLost):
                raise self._sandbox.lost(error) from error
            if isinstance(error, TimeoutError):
                raise RpcError("internal", "the process did not start") from error
            raise
        if self.end is None:
            self._sandbox.processes[self.pid] = self

    # On threads of the provider.

    def _take(self, name: str, block: bytes) -> None:
        with self._lock:
            self._coming += len(block) + _BLOCK_COST
        if self._coming + sum(each.cost for each in tuple(self._readers)) > MOST_BYTES:
            raise BrokenPipeError
        self._outbox.put((name, block))

    def _finish(self, program: AttachedProgram) -> None:
        try:
            code = program.finish()
        except BrokenPipeError:
            self._outbox.put(("lost", ("resource_exhausted", f"the process was killed: {_TOO_MUCH}")))
        except (SandrlError, RuntimeLost) as error:
            if self._is_killed:
                self._outbox.put(("end", None))
            else:
                lost = self._sandbox.lost(error)
                self._outbox.put(("lost", (lost.code, lost.message)))
        else:
            self._outbox.put(("end", code))

    # On the thread of the loop.

    def _tell(self, value: tuple[str, Any]) -> None:
        name, content = value
        if name == "lost":
            self._over({"lost": content})
        elif name == "end":
            code = 137 if content is None else content
            self._over({"event": {"end": _end(code)}})
        else:
            with self._lock:
                self._coming -= len(content) + _BLOCK_COST
            if rest := self._after_pid(name, content):
                for reader in self._readers:
                    reader.put(name, rest)

    def _after_pid(self, name: str, block: bytes) -> bytes:
        # The first line of the output is the process id.
        if self._has_pid.done() or name == "stderr":
            return block
        self._head += block
        found = _LONGEST_NUMBER.match(bytes(self._head).decode("latin-1"))
        if found is None:
            return b""
        rest = bytes(self._head[found.end() :])
        self._has_pid.set_result(int(found[1]))
        self._head.clear()
        return rest

    def _over(self, end: dict[str, Any]) -> None:
        self.end = end
        if self._timer is not None:
            self._timer.cancel()
        self._sandbox.processes.pop(self.pid, None)
        if not self._has_pid.done():
            # Its first words have failed: the directory is not there, or a program of the image.
            self._has_pid.set_result(0)
        for reader in self._readers:
            reader.end(end)

    def end_after(self, seconds: float) -> None:
        """Kills it after so many seconds."""

        def kill() -> None:
            self._killing = asyncio.ensure_future(self._timed_out())

        self._timer = asyncio.get_running_loop().call_later(seconds, kill)

    async def _timed_out(self) -> None:
        for reader in self._readers:
            reader.end({"late": True})
        with suppress(RpcError):
            # It has ended with its sandbox.
            await self.signal("KILL")

    def subscribe(self) -> Reader:
        """From here on its events are kept for a reader, who must call `events`.

        Raises:
            RpcError: If it has many readers already.
        """
        if len(self._readers) >= _MOST_READERS:
            raise RpcError("resource_exhausted", f"the process has {_MOST_READERS} readers already")
        reader = Reader()
        self._readers.add(reader)
        return reader

    async def events(self, reader: Reader, ping_seconds: float | None) -> AsyncIterator[dict[str, Any]]:
        """The events of the process to its end.

        Raises:
            RpcError: If it was lost with its sandbox, or its time is over.
        """
        try:
            yield {"event": {"start": {"pid": self.pid}}}
            if self.end is not None:
                reader.end(self.end)
            while True:
                try:
                    event = await asyncio.wait_for(reader.next(), ping_seconds)
                except TimeoutError:
                    yield {"event": {"keepalive": {}}}
                    continue
                if "late" in event:
                    raise RpcError("deadline_exceeded", "the time limit of the command is over")
                if "lost" in event:
                    raise RpcError(*event["lost"])
                yield event
                if "end" in event["event"]:
                    return
        finally:
            self._readers.discard(reader)

    def write(self, content: bytes) -> Future[None]:
        """Writes to its standard input, or its terminal."""
        program = self._program

        def write() -> None:
            if program is not None:
                program.write(content)

        return in_background(write)

    def close_input(self) -> Future[None]:
        program = self._program
        return in_background(lambda: None if program is None else program.close_input())

    async def signal(self, name: str) -> None:
        """Sends a signal to it and the processes of its group, as its user; the runtime itself kills it."""
        is_kill = name == "KILL"
        try:
            async with asyncio.timeout(_SIGNAL_SECONDS if is_kill else None):
                await self._sandbox.run(_SIGNAL, name, str(self.pid), user=self._user)
        except (RpcError, TimeoutError):
            # There may be no room for another process.
            if not is_kill:
                raise
        finally:
            if is_kill:
                self._is_killed = True
                self._cancel()

    def _cancel(self) -> None:
        program = self._program
        if program is not None and self.end is None:
            in_background(program.cancel)

    async def resize(self, columns: int, rows: int) -> None:
        await self._sandbox.run(_SIZE, str(self.pid), str(rows), str(columns), user=self._user)


def _end(code: int) -> dict[str, Any]:
    end: dict[str, Any] = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
    return end if code == 0 else {**end, "error": f"exit status {code}"}


async def start(
    sandbox: E2BSandbox, body: Mapping[str, Any], user: str | None, seconds: float | None
) -> tuple[Process, Reader]:
    """Starts a process, which is killed after these seconds unless they are None.

    Raises:
        RpcError: If the request is damaged, or it cannot be started.
    """
    config = body.get("process")
    if not isinstance(config, dict) or not isinstance(config.get("cmd"), str) or not config["cmd"]:
        raise RpcError("invalid_argument", "process.cmd: must be a text")
    arguments, variables = config.get("args") or [], config.get("envs") or {}
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise RpcError("invalid_argument", "process.args: must be texts")
    if not isinstance(variables, dict) or not all(
        isinstance(value, str) and VARIABLE.fullmatch(name) for name, value in variables.items()
    ):
        raise RpcError("invalid_argument", "process.envs: must be texts by the names of variables")
    size = _size(body["pty"]) if body.get("pty") else None
    process = Process(sandbox, config, body.get("tag"), is_terminal=size is not None)
    reader = process.subscribe()
    cwd = config.get("cwd") or None
    await process.start([config["cmd"], *arguments], variables, cwd, user=user, size=size)
    if process.pid == 0 and process.end is not None and "event" in process.end:
        raise RpcError("invalid_argument", f"the process did not start: is the directory {cwd!r} there?")
    if seconds is not None:
        process.end_after(seconds)
    if body.get("stdin") is False and not process.is_terminal:
        # Nobody waits for it: a client that leaves here has no reader left behind.
        process.close_input()
    return process, reader


def find(sandbox: E2BSandbox, selector: Any) -> Process:
    """The process that a client names by its process id or its tag.

    Raises:
        RpcError: If there is none.
    """
    given = selector if isinstance(selector, dict) else {}
    found = (each for each in sandbox.processes.values() if given.get("pid") == each.pid)
    if given.get("tag") is not None:
        found = (each for each in sandbox.processes.values() if each.tag == given["tag"])
    process = next(found, None)
    if process is None:
        raise RpcError("not_found", f"there is no process {given.get('pid', given.get('tag'))!r:.60}")
    return process


def signal_of(value: Any) -> str:
    name = _SIGNALS.get(value) if isinstance(value, str | int) else None
    if name is None:
        raise RpcError("invalid_argument", f"there is no signal {value!r:.60}")
    return name


def input_of(value: Any) -> bytes:
    """What is written to a process, of `stdin` or `pty`."""
    given = value if isinstance(value, dict) else {}
    text = given.get("stdin", given.get("pty", ""))
    try:
        return base64.b64decode(text if isinstance(text, str) else "-", validate=True)
    except (binascii.Error, ValueError):
        raise RpcError("invalid_argument", "input: must be base64") from None


def _size(value: Any) -> tuple[int, int]:
    size = value.get("size") if isinstance(value, dict) else None
    found = (size.get("cols", 80), size.get("rows", 24)) if isinstance(size, dict) else (80, 24)
    if not all(isinstance(each, int) and 0 < each < 10_000 for each in found):
        raise RpcError("invalid_argument", "pty.size: must be numbers from 1 to 9999")
    return found


def resized(value: Any) -> tuple[int, int]:
    """The size of a terminal that a client wants, in columns and rows."""
    return _size(value)
