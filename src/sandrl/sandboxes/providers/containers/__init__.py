"""Containers of Docker or Podman as sandboxes, by the API that both have.

A container has one label per tag, so the engine itself finds those with certain tags. Its main program sleeps for the
lifetime, as a user whom no program of the sandbox can stop or kill, and the engine removes the container when that
program ends. So no container outlives its lifetime, also if the process that made it is killed.

Containers share the kernel of their machine; the engine and its OCI runtime isolate them. Each has no
network unless the public one is asked for, no capabilities, no way to new privileges, the engine's filter of system
calls, and limits of memory and processes; it never gets a directory or a socket of the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sandrl.addresses import is_of_this_machine
from sandrl.deadlines import TookTooLong, answer_within, in_background
from sandrl.errors import InfrastructureError, UsageError
from sandrl.events import Emit, RuntimeStarting, ignore
from sandrl.extras import require
from sandrl.runtime import limits
from sandrl.sandboxes.providers.containers.engine import ID_LABEL, TAG_LABEL, Engine
from sandrl.sandboxes.providers.containers.sandbox import ContainerRequest, ContainerSandbox, describe
from sandrl.sandboxes.providers.programs import HostedClient
from sandrl.sandboxes.providers.protocol import Connection, Need, Packages, SandboxInfo
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.settings import RuntimeKind, Settings

IMAGE = "python:3.11"
CONCURRENCY = 8
_PULL_SECONDS = 3600.0


class ContainersProvider:
    """The runtime of one kind of engine.

    Attributes:
        kind: Docker's or Podman's.
    """

    needs: frozenset[Need] = frozenset()

    def __init__(self, kind: RuntimeKind) -> None:
        self.kind = kind
        self.summary = f"containers of {kind} run the sandboxes"

    def connect(
        self,
        settings: Settings,
        *,
        reason: str,
        image: str | None,
        packages: Packages,
        private_hosts: tuple[str, ...] = (),
        emit: Emit,
    ) -> ContainersConnection:
        if packages.asked:
            raise UsageError(
                f"runtime {self.kind} installs no packages",
                hint="use an image that has them, or `runtime` local",
                fields=("packages",),
            )
        connection = self._found(settings, reason)
        if connection is None:
            raise UsageError(self.absence(settings), hint="start it, or use `runtime` local", fields=("runtime",))
        with connection.engine.calling("describe itself"):
            facts = connection.engine.api.info()
        if not (facts.get("MemoryLimit") and facts.get("PidsLimit", True)):
            raise UsageError(
                f"{connection.address}: {self.kind} cannot limit the memory and processes of containers here",
                hint="give its user control groups (systemd's delegation), or use `runtime` local",
                fields=("runtime",),
            )
        if settings.oci_runtime and settings.oci_runtime not in (facts.get("Runtimes") or {}):
            raise UsageError(
                f"{connection.address}: {self.kind} has no OCI runtime {settings.oci_runtime!r}",
                hint=f"SANDRL_OCI_RUNTIME names one of {', '.join(sorted(facts.get('Runtimes') or {}))}",
            )
        oci_runtime = settings.oci_runtime or facts.get("DefaultRuntime") or ""
        return replace(connection, isolation=f"containers of {oci_runtime or self.kind}").with_image(
            image or IMAGE, emit
        )

    def find(self, settings: Settings, *, reason: str, emit: Emit = ignore) -> ContainersConnection | None:
        return self._found(settings, reason)

    def absence(self, settings: Settings) -> str:
        asked = ", ".join(settings.container_engines(self.kind))
        return f"{str(self.kind).capitalize()} is not running: it has none of these sockets: {asked}."

    def _found(self, settings: Settings, reason: str) -> ContainersConnection | None:
        for address in settings.container_engines(self.kind):
            parts = urlsplit(address)
            if parts.scheme == "unix":
                if not Path(parts.path).is_socket():
                    continue
            elif parts.scheme != "tcp" or not is_of_this_machine(address):
                raise UsageError(
                    f"{address}: {self.kind} is used at a socket or a port of this machine only",
                    hint="forward its socket to this machine (ssh -L), and name unix://PATH",
                )
            return ContainersConnection(
                kind=self.kind,
                reason=reason,
                address=address,
                image="",
                is_local=False,
                suggested_concurrency=CONCURRENCY,
                memory_bytes=limits.MEMORY_BYTES,
                state_dir=settings.state_dir,
                way_out=f"`{self.kind} version` shows whether it answers",
                engine=Engine(address),
                oci_runtime=settings.oci_runtime or "",
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainersConnection(Connection):
    """An engine on this machine.

    Attributes:
        oci_runtime: The OCI runtime of its containers; empty for the engine's own choice.
    """

    engine: Engine = field(repr=False, compare=False)
    oci_runtime: str = ""

    def with_image(self, image: str, emit: Emit = ignore) -> ContainersConnection:
        errors = require("docker", extra="docker").errors
        with self.engine.calling(f"find the image {image}"):
            try:
                found = self.engine.api.inspect_image(image)
            except errors.NotFound:
                found = None
        if found is None:
            emit(RuntimeStarting(f"{self.kind} pulls the image {image}"))
            found = self._pulled(image)
        user = str((found.get("Config") or {}).get("User") or "")
        return replace(self, image=image, user_of=lambda _: user, image_bytes=lambda _: found.get("Size"))

    def _pulled(self, image: str) -> dict[str, Any]:
        docker = require("docker", extra="docker")

        def pull() -> dict[str, Any]:
            name, tag = docker.utils.parse_repository_tag(image)
            self.engine.api.pull(name, tag=tag or "latest")
            found: dict[str, Any] = self.engine.api.inspect_image(image)
            return found

        with self.engine.calling(f"pull the image {image}"):
            try:
                return answer_within(_PULL_SECONDS, pull)
            except TookTooLong as error:
                raise InfrastructureError(f"image {image}: {self.kind} has not pulled it in an hour") from error
            except docker.errors.APIError as error:
                raise UsageError(
                    f"image {image}: {self.kind} cannot pull it: {error.explanation or error}",
                    hint=f"check its name; `{self.kind} pull {image}` shows more",
                    fields=("image",),
                ) from error

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> ContainersClient:
        if self.network is not None and self.network.is_reachable:
            raise UsageError(
                f"runtime {self.kind} gives sandboxes no network: that of a container also leads to private addresses",
                hint="use `runtime` local",
                fields=("network", "runtime"),
            )
        return ContainersClient(self, tuple(tags), max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS)


class ContainersClient(HostedClient):
    def __init__(self, connection: ContainersConnection, tags: tuple[str, ...], lifetime_seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self._engine = connection.engine
        self._tags = tags
        self._lifetime_seconds = lifetime_seconds

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> ContainerSandbox:
        refused = {
            "network": shape.network is not None and shape.network.is_reachable,
            "GPUs": shape.gpus,
            "storage": shape.storage_bytes,
            "state": shape.state,
        }
        if any(refused.values()):
            what = next(name for name, value in refused.items() if value)
            raise UsageError(
                f"runtime {self._connection.kind} gives no sandbox {what} of its own",
                hint="use `runtime` local",
                fields=("runtime",),
            )
        image = shape.image or self._connection.image
        request = ContainerRequest(
            image=image,
            tags=tuple(dict.fromkeys((*self._tags, *tags))),
            lifetime_seconds=shape.lifetime_seconds or self._lifetime_seconds,
            memory_bytes=shape.memory_bytes or self._connection.memory_bytes or limits.MEMORY_BYTES,
            processors=shape.processors,
            user="0" if shape.as_root else self._connection.user_of(image) or "",
            directory=shape.directory,
            variables=shape.variables,
            oci_runtime=self._connection.oci_runtime,
        )
        info = SandboxInfo("", "creating", tags=request.tags, max_lifetime_seconds=request.lifetime_seconds)
        sandbox = ContainerSandbox(self._engine, request, info)
        self._own.append(sandbox)
        return sandbox

    def _listed(self, tags: Sequence[str]) -> Sequence[ContainerSandbox]:
        return [self._seen(each) for each in self._engine.containers(*(f"{TAG_LABEL}{tag}" for tag in tags))]

    def _found(self, sandbox_id: str) -> ContainerSandbox | None:
        found = self._engine.containers(f"{ID_LABEL}={sandbox_id}")
        return self._seen(found[0]) if found else None

    def _seen(self, found: dict[str, Any]) -> ContainerSandbox:
        return ContainerSandbox(self._engine, None, describe(found))

    def ping(self) -> Future[None]:
        def work() -> None:
            with self._engine.calling("answer"):
                self._engine.api.ping()

        return in_background(work)
