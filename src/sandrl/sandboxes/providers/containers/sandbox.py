"""One container, and programs in it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sandrl.errors import SandrlError
from sandrl.extras import require
from sandrl.runtime import limits
from sandrl.sandboxes.providers.containers.engine import (
    ID_LABEL,
    IMAGE_LABEL,
    LIFETIME_LABEL,
    MEMORY_LABEL,
    TAG_LABEL,
    Engine,
)
from sandrl.sandboxes.providers.programs import HostedSandbox, number_of
from sandrl.sandboxes.providers.protocol import SandboxInfo

_EXIT_SECONDS = 5.0
_BLOCK_BYTES = 1 << 16
_STATUSES = {"running": "running", "paused": "paused", "created": "creating", "initialized": "creating"}
_ENDING = {"removing": "terminating", "stopping": "terminating", "dead": "failed"}


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
        max_lifetime_seconds=number_of(labels.get(LIFETIME_LABEL)),
        image=labels.get(IMAGE_LABEL, ""),
        resources=(("memory", str(labels.get(MEMORY_LABEL, ""))),),
    )


class ContainerSandbox(HostedSandbox):
    """A container that is made on its first use, or one that was found."""

    def __init__(self, engine: Engine, request: ContainerRequest | None, info: SandboxInfo) -> None:
        super().__init__(info)
        self.engine = engine
        self._request = request

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
            ID_LABEL: self.name,
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
                    name=self.name,
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
                api.start(self.name)
            except BaseException:
                with suppress(SandrlError):
                    self.engine.remove(self.name)
                raise
        self.note_start()

    def remove(self) -> bool:
        return self.engine.remove(self.name)

    def is_there(self) -> bool:
        return bool(self.engine.containers(f"{ID_LABEL}={self.name}"))

    def is_running(self) -> bool:
        return any(describe(each).status == "running" for each in self.engine.containers(f"{ID_LABEL}={self.name}"))

    def exit_code_of(self, argv: Sequence[str]) -> int | None:
        name = self._execute(argv, variables={}, has_input=False, is_terminal=False)
        with self.engine.calling("start a program"):
            self.engine.api.exec_start(name)
            code: int | None = self.engine.api.exec_inspect(name)["ExitCode"]
        return code

    def launch(
        self, argv: Sequence[str], *, variables: Mapping[str, str], has_input: bool, size: tuple[int, int] | None
    ) -> ContainerStream:
        is_terminal = size is not None
        name = self._execute(argv, variables=variables, has_input=has_input, is_terminal=is_terminal)
        with self.engine.calling("start a program"):
            response = self.engine.api.exec_start(name, tty=is_terminal, socket=True)
        if size is not None:
            with suppress(SandrlError), self.engine.calling("set the size of a terminal"):
                self.engine.api.exec_resize(name, *size)
        return ContainerStream(self.engine, name, response, is_terminal)

    def _execute(self, argv: Sequence[str], *, variables: Mapping[str, str], has_input: bool, is_terminal: bool) -> str:
        # Prepares a program; its name in the API.
        request = self._request
        own = dict(request.variables) if request else {}
        with self.engine.calling("start a program"):
            made = self.engine.api.exec_create(
                self.name,
                ["/bin/sh", "-c", 'exec "$@"', "sandrl", *argv],
                stdin=has_input,
                tty=is_terminal,
                environment={**own, **variables},
                workdir=request.directory if request else None,
                user=self._user(),
            )
        return str(made["Id"])

    def _user(self) -> str:
        # The user of its programs, which is not that of the program that keeps it.
        if self._request is not None:
            return self._request.user or "0"
        with self.engine.calling("find the image of a container"):
            image = self.engine.api.inspect_container(self.name)["Image"]
            return str(self.engine.api.inspect_image(image)["Config"].get("User") or "0")


class ContainerStream:
    """The streams of a program in a container, which come in frames over one connection."""

    def __init__(self, engine: Engine, name: str, response: Any, is_terminal: bool) -> None:
        self._engine = engine
        self._name = name
        self._response = response
        self._socket: socket.socket = getattr(response, "_sock", response)
        self._socket.settimeout(None)
        self._is_terminal = is_terminal

    def receive(self, pass_on: Callable[[int, bytes], None]) -> None:
        if self._is_terminal:
            while block := self._socket.recv(_BLOCK_BYTES):
                pass_on(0, block)
            return
        while head := _exactly(self._socket, 8):
            number, left = struct.unpack(">BxxxL", head)
            while left and (block := self._socket.recv(min(left, _BLOCK_BYTES))):
                left -= len(block)
                pass_on(1 if number == 2 else 0, block)

    def send(self, block: bytes) -> None:
        self._socket.sendall(block)

    def close_input(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def drop_output(self) -> None:
        self.interrupt()

    def interrupt(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def is_alive(self) -> bool:
        return True  # the engine is on this machine

    def exit_code(self) -> int | None:
        ends_at = time.monotonic() + _EXIT_SECONDS
        while time.monotonic() < ends_at:
            with self._engine.calling("read an exit code"):
                state = self._engine.api.exec_inspect(self._name)
            if not state["Running"]:
                return int(state["ExitCode"] or 0)
            time.sleep(0.02)
        return None

    def close(self) -> None:
        self._socket.close()
        self._response.close()


def _exactly(stream: socket.socket, count: int) -> bytes:
    # Empty at the end of the stream.
    block = b""
    while len(block) < count:
        more = stream.recv(count - len(block))
        if not more:
            return b""
        block += more
    return block
