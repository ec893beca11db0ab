"""Sandboxes in which another system starts programs: their commands, files and terminals, over streams.

A provider says how a sandbox is made and removed, and how one program is launched in it. Everything else is the same:
a program has a variable of its own, by which it is killed with all that it has started, and a sandbox whose programs
resist is removed.
"""

from __future__ import annotations

import errno
import os
import secrets
import signal
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

from sandrl.deadlines import TookTooLong, answer_within, in_background
from sandrl.errors import InfrastructureError, NodeLostError, NotRunningError, SandrlError, UnknownSandboxError
from sandrl.runtime import limits
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.protocol import Output, Result, Sandbox, SandboxInfo

KILLED = 128 + signal.SIGKILL

_END_SECONDS = 20.0
_TOKEN = "SANDRL_COMMAND"
# Its processes are known by a variable, until none is left; what hides its own ends with the sandbox.
_KILL = """
n=0; while [ $n -lt 20 ]; do n=$((n+1)); left=
for each in /proc/[0-9]*; do case "$(cat $each/environ 2>/dev/null | tr '\\0' ' ')" in
*"$1"*) kill -9 "${each#/proc/}" 2>/dev/null && left=1;; esac; done
[ "$left" ] || exit 0; done; exit 1
"""
_FAILURES = {61: errno.ENOENT, 62: errno.EISDIR, 63: errno.EACCES, 64: errno.EFBIG, 65: errno.EIO}
_READ = '[ -e "$1" ] || exit 61; [ -d "$1" ] && exit 62; [ -r "$1" ] || exit 63; exec cat -- "$1"'
_WRITE = (
    '[ -d "$1" ] && exit 62; [ -d "$(dirname -- "$1")" ] || exit 61;'
    ' [ -w "$1" ] || { [ ! -e "$1" ] && [ -w "$(dirname -- "$1")" ]; } || exit 63; cat > "$1" || exit 65'
)


class Stream(Protocol):
    """The streams of a program that another system has started."""

    def receive(self, pass_on: Callable[[int, bytes], None]) -> None:
        """Passes on blocks of output 0 or 1 until there are no more; an `OSError` ends it, too."""

    def send(self, block: bytes) -> None:
        """Sends input; fails with an `OSError`."""

    def close_input(self) -> None:
        """Ends the input; fails with an `OSError`."""

    def drop_output(self) -> None:
        """Nobody reads the output any more."""

    def interrupt(self) -> None:
        """Ends `receive`."""

    def is_alive(self) -> bool:
        """Whether the system still answers at this connection."""

    def exit_code(self) -> int | None:
        """The exit code of the program; None if it still runs after a while.

        Raises:
            ServiceError: If the system does not know it.
        """

    def close(self) -> None:
        """Gives the connection back."""


class HostedSandbox(ABC):
    """A sandbox that is made on its first use, or one that was found.

    Attributes:
        info: What is known of it here; its system may forget one that has ended.
        name: Its id, also as long as it does not exist.
    """

    def __init__(self, info: SandboxInfo) -> None:
        self.info = info
        self.name = info.id or str(uuid.uuid4())
        self._lock = threading.Lock()
        self._creation: Future[None] | None = None

    @property
    def id(self) -> str | None:
        return self.info.id or None

    @property
    def started_at(self) -> datetime | None:
        return self.info.started_at

    def start(self) -> Future[None]:
        return in_background(self.create)

    def create(self) -> None:
        """Waits until it exists.

        Raises:
            ServiceError: If it could not be made; the next call tries again.
            UsageError: If its system refuses what was asked for.
        """
        if self.info.has_ended:
            raise InfrastructureError(f"sandbox {self.name} has ended")
        if self.info.id:
            return
        with self._lock:
            if self._creation is None or (self._creation.done() and self._creation.exception() is not None):
                self._creation = in_background(self._create)
            creation = self._creation
        creation.result()

    @abstractmethod
    def _create(self) -> None:
        """Makes it, by its name, and notes that it runs."""

    @abstractmethod
    def remove(self) -> bool:
        """Begins to end it; whether there was one."""

    @abstractmethod
    def is_there(self) -> bool:
        """Whether its system has it."""

    @abstractmethod
    def is_running(self) -> bool:
        """Whether its system has it and runs it."""

    @abstractmethod
    def launch(
        self, argv: Sequence[str], *, variables: Mapping[str, str], has_input: bool, size: tuple[int, int] | None
    ) -> Stream:
        """Starts a program in it.

        Args:
            size: Rows and columns of a terminal; None without one.

        Raises:
            ServiceError: If that failed.
        """

    @abstractmethod
    def exit_code_of(self, argv: Sequence[str]) -> int | None:
        """Runs a short program of sandrl in it to its end; None if its system does not know its exit code."""

    def confirm(self, code: int | None) -> int | None:
        """Makes sure that an exit code is that of the program, and not of a sandbox that was ended.

        Raises:
            ServiceError: If it is not.
        """
        # Whoever kills a sandbox kills its programs, too: only one that runs can start another.
        if (code is None or code == KILLED) and self.exit_code_of(("true",)) != 0:
            raise InfrastructureError(f"sandbox {self.name} runs no program")
        return code

    def note_start(self) -> None:
        """Remembers that it runs."""
        now = datetime.now(UTC)
        self.info = replace(self.info, id=self.name, status="running", created_at=now, started_at=now)

    def give_up(self) -> None:
        """Takes it for ended, because it is not running any more."""
        self.note_end()

    def note_end(self) -> None:
        """Remembers that it has ended."""
        self.info = replace(self.info, status="terminated", ended_at=datetime.now(UTC))

    def run(self, command: Command) -> Future[Result]:
        most = command.most_output_bytes
        collected = bytearray(), bytearray()

        def take(into: bytearray) -> Callable[[bytes], None]:
            def write(block: bytes) -> None:
                into.extend(block)
                if most is not None and sum(map(len, collected)) > most:
                    raise BrokenPipeError

            return write

        outcome: Future[Result] = Future()
        outputs = [Output(take(each)) for each in collected]
        program = HostedProgram(self, command.argv, outputs, command.timeout_seconds, given=command)

        def end(_: Future[None]) -> None:
            with suppress(InvalidStateError):  # cancelled
                try:
                    code = program.finish()
                except BrokenPipeError:
                    outcome.set_result(Result(128 + signal.SIGPIPE))
                except Exception as error:  # noqa: BLE001 - it is raised where the result is waited for
                    outcome.set_exception(_blaming(error))
                else:
                    outcome.set_result(Result(None) if code is None else Result(code, *map(bytes, collected)))

        outcome.add_done_callback(lambda each: program.cancel() if each.cancelled() else None)
        program.begin().add_done_callback(end)
        return outcome

    def attach(
        self, argv: Sequence[str], *, stdin: bool, stdout: Output, stderr: Output, timeout_seconds: float
    ) -> HostedProgram:
        program = HostedProgram(self, argv, [stdout, stderr], timeout_seconds, has_input=stdin)
        program.begin()
        return program

    def open_terminal(
        self, argv: Sequence[str], *, columns: int, rows: int, output: Callable[[bytes], None]
    ) -> HostedProgram:
        lifetime = self.info.max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS
        program = HostedProgram(self, argv, [Output(output)], lifetime, has_input=True, size=(rows, columns))
        program.begin()
        return program

    def read_file(self, path: str) -> Future[bytes]:
        return self._with_file(path, _READ, b"", lambda result: result.stdout)

    def write_file(self, path: str, content: bytes) -> Future[None]:
        return self._with_file(path, _WRITE, content, lambda _: None)

    def _with_file(self, path: str, script: str, content: bytes, value: Callable[[Result], Any]) -> Future[Any]:
        argv = ("sh", "-c", script, "sandrl", path)
        command = Command(argv, content, limits.COPY_TIMEOUT_SECONDS, most_output_bytes=limits.FILE_OPERATION_MAX_BYTES)

        def work() -> Any:
            result = self.run(command).result()
            if result.exit_code == 0:
                return value(result)
            code = 64 if result.exit_code == 128 + signal.SIGPIPE else result.exit_code
            number = _FAILURES.get(code or 0, errno.EIO)
            raise OSError(number, os.strerror(number), path)

        return in_background(work)

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        # Its main program prints nothing.
        return iter(())

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        def work() -> None:
            if self._creation is not None:
                self._creation.exception()
            if self.info.has_ended:
                return
            is_there = self.id is not None and self.remove()
            if not (is_there or missing_ok):
                raise UnknownSandboxError(self.name)
            if self.id is not None:
                self.await_end()

        return in_background(work)

    def await_end(self) -> None:
        """Waits until its system has forgotten it.

        Raises:
            InfrastructureError: If it is still there after a while.
        """
        ends_at = time.monotonic() + _END_SECONDS
        while self.is_there():
            if time.monotonic() > ends_at:
                raise InfrastructureError(f"sandbox {self.name} was not removed")
            time.sleep(0.05)
        self.note_end()


class HostedClient(ABC):
    """Lists, finds and ends the sandboxes of one system, those too that it forgets as soon as they have ended.

    Attributes:
        lists_ended: Whether those that have ended are shown as its system lists them.
    """

    lists_ended: ClassVar[bool] = False

    def __init__(self) -> None:
        self._own: list[HostedSandbox] = []

    @abstractmethod
    def _listed(self, tags: Sequence[str]) -> Sequence[HostedSandbox]:
        """The sandboxes that its system has with all these tags."""

    @abstractmethod
    def _found(self, sandbox_id: str) -> HostedSandbox | None:
        """The sandbox that its system has with an id; None if it has none."""

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        def work() -> list[Sandbox]:
            found = self._listed(tags)
            there = {each.id for each in found}
            gone = [each for each in self._own if each.id and each.id not in there and {*tags} <= {*each.info.tags}]
            for each in gone:
                each.note_end()
            shown = [each for each in found if not each.info.has_ended or (ended and self.lists_ended)]
            return [*shown, *(gone if ended else ())]

        return in_background(work)

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        def work() -> Sandbox:
            if (found := self._found(sandbox_id)) is not None:
                return found
            for each in self._own:
                if each.id == sandbox_id:
                    each.note_end()
                    return each
            raise UnknownSandboxError(sandbox_id)

        return in_background(work)

    def abandon(self) -> None:
        self._own.clear()

    def close(self, timeout_seconds: float) -> None:
        def stop_all() -> None:
            for each in [each.stop() for each in self._own]:
                each.result()

        try:
            answer_within(timeout_seconds, stop_all)
        except TookTooLong as error:
            raise InfrastructureError("the sandboxes of this process did not end in time") from error
        self._own.clear()


def number_of(text: str | None) -> float:
    """The number that a label of a sandbox says; 0 if it says none."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0  # somebody else's


def _blaming(error: Exception) -> Exception:
    # Only an attached program may say that its sandbox has ended.
    return InfrastructureError(error.message) if isinstance(error, NotRunningError) else error


class HostedProgram:
    """A program in such a sandbox."""

    def __init__(
        self,
        sandbox: HostedSandbox,
        argv: Sequence[str],
        outputs: Sequence[Output],
        timeout_seconds: float,
        *,
        given: Command | None = None,
        has_input: bool = False,
        size: tuple[int, int] | None = None,
    ) -> None:
        self.ended: Future[None] = Future()
        self._sandbox = sandbox
        self._argv = argv
        self._outputs = outputs
        self._timeout_seconds = timeout_seconds
        self._given = given
        self._has_input = has_input or given is not None
        self._size = size
        self._token = secrets.token_hex(16)
        self._stream: Future[Stream] = Future()
        self._is_cancelled = threading.Event()
        self._is_late = False
        self._is_cut = False
        self._refusal: BrokenPipeError | None = None
        self._killing: Future[None] | None = None
        self._code: Future[int | None] = Future()

    def begin(self) -> Future[None]:
        """Starts it; done when it has ended."""

        def work() -> None:
            try:
                self._code.set_result(self._run())
            except BaseException as error:  # noqa: BLE001 - `finish` raises it
                self._code.set_exception(error)
            if not self._stream.done():
                self._stream.cancel()
            self.ended.set_result(None)

        threading.Thread(target=work, name="sandrl-program", daemon=True).start()
        return self.ended

    def _run(self) -> int | None:
        sandbox = self._sandbox
        if sandbox.info.has_ended:
            raise NotRunningError(sandbox.info.id)
        sandbox.create()
        try:
            stream = sandbox.launch(
                self._argv, variables={_TOKEN: self._token}, has_input=self._has_input, size=self._size
            )
        except SandrlError as error:
            raise self._loss(error) from error
        timer = threading.Timer(self._timeout_seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            self._stream.set_result(stream)
            if self._given is not None:
                threading.Thread(target=self._feed, args=(self._given.input,), daemon=True).start()
            if self._is_cancelled.is_set():
                self._killing = in_background(self._kill)
            with suppress(OSError):
                stream.receive(self._pass_on)
            if self._killing is not None:
                self._killing.result()
        finally:
            timer.cancel()
            stream.close()
        if self._refusal is not None:
            raise self._refusal
        if self._is_cut:
            raise self._loss(InfrastructureError(f"sandbox {sandbox.name} does not answer any more"))
        if self._is_late:
            return None
        if self._is_cancelled.is_set():
            raise InfrastructureError("the program was cancelled")
        return self._exit_code(stream)

    def _pass_on(self, number: int, block: bytes) -> None:
        if self._refusal is not None:
            return
        try:
            self._outputs[number].write(block)
        except BrokenPipeError as error:
            self._refusal = error
            # A system that cannot pass on output may not notice the end of its program.
            self._stream.result().drop_output()
            self._killing = in_background(self._kill)

    def _exit_code(self, stream: Stream) -> int:
        try:
            code = self._sandbox.confirm(stream.exit_code())
        except SandrlError as error:
            raise self._loss(error) from error
        if code is None:
            raise InfrastructureError(f"sandbox {self._sandbox.name} does not report how the program ended")
        return code

    def _loss(self, error: SandrlError) -> SandrlError:
        if isinstance(error, InfrastructureError) and error.lost_runtime:
            return error
        try:
            has_ended = not self._sandbox.is_running()
        except SandrlError as failure:
            return failure
        if not has_ended:
            return error
        self._sandbox.give_up()
        return NotRunningError(self._sandbox.info.id)

    def _feed(self, content: bytes) -> None:
        with suppress(OSError):
            stream = self._stream.result()
            stream.send(content)
            stream.close_input()

    def write(self, block: bytes) -> None:
        try:
            self._stream.result().send(block)
        except Exception as error:
            raise InfrastructureError("the program takes no more input") from error

    def close_input(self) -> None:
        if self._size is None:
            with suppress(Exception):  # it has ended
                self._stream.result().close_input()

    def cancel(self) -> None:
        self._is_cancelled.set()
        if self._stream.done():
            in_background(self._kill)

    def _expire(self) -> None:
        self._is_late = True
        self._kill()

    def _kill(self) -> None:
        if self.ended.done():
            return
        is_killed = False
        try:
            # One that was about to start is found by the second attempt.
            for _ in range(2):
                is_killed = self._sandbox.exit_code_of(("/bin/sh", "-c", _KILL, "sandrl", self._token)) == 0
                is_killed = is_killed and self._stream.result().exit_code() is not None
                if is_killed:
                    break
        except SandrlError as error:
            self._is_cut = isinstance(error, NodeLostError)
        if not is_killed:
            # What resists is killed with all that is in the sandbox. Nothing resists at a connection that was cut.
            self._is_cut = self._is_cut or not self._stream.result().is_alive()
            with suppress(SandrlError):
                self._sandbox.remove()
        with suppress(Exception):
            # Podman ends a stream whose input is open only when this side does.
            self._stream.result().interrupt()

    def finish(self) -> int | None:
        return self._code.result()
