"""One container, and programs in it."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sandrl.deadlines import in_background
from sandrl.errors import InfrastructureError, NotRunningError, SandrlError, UnknownSandboxError
from sandrl.extras import require
from sandrl.runtime import limits
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.containers.engine import (
    ID_LABEL,
    IMAGE_LABEL,
    LIFETIME_LABEL,
    MEMORY_LABEL,
    TAG_LABEL,
    Engine,
)
from sandrl.sandboxes.providers.protocol import Output, Result, SandboxInfo

_END_SECONDS = 20.0
_EXIT_SECONDS = 5.0
_KILLED = 128 + signal.SIGKILL
_BLOCK_BYTES = 1 << 16
_STATUSES = {"running": "running", "paused": "paused", "created": "creating", "initialized": "creating"}
_ENDING = {"removing": "terminating", "stopping": "terminating", "dead": "failed"}
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


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What a container is made from.

    Attributes:
        user: The user of its programs; empty for that of the image.
        oci_runtime: The OCI runtime; empty for the engine's own choice.
    """

    image: str
    tags: tuple[str, ...]
    lifetime_seconds: float
    memory_bytes: int
    processors: float | None = None
    user: str = ""
    directory: str | None = None
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    oci_runtime: str = ""


def describe(found: Mapping[str, Any]) -> SandboxInfo:
    """What the engine's list says of a container."""
    labels, state = found["Labels"], str(found["State"]).lower()
    created = found["Created"]
    if isinstance(created, str):
        created = datetime.fromisoformat(created).timestamp()
    return SandboxInfo(
        id=labels[ID_LABEL],
        status=(_STATUSES | _ENDING).get(state, "terminated"),
        tags=tuple(name.removeprefix(TAG_LABEL) for name in labels if name.startswith(TAG_LABEL)),
        created_at=datetime.fromtimestamp(created, UTC),
        max_lifetime_seconds=_number(labels.get(LIFETIME_LABEL)),
        image=labels.get(IMAGE_LABEL, ""),
        resources=(("memory", str(labels.get(MEMORY_LABEL, ""))),),
    )


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0  # somebody else's label


class ContainerSandbox:
    """A container that is made on its first use, or one that was found.

    Attributes:
        info: What is known of it here; the engine forgets a container that has ended.
    """

    def __init__(self, engine: Engine, request: ContainerRequest | None, info: SandboxInfo) -> None:
        self.engine = engine
        self.info = info
        self._request = request
        self._name = info.id or str(uuid.uuid4())
        self._lock = threading.Lock()
        self._creation: Future[None] | None = None

    @property
    def id(self) -> str | None:
        return self.info.id or None

    @property
    def started_at(self) -> datetime | None:
        return self.info.started_at

    @property
    def request(self) -> ContainerRequest | None:
        """What it was made from, if it was made here."""
        return self._request

    def start(self) -> Future[None]:
        return in_background(self.create)

    def create(self) -> None:
        """Waits until it exists.

        Raises:
            ServiceError: If it could not be made; the next call tries again, by the same name.
            UsageError: If the engine refuses what was asked for.
        """
        if self.info.has_ended:
            raise InfrastructureError(f"sandbox {self._name} has ended")
        if self.info.id:
            return
        with self._lock:
            if self._creation is None or (self._creation.done() and self._creation.exception() is not None):
                self._creation = in_background(self._create)
            creation = self._creation
        creation.result()

    def _create(self) -> None:
        assert self._request is not None, "it was found, so it exists"
        request, api, errors = self._request, self.engine.api, require("docker", extra="docker").errors
        host = api.create_host_config(
            auto_remove=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            network_mode="none",
            mem_limit=request.memory_bytes,
            memswap_limit=request.memory_bytes,
            pids_limit=limits.of_memory(request.memory_bytes)["processes"],
            runtime=request.oci_runtime or None,
            ipc_mode="private",
            **({"nano_cpus": round(request.processors * 1e9)} if request.processors else {}),
        )
        labels = {
            ID_LABEL: self._name,
            IMAGE_LABEL: request.image,
            LIFETIME_LABEL: f"{request.lifetime_seconds:g}",
            MEMORY_LABEL: str(request.memory_bytes),
        }
        keeper = "65532:65532" if request.user.startswith("65533") else "65533:65533"
        with self.engine.calling(f"make a container of {request.image}"):
            try:
                api.create_container(
                    request.image,
                    ["-c", 'sleep "$1"; exit 0', "sandrl", f"{max(request.lifetime_seconds, 1):.0f}"],
                    entrypoint=["/bin/sh"],
                    name=self._name,
                    user=keeper,
                    working_dir="/",
                    labels=labels | {f"{TAG_LABEL}{tag}": "" for tag in request.tags},
                    host_config=host,
                    healthcheck={"test": ["NONE"]},
                )
            except errors.APIError as error:
                if error.status_code != 409:  # it was made by a call whose answer was lost
                    raise
            try:
                api.start(self._name)
            except BaseException:
                with suppress(SandrlError):
                    self.engine.remove(self._name)
                raise
        now = datetime.now(UTC)
        self.info = replace(self.info, id=self._name, status="running", created_at=now, started_at=now)

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
        program = ContainerProgram(self, command.argv, outputs, command.timeout_seconds, given=command)

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
    ) -> ContainerProgram:
        program = ContainerProgram(self, argv, [stdout, stderr], timeout_seconds, has_input=stdin)
        program.begin()
        return program

    def open_terminal(
        self, argv: Sequence[str], *, columns: int, rows: int, output: Callable[[bytes], None]
    ) -> ContainerProgram:
        lifetime = self.info.max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS
        program = ContainerProgram(self, argv, [Output(output)], lifetime, has_input=True, size=(rows, columns))
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
            is_there = self.id is not None and self.engine.remove(self._name)
            if not (is_there or missing_ok):
                raise UnknownSandboxError(self._name)
            if self.id is not None:
                self.await_end()

        return in_background(work)

    def await_end(self) -> None:
        """Waits until the engine has forgotten it.

        Raises:
            InfrastructureError: If it is still there after a while.
        """
        ends_at = time.monotonic() + _END_SECONDS
        while self.is_there():
            if time.monotonic() > ends_at:
                raise InfrastructureError(f"sandbox {self._name} was not removed")
            time.sleep(0.05)
        self.note_end()

    def is_there(self) -> bool:
        """Whether the engine has it."""
        return bool(self.engine.containers(f"{ID_LABEL}={self._name}"))

    def is_running(self) -> bool:
        """Whether the engine has it and runs it."""
        return any(describe(each).status == "running" for each in self.engine.containers(f"{ID_LABEL}={self._name}"))

    def exit_code_of(self, argv: Sequence[str]) -> int | None:
        """Runs a short program of sandrl in it to its end; None if the engine does not know its exit code."""
        name = self.execute(argv, variables={}, has_input=False, is_terminal=False)
        with self.engine.calling("start a program"):
            self.engine.api.exec_start(name)
            code: int | None = self.engine.api.exec_inspect(name)["ExitCode"]
        return code

    def note_end(self) -> None:
        """Remembers that it has ended."""
        self.info = replace(self.info, status="terminated", ended_at=datetime.now(UTC))

    def execute(self, argv: Sequence[str], *, variables: Mapping[str, str], has_input: bool, is_terminal: bool) -> str:
        """Prepares a program; its name in the API."""
        request = self._request
        own = dict(request.variables) if request else {}
        with self.engine.calling("start a program"):
            made = self.engine.api.exec_create(
                self._name,
                ["/bin/sh", "-c", 'exec "$@"', "sandrl", *argv],
                stdin=has_input,
                tty=is_terminal,
                environment={**own, **variables},
                workdir=request.directory if request else None,
                user=self.user(),
            )
        return str(made["Id"])

    def user(self) -> str:
        """The user of its programs, which is not that of the program that keeps it."""
        if self._request is not None:
            return self._request.user or "0"
        with self.engine.calling("find the image of a container"):
            image = self.engine.api.inspect_container(self._name)["Image"]
            return str(self.engine.api.inspect_image(image)["Config"].get("User") or "0")


def _blaming(error: Exception) -> Exception:
    # Only an attached program may say that its sandbox has ended.
    return InfrastructureError(error.message) if isinstance(error, NotRunningError) else error


class ContainerProgram:
    """A program in a container; its streams come in frames over one connection."""

    def __init__(
        self,
        sandbox: ContainerSandbox,
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
        self._stream: Future[socket.socket] = Future()
        self._is_cancelled = threading.Event()
        self._is_late = False
        self._name = ""
        self._refusal: BrokenPipeError | None = None
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

        threading.Thread(target=work, name="sandrl-container", daemon=True).start()
        return self.ended

    def _run(self) -> int | None:
        sandbox, api = self._sandbox, self._sandbox.engine.api
        if sandbox.info.has_ended:
            raise NotRunningError(sandbox.info.id)
        sandbox.create()
        try:
            name = self._name = sandbox.execute(
                self._argv,
                variables={_TOKEN: self._token},
                has_input=self._has_input,
                is_terminal=self._size is not None,
            )
            with sandbox.engine.calling("start a program"):
                response = api.exec_start(name, tty=self._size is not None, socket=True)
        except SandrlError as error:
            raise self._loss(error) from error
        stream: socket.socket = getattr(response, "_sock", response)
        stream.settimeout(None)
        timer = threading.Timer(self._timeout_seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            if self._size is not None:
                with suppress(SandrlError), sandbox.engine.calling("set the size of a terminal"):
                    api.exec_resize(name, *self._size)
            self._stream.set_result(stream)
            if self._given is not None:
                threading.Thread(target=self._feed, args=(self._given.input,), daemon=True).start()
            if self._is_cancelled.is_set():
                self._kill()
            with suppress(OSError):
                self._pump(stream)
        finally:
            timer.cancel()
            stream.close()
            response.close()
        if self._refusal is not None:
            raise self._refusal
        if self._is_late:
            return None
        if self._is_cancelled.is_set():
            raise InfrastructureError("the program was cancelled")
        return self._exit_code()

    def _pump(self, stream: socket.socket) -> None:
        if self._size is not None:
            while block := stream.recv(_BLOCK_BYTES):
                self._pass_on(0, block)
            return
        while head := _exactly(stream, 8):
            number, left = struct.unpack(">BxxxL", head)
            while left and (block := stream.recv(min(left, _BLOCK_BYTES))):
                left -= len(block)
                self._pass_on(1 if number == 2 else 0, block)

    def _pass_on(self, number: int, block: bytes) -> None:
        try:
            self._outputs[number].write(block)
        except BrokenPipeError as error:
            self._refusal = error
            # An engine that cannot pass on output does not notice the end of its program.
            with suppress(OSError):
                self._stream.result().shutdown(socket.SHUT_RDWR)
            self._kill()
            raise ConnectionAbortedError from error

    def _exit_code(self) -> int:
        try:
            code = self._await_exit()
        except SandrlError as error:
            raise self._loss(error) from error
        if code is None or code == _KILLED:
            self._check_alive()
        if code is None:
            raise InfrastructureError("the container engine does not report how the program ended")
        return code

    def _await_exit(self) -> int | None:
        # None if it still runs after a while.
        ends_at = time.monotonic() + _EXIT_SECONDS
        while time.monotonic() < ends_at:
            with self._sandbox.engine.calling("read an exit code"):
                state = self._sandbox.engine.api.exec_inspect(self._name)
            if not state["Running"]:
                return int(state["ExitCode"] or 0)
            time.sleep(0.02)
        return None

    def _check_alive(self) -> None:
        # Whoever kills a container kills its programs, too: only one that runs can start another.
        try:
            code = self._sandbox.exit_code_of(("true",))
        except SandrlError as error:
            raise self._loss(error) from error
        if code != 0:
            raise self._loss(InfrastructureError("the container engine runs no program in it"))

    def _loss(self, error: SandrlError) -> SandrlError:
        if isinstance(error, InfrastructureError) and error.lost_runtime:
            return error
        try:
            has_ended = not self._sandbox.is_running()
        except SandrlError as failure:
            return failure
        if not has_ended:
            return error
        self._sandbox.note_end()
        return NotRunningError(self._sandbox.info.id)

    def _feed(self, content: bytes) -> None:
        with suppress(OSError):
            stream = self._stream.result()
            stream.sendall(content)
            stream.shutdown(socket.SHUT_WR)

    def write(self, block: bytes) -> None:
        try:
            self._stream.result().sendall(block)
        except Exception as error:
            raise InfrastructureError("the program takes no more input") from error

    def close_input(self) -> None:
        if self._size is None:
            with suppress(Exception):  # it has ended
                self._stream.result().shutdown(socket.SHUT_WR)

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
        try:
            is_killed = self._sandbox.exit_code_of(("/bin/sh", "-c", _KILL, "sandrl", self._token)) == 0
            is_killed = is_killed and self._await_exit() is not None
        except SandrlError:
            is_killed = False
        if not is_killed:
            # What resists is killed with all that is in the sandbox.
            with suppress(SandrlError):
                self._sandbox.engine.remove(self._sandbox.info.id)
        with suppress(Exception):
            # Podman ends a stream whose input is open only when this side does.
            self._stream.result().shutdown(socket.SHUT_RDWR)

    def finish(self) -> int | None:
        return self._code.result()


def _exactly(stream: socket.socket, count: int) -> bytes:
    # Empty at the end of the stream.
    block = b""
    while len(block) < count:
        more = stream.recv(count - len(block))
        if not more:
            return b""
        block += more
    return block
