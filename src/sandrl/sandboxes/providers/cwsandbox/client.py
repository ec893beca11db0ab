"""Sandboxes through the SDK.

It makes as few round trips as the SDK allows. Nothing is created, started or waited for one by one: `exec` on a lazy
sandbox creates it, waits for it and runs the command, all on the SDK's own event loop, while the calling thread hands
over the next one.

The SDK's handles keep less than the service answers (no lifetime, no end, no exit code); a subclass of its `Sandbox`
keeps the answer itself, so that nothing is requested twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sandrl import forks
from sandrl.errors import SandrlError, UsageError
from sandrl.events import Emit, ignore
from sandrl.runtime.limits import (
    ALLOWED_HOSTS_ANNOTATION,
    CELLS_ANNOTATION,
    OWNERS_ANNOTATION,
    PACKAGES_ANNOTATION,
    PRIVATE_HOSTS_ANNOTATION,
    RECORDING_ANNOTATION,
    STORAGE_ANNOTATION,
)
from sandrl.runtime.network import ALL_PORTS, HTTPS_PORTS, Network, joined
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.cwsandbox import sdk as adapter
from sandrl.sandboxes.providers.cwsandbox.attached import Meter, SdkProgram, SdkTerminal
from sandrl.sandboxes.providers.cwsandbox.packages import Installation
from sandrl.sandboxes.providers.protocol import (
    AttachedProgram,
    Connection,
    Output,
    Packages,
    Result,
    Sandbox,
    SandboxInfo,
)
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.settings import NetworkMode

if TYPE_CHECKING:
    from cwsandbox import Sandbox as Handle

REQUEST_TIMEOUT_SECONDS = 20.0
"""How long one call to the service may take; all pages of a listing count as one."""

_LOG_TIMEOUT_SECONDS = 300.0
# A daemon that refuses a connection is not there, and the next one has another address.
_LOCAL_RETRY_SECONDS = 5.0
_NO_PACKAGES = Packages()
_NOBODYS_TAG = "is-anybody-there"


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkConnection(Connection):
    """A runtime that speaks the SDK's protocol.

    Attributes:
        token: The bearer token; None for W&B credentials.
        find_image: Makes an image available to the runtime, and returns its name there with a digest, or None for the
            system of this machine; None where the runtime does that itself.
    """

    token: str | None = field(default=None, repr=False)
    wandb_entity: str | None = None
    find_image: Callable[[str, Emit], str | None] | None = field(default=None, repr=False, compare=False)

    def with_image(self, image: str, emit: Emit = ignore) -> SdkConnection:
        found = image if self.find_image is None else self.find_image(image, emit)
        # What is installed in an image is there to be imported.
        of_image = found is not None
        return replace(self, image=found or image, packages=_NO_PACKAGES, overlay="", has_site_packages=of_image)

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> SdkClient:
        return SdkClient(self, tags, max_lifetime_seconds)


class SdkClient:
    def __init__(self, connection: SdkConnection, tags: Sequence[str], max_lifetime_seconds: float | None) -> None:
        forks.begin_grpc()
        self._sdk = adapter.load_sdk()
        self._connection = connection
        self._tags = tuple(tags)
        self._max_lifetime_seconds = max_lifetime_seconds
        # By the lifetime of their sandboxes, which only a session can be told.
        self._sessions: dict[float | None, Any] = {}
        if connection.is_local:
            adapter.go_round_proxies()
        self._place: dict[str, Any] = {
            "base_url": connection.address,
            "auth": self._credentials(),
            "data_plane_mode": "gateway" if connection.is_local else "auto",
        }
        self._patience = {"poll_retry_budget_seconds": _LOCAL_RETRY_SECONDS} if connection.is_local else {}
        self._translate = functools.partial(adapter.translate, is_local=connection.is_local)

    def _credentials(self) -> object:
        connection = self._connection
        if connection.token is not None:
            strategy = "sandrl-local" if connection.is_local else "api_key"
            return self._sdk.AuthHeaders(headers={"Authorization": f"Bearer {connection.token}"}, strategy=strategy)
        return self._sdk.WandbAuth(entity=connection.wandb_entity)

    def _session(self, lifetime_seconds: float | None) -> Any:
        if lifetime_seconds not in self._sessions:
            self._sessions[lifetime_seconds] = self._opened(lifetime_seconds)
        return self._sessions[lifetime_seconds]

    def _opened(self, lifetime_seconds: float | None) -> Any:
        network, annotations = self._network(self._connection.network)
        if overlay := self._connection.overlay:
            annotations[PACKAGES_ANNOTATION] = overlay
        defaults = self._sdk.SandboxDefaults(
            container_image=self._connection.image,
            max_lifetime_seconds=lifetime_seconds,
            tags=self._tags,
            resources=self._resources(self._connection.memory_bytes if self._connection.has_own_memory else None),
            network=network,
            annotations=annotations,
            **self._patience,
            **self._place,
        )
        # Metrics are sandrl's own; the SDK's reporter would look for W&B on every exec.
        return self._sdk.Session(defaults, report_to=[])

    def _network(self, network: Network | None) -> tuple[Any, dict[str, str]]:
        # The SDK's options, and the annotations of the local runtime with what these cannot say.
        if network is None:
            return None, {}
        if not network.is_reachable:
            return self._sdk.NetworkOptions(deny_egress=True), {}
        rules = [self._sdk.EgressRule(any=True)] if network.mode is NetworkMode.PUBLIC else []
        others = []
        for each in network.allowed:
            if each.network is not None:
                ports = None if each.ports == ALL_PORTS else [{"port": each.first_port, "end_port": each.last_port}]
                rules.append(self._sdk.EgressRule(cidr=each.host, ports=ports))
            elif each.ports == HTTPS_PORTS:
                rules.append(self._sdk.EgressRule(dns_name=each.host))
            else:
                others.append(each)
        named = {ALLOWED_HOSTS_ANNOTATION: joined(others), PRIVATE_HOSTS_ANNOTATION: joined(network.private)}
        named[RECORDING_ANNOTATION] = network.recording
        return self._sdk.NetworkOptions(egress=rules), {key: value for key, value in named.items() if value}

    def _resources(self, memory_bytes: int | None, processors: float | None = None, gpus: int = 0) -> Any:
        amounts = {} if memory_bytes is None else {"memory": str(memory_bytes)}
        if processors is not None:
            amounts["cpu"] = f"{round(processors * 1000)}m"
        if not (amounts or gpus):
            return None
        return self._sdk.ResourceOptions(requests=amounts, limits=amounts, gpu={"count": gpus} if gpus else None)

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> Sandbox:
        if shape.gpus and self._connection.is_local:
            raise UsageError(f"GPUs ({shape.gpus}) are requested, and sandboxes of this machine have none")
        # The service knows nothing of cells: there, what its containers allow anyway decides.
        annotations = {CELLS_ANNOTATION: str(cells)} if cells and self._connection.is_local else {}
        if shape.image and self._connection.overlay:
            annotations[PACKAGES_ANNOTATION] = ""
        with adapter.addressed_to(self._connection.address):
            given, session = (
                self._given(shape, annotations),
                self._session(shape.lifetime_seconds or self._max_lifetime_seconds),
            )
            handle = session.sandbox(tags=list(tags), container_image=shape.image or None, **given)
            packages = Packages() if shape.image or self._connection.is_local else self._connection.packages
            return SdkSandbox(handle, self._connection.is_local, packages)

    def _given(self, shape: Shape, annotations: dict[str, str]) -> dict[str, Any]:
        # The SDK's options for a shape; those of the session count where there is none.
        given: dict[str, Any] = {}
        connection = self._connection
        if shape.network is not None:
            given["network"], named = self._network(shape.network)
            # The session's annotations are joined with these.
            others = (ALLOWED_HOSTS_ANNOTATION, PRIVATE_HOSTS_ANNOTATION, RECORDING_ANNOTATION)
            annotations = annotations | (dict.fromkeys(others, "") if connection.network is not None else {}) | named
        if shape.storage_bytes is not None and connection.is_local:
            annotations = {**annotations, STORAGE_ANNOTATION: str(shape.storage_bytes)}
        if shape.as_root and connection.is_local:
            annotations = {**annotations, OWNERS_ANNOTATION: "yes"}
        memory_bytes = shape.memory_bytes or (connection.memory_bytes if connection.has_own_memory else None)
        given["resources"] = self._resources(memory_bytes, shape.processors, shape.gpus)
        given["environment_variables"] = dict(shape.variables)
        given["security_context"] = self._sdk.SecurityContext(run_as_user=0) if shape.as_root else None
        given["working_dir"], given["annotations"] = shape.directory, annotations
        return {name: value for name, value in given.items() if value}

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        return self._found(self._ask(tags, ended), lambda found: [self._seen(handle) for handle in found])

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        operation = _observed_sandbox().from_id(sandbox_id, timeout_seconds=REQUEST_TIMEOUT_SECONDS, **self._place)

        def translate(error: BaseException) -> SandrlError:
            return adapter.translate_about(sandbox_id, error, is_local=self._connection.is_local)

        return adapter.translated(operation, self._seen, translate)

    def ping(self) -> Future[None]:
        return self._found(self._ask([_NOBODYS_TAG], False), lambda _: None)

    def _ask(self, tags: Sequence[str], ended: bool) -> Any:
        return _observed_sandbox().list(
            tags=[*tags], show_terminated=ended, timeout_seconds=REQUEST_TIMEOUT_SECONDS, **self._place
        )

    def _found(self, operation: Any, convert: Callable[[Any], Any]) -> Future[Any]:
        return adapter.translated(operation, convert, self._translate)

    def _seen(self, handle: Any) -> Sandbox:
        return SdkSandbox(handle, self._connection.is_local)

    def abandon(self) -> None:
        # The SDK stops what its sessions hold at the end of the process at the latest, and writes a traceback for each
        # sandbox that it cannot reach. It has no public way to give up sandboxes without asking for them.
        for session in self._sessions.values():
            session._sandboxes.clear()
            session.close()

    def close(self, timeout_seconds: float) -> None:
        try:
            for closing in [session.close() for session in self._sessions.values()]:
                closing.result(timeout_seconds)
        except (self._sdk.CWSandboxError, TimeoutError) as error:
            raise self._translate(error) from error


class SdkSandbox:
    def __init__(self, handle: Handle, is_local: bool, packages: Packages = _NO_PACKAGES) -> None:
        self._handle = handle
        self._installation = Installation(packages)
        self._is_local = is_local
        self._translate = functools.partial(adapter.translate, is_local=is_local)
        self._sdk_error: type[Exception] = adapter.load_sdk().CWSandboxError

    @property
    def id(self) -> str | None:
        return self._handle.sandbox_id

    @property
    def started_at(self) -> datetime | None:
        return self._handle.started_at

    @property
    def info(self) -> SandboxInfo:
        return _described(self._handle)

    def _translate_about(self, error: BaseException) -> SandrlError:
        return adapter.translate_about(self.id or "", error, is_local=self._is_local)

    def start(self) -> Future[None]:
        return adapter.translated(self._handle.start(), lambda _: None, self._translate)

    def run(self, command: Command) -> Future[Result]:
        command = self._installation.before(command)
        process = self._handle.exec(command.argv, stdin=True, timeout_seconds=command.timeout_seconds)
        assert process.stdin is not None, "it was asked for"
        content = command.input
        if content:
            # Where the runtime is gone, the command may have failed already; its result says so.
            with suppress(self._sdk_error):
                process.stdin.write(content)
        process.stdin.close()
        meter = None if command.most_output_bytes is None else Meter(process, command.most_output_bytes)
        done = adapter.translated(
            process, lambda ended: self._installation.checked(_result(ended)), self._translate, late=Result(None)
        )
        return done if meter is None else meter.watched(done)

    def attach(
        self, argv: Sequence[str], *, stdin: bool, stdout: Output, stderr: Output, timeout_seconds: float
    ) -> AttachedProgram:
        words = self._installation.words(tuple(argv))
        process = self._handle.exec(list(words), stdin=stdin, timeout_seconds=timeout_seconds)
        return SdkProgram(process, stdout, stderr, self._translate_about)

    def open_terminal(
        self, argv: Sequence[str], *, columns: int, rows: int, output: Callable[[bytes], None]
    ) -> AttachedProgram:
        session = self._handle.shell(list(argv), width=columns, height=rows)
        return SdkTerminal(session, output, self._translate)

    def read_file(self, path: str) -> Future[bytes]:
        return adapter.translated(self._handle.read_file(path), bytes, self._translate_of_file(path))

    def write_file(self, path: str, content: bytes) -> Future[None]:
        operation = self._handle.write_file(path, content)
        return adapter.translated(operation, lambda _: None, self._translate_of_file(path))

    def _translate_of_file(self, path: str) -> Callable[[BaseException], Exception]:
        return functools.partial(adapter.translate_of_file, path, is_local=self._is_local)

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        timeout_seconds = None if follow else _LOG_TIMEOUT_SECONDS
        try:
            yield from self._handle.stream_logs(follow=follow, tail_lines=tail_lines, timeout_seconds=timeout_seconds)
        except (adapter.load_sdk().CWSandboxError, TimeoutError) as error:
            raise self._translate_about(error) from error

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        operation = self._handle.stop(graceful_shutdown_seconds=0, missing_ok=missing_ok)
        return adapter.translated(operation, lambda _: None, self._translate_about)


@functools.cache
def _observed_sandbox() -> Any:
    class Observed(adapter.load_sdk().Sandbox):  # type: ignore[misc] # the SDK is imported on use
        def _apply_status_echo(self, view: Any) -> None:
            super()._apply_status_echo(view)
            self.answer = view._sandbox

    return Observed


def _result(result: Any) -> Result:
    return Result(result.returncode, result.stdout_bytes, result.stderr_bytes)


def _described(handle: Any) -> SandboxInfo:
    spec, status = handle.answer.spec, handle.answer.status
    container = next(
        (each for each in spec.containers if each.primary), spec.containers[0] if spec.containers else None
    )
    return SandboxInfo(
        id=handle.answer.sandbox_id,
        status=handle.status.value if handle.status is not None else "unspecified",
        reason=status.state_reason,
        tags=tuple(spec.tags),
        created_at=_moment(status, "create_time"),
        started_at=_moment(status, "start_time"),
        ended_at=_moment(status, "end_time"),
        max_lifetime_seconds=float(status.effective_max_lifetime_seconds),
        image=container.image if container is not None else "",
        resources=_resources(handle),
        exit_code=status.exit_code if status.HasField("exit_code") else None,
        runner=status.runner_id,
    )


def _resources(handle: Any) -> tuple[tuple[str, str], ...]:
    limits = handle.resource_limits
    if limits is None:
        # The SDK looks here only where the service says nothing of requirements, be they empty.
        effective = handle.answer.status.effective_resources
        limits = {name: value for name in ("cpu", "memory") if (value := getattr(effective, name))}
    return tuple(sorted((str(name), str(value)) for name, value in limits.items()))


def _moment(status: Any, name: str) -> datetime | None:
    return getattr(status, name).ToDatetime(tzinfo=UTC) if status.HasField(name) else None
