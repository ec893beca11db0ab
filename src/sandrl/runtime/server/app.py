"""The daemon: one gRPC server on 127.0.0.1, guarded by a token, which ends after an idle time."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import resource
import secrets
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
from cwsandbox._proto import discovery_pb2_grpc, sandbox_pb2_grpc

from sandrl.errors import RuntimeUnavailableError
from sandrl.quantities import bytes_of
from sandrl.runtime.host.choice import Choice, choose_launcher
from sandrl.runtime.host.images import Images, find_images
from sandrl.runtime.images.store import ImageStore, open_store
from sandrl.runtime.server.sandboxes import SandboxManager
from sandrl.runtime.server.service import ControlService, DiscoveryService, SandboxService
from sandrl.runtime.state import DaemonEndpoint, RuntimeDirectory
from sandrl.runtime.usage import below, of_process, suggested_concurrency
from sandrl.settings import Settings, load_settings

logger = logging.getLogger(__name__)

_MAX_MESSAGE_BYTES = 100 << 20
_LOG_KEPT_BYTES = 5 << 20
_STOP_SECONDS = 3.0
# How long another daemon may take to start or to end, and how often that is looked at.
_PATIENCE_SECONDS = 15.0
_PAUSE_SECONDS = 0.05
_ROSTER_PAUSE_SECONDS = 1.0
_MOST_IN_ROSTER = 500

Announce = Callable[[DaemonEndpoint], None]
Handler = Any  # grpc.RpcMethodHandler, which cannot be subscripted at run time


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[type-arg] # generic in its stubs only
    """Lets calls with the right token through, and remembers when the last one came."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()
        self.last_call = time.monotonic()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        given = next((value for key, value in handler_call_details.invocation_metadata if key == "authorization"), "")
        if hmac.compare_digest(str(given).encode(), self._expected):
            self.last_call = time.monotonic()
            return await continuation(handler_call_details)
        return _REFUSAL


async def _refuse(_request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the bearer token is missing or wrong")


_REFUSAL: Handler = grpc.stream_stream_rpc_method_handler(_refuse)


class Daemon:
    """What one process serves."""

    def __init__(
        self,
        directory: RuntimeDirectory,
        choice: Choice,
        store: ImageStore,
        idle_timeout_seconds: float | None,
        max_sandboxes: int | None,
        storage_bytes: int,
    ) -> None:
        self._directory = directory
        self._choice = choice
        self._idle_timeout_seconds = idle_timeout_seconds
        runner_id = f"local-{os.uname().nodename}"
        self._images = images = Images(choice.images, store)
        self._manager = SandboxManager(
            choice, images, runner_id, directory.overlays, directory.snapshots, max_sandboxes, storage_bytes
        )
        self._manager.registry.on_change = self._plan_roster
        self._roster: asyncio.TimerHandle | None = None
        self._started = time.monotonic()
        self._token = secrets.token_urlsafe(32)
        self._guard = Guard(self._token)
        self._stopping = asyncio.Event()

    async def run(self, announce: Announce) -> None:
        options = [
            ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
        ]
        server = grpc.aio.server(interceptors=[self._guard], options=options)
        sandboxes = SandboxService(self._manager)
        sandbox_pb2_grpc.add_SandboxServiceServicer_to_server(sandboxes, server)
        discovery_pb2_grpc.add_DiscoveryServiceServicer_to_server(DiscoveryService(self._manager), server)
        own = ControlService(self._manager, sandboxes)
        control = grpc.method_handlers_generic_handler(
            "sandrl.runtime.v1.Control",
            {
                "Status": grpc.unary_unary_rpc_method_handler(self._status),
                "Save": grpc.unary_unary_rpc_method_handler(own.save),
                "Changes": grpc.unary_unary_rpc_method_handler(own.changes),
                "Step": grpc.unary_stream_rpc_method_handler(own.step),
                "Connections": grpc.unary_unary_rpc_method_handler(own.connections),
                "Reached": grpc.unary_unary_rpc_method_handler(own.reached),
            },
        )
        server.add_generic_rpc_handlers((control,))
        port = server.add_insecure_port("127.0.0.1:0")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        await server.start()
        endpoint = DaemonEndpoint(f"http://127.0.0.1:{port}", self._token, os.getpid(), self._directory.state_dir)
        self._directory.write(endpoint)
        logger.info(
            "serving on %s, isolation %s: %s; %s",
            endpoint.base_url,
            self._choice.launcher.name,
            self._choice.detail,
            self._choice.groups_detail,
        )
        announce(endpoint)
        try:
            await self._wait_for_end()
        finally:
            self._manager.registry.on_change = lambda: None
            if self._roster is not None:
                self._roster.cancel()
            self._directory.clear()
            # Nobody who found it just before must take it for one that stays: it refuses every further call at once.
            ending = asyncio.ensure_future(server.stop(_STOP_SECONDS))
            await self._manager.close()
            await ending
            logger.info("stopped")

    def _plan_roster(self) -> None:
        # A shell that completes a command line has no time for a call. Its file is written at most once a second,
        # however many sandboxes start and end in between.
        if self._roster is None:
            self._roster = asyncio.get_running_loop().call_later(_ROSTER_PAUSE_SECONDS, self._write_roster)

    def _write_roster(self) -> None:
        self._roster = None
        newest = self._manager.registry.living()[-_MOST_IN_ROSTER:]
        try:
            self._directory.write_roster([(record.sandbox_id, list(record.spec.tags)) for record in newest])
        except OSError as error:
            logger.warning("the roster of sandboxes cannot be written: %s", error.strerror)

    async def _wait_for_end(self) -> None:
        while not self._stopping.is_set():
            timeout = None
            if self._idle_timeout_seconds is not None:
                if self._manager.registry.living():
                    self._guard.last_call = time.monotonic()
                timeout = self._guard.last_call + self._idle_timeout_seconds - time.monotonic()
                if timeout <= 0:
                    logger.info("idle for %g s", self._idle_timeout_seconds)
                    return
            try:
                await asyncio.wait_for(self._stopping.wait(), timeout)
            except TimeoutError:
                continue

    async def _status(self, _request: bytes, _context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        own, family = of_process(os.getpid()), below(os.getpid())
        condition = await self._choice.launcher.condition()
        status = {
            "uptime_seconds": round(time.monotonic() - self._started, 3),
            "sandboxes": len(self._manager.registry.living()),
            "isolation": self._choice.launcher.name,
            "isolation_detail": f"{self._choice.detail}; {self._choice.groups_detail}",
            "host_users": self._choice.launcher.users.detail,
            "is_well": condition.is_well,
            "condition": condition.detail,
            "restarts": condition.restarts,
            "images": [image.reference for image in self._choice.images],
            "stored_images": self._images.stored(),
            "default_image": self._choice.images[0].reference,
            "idle_timeout_seconds": self._idle_timeout_seconds,
            "suggested_concurrency": suggested_concurrency(),
            "server_cpu_seconds": own.cpu_seconds,
            "sandbox_cpu_seconds": family.cpu_seconds,
            "processes": family.processes,
            "open_descriptors": len(os.listdir("/proc/self/fd")),
            "resident_bytes": own.resident_bytes,
        }
        return json.dumps(status).encode()


def run(
    directory: RuntimeDirectory,
    *,
    idle_timeout_seconds: float | None,
    announce: Announce,
    max_sandboxes: int | None = None,
) -> None:
    """Be the daemon of a directory until it ends; if it has one, announce that one and return.

    Raises:
        RuntimeUnavailableError: If code cannot be isolated here.
    """
    patience = time.monotonic() + _PATIENCE_SECONDS
    # Whoever looks for a daemon holds the same lock for a moment, and one that starts or ends for a while.
    while (alive := directory.hold_alive()) is None:
        running = directory.find()
        if running is not None:
            announce(running)
            return
        if time.monotonic() > patience:
            raise RuntimeUnavailableError("another local runtime is starting or stopping", hint="try again")
        time.sleep(_PAUSE_SECONDS)
    with alive:
        _log_to(directory.log)
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
        asyncio.run(_serve(directory, idle_timeout_seconds, announce, max_sandboxes))


async def _serve(
    directory: RuntimeDirectory, idle_timeout_seconds: float | None, announce: Announce, max_sandboxes: int | None
) -> None:
    settings = load_settings()
    store, storage_bytes = open_store(settings), _storage_bytes(settings)
    choice = await choose_launcher(find_images(), directory.path, directory.make_shown(), store.layers)
    await Daemon(directory, choice, store, idle_timeout_seconds, max_sandboxes, storage_bytes).run(announce)


def _storage_bytes(settings: Settings) -> int:
    try:
        size = bytes_of(settings.sandbox_storage)
    except ValueError as error:
        raise RuntimeUnavailableError(f"SANDRL_SANDBOX_STORAGE: {error}", hint="for example 10GiB") from error
    return size if isinstance(size, int) else 0


def _log_to(path: Path) -> None:
    if path.exists() and path.stat().st_size > _LOG_KEPT_BYTES:
        path.replace(path.with_suffix(".log.1"))
    root = logging.getLogger("sandrl")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.INFO)
