"""A service from its start to its end: sockets, TLS, the token, the job, and signals.

The HTTP server runs in a thread of its own, and the scorer in another one; the main thread waits until the user stops
the service. The address is printed only after a program has run in a sandbox, so a service with an address is ready.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import uvicorn

from sandrl.config.serve import ServeConfig
from sandrl.errors import (
    BudgetError,
    InfrastructureError,
    InterruptedRunError,
    RuntimeUnavailableError,
    ServiceError,
    UsageError,
)
from sandrl.events import Emit, ServiceLogged, ServiceStarted, ServiceStopping, Warned, all_of, ignore
from sandrl.files import raise_descriptor_limit
from sandrl.judge.calibration import packages_of
from sandrl.judge.limits import Limits
from sandrl.judge.running import Program
from sandrl.problems.quality import QualityFilter
from sandrl.remote.client import TCP_KEEP_ALIVE
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.sandboxes import Interrupt, Level, SandboxRequest
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.scorer import Scorer
from sandrl.service.app import make_app
from sandrl.service.edge import Edge
from sandrl.service.metrics import ServiceMetrics
from sandrl.service.problems import ProblemBook, load_sets
from sandrl.service.protocol import BoundedProtocol
from sandrl.service.state import Service
from sandrl.service.tokens import Token, token_for
from sandrl.settings import Settings

KEEP_ALIVE_SECONDS = 3600
"""How long a connection may be idle: trainers send one request per step, and a step may take long."""

LEAST_LIFETIME_SECONDS = 3600.0
"""The least lifetime of sandboxes; a request whose limits exceed the remaining lifetime is refused."""

_LIFETIME_MARGIN_SECONDS = 300.0
_WAITING_CONNECTIONS = 2048
_LOOK_SECONDS = 0.1
_ENDING_SECONDS = 5
_TRIAL_SECONDS = 60.0


def serve(config: ServeConfig, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None) -> None:
    """Serves until the user wishes to stop.

    Raises:
        UsageError: If it cannot be served so.
        ServiceError: If there is no runtime, or no program runs in it.
        BudgetError: If the budget is used up.
        InterruptedRunError: If requests in hand were given up at the end.
        CleanupError: If sandboxes were left behind.
    """
    interrupt = interrupt or Interrupt()
    raise_descriptor_limit()
    check_exposure(config)
    context = _tls(config)
    quality = QualityFilter.of(config, settings)
    problems = load_sets(config, emit, quality)
    options = ScoreOptions.of(config)
    lifetime = max(lifetime_seconds(problems, options.limits), LEAST_LIFETIME_SECONDS)
    cache = VerdictCache(config.cache)
    with ExitStack() as stack:
        listening = stack.enter_context(_listening(config))
        port: int = listening.getsockname()[1]
        token = stack.enter_context(token_for(settings, port))
        sandboxes = SandboxRequest.of(config, "sandrl-service")
        allowance = sandboxes.allowance(settings)
        connection = sandboxes.connect(settings, needed=packages_of(problems.values()), emit=emit)
        metrics = ServiceMetrics(lambda: scorer.waiting, lambda: scorer.in_flight)
        job = stack.enter_context(
            sandboxes.job(
                connection,
                command="serve",
                max_lifetime_seconds=lifetime,
                allowance=allowance,
                interrupt=interrupt,
                emit=all_of(emit, metrics.told),
            )
        )
        scorer = stack.enter_context(
            Scorer(
                job,
                concurrency=config.concurrency,
                cache=cache,
                max_waiting=config.max_queue,
                longest_seconds=lifetime - _LIFETIME_MARGIN_SECONDS,
                emit=metrics.told,
            )
        )
        service = Service(
            config=config,
            job_id=job.id,
            scorer=scorer,
            book=ProblemBook(problems, quality=quality),
            metrics=metrics,
            memory_bytes=connection.memory_bytes,
            warn=lambda message, hint: emit(Warned(message, hint, fields=("sandbox_memory_bytes",))),
        )
        _try_a_program(scorer)
        server = stack.enter_context(_server(service, token, context, listening, emit))
        with interrupt.heard():
            address = f"{'https' if context else 'http'}://{_shown(config.host)}:{port}"
            emit(ServiceStarted(address, token.place, len(problems)))
            _wait(server, interrupt)
            left = _drain(scorer, config.drain_seconds, interrupt, emit)
            service.episodes.close()
            service.e2b.close()
            # What is left is answered before the connections are closed.
            scorer.close()
    if (cleanup_error := job.cleanup_error()) is not None:
        raise cleanup_error
    if interrupt.is_exhausted:
        message = job.exhausted + (f": {left} unfinished requests were given up" if left else "")
        raise BudgetError(message, hint="start the service again with a larger `budget`", fields=("budget",))
    if left:
        message = f"{left} unfinished requests were given up"
        raise InterruptedRunError(message, signal_number=interrupt.signal_number, hint="clients may send them again")


class _Server:
    def __init__(self, settings: uvicorn.Config, listening: socket.socket) -> None:
        self.uvicorn = uvicorn.Server(settings)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(listening,), name="sandrl-http", daemon=True)

    def _run(self, listening: socket.socket) -> None:
        try:
            self.uvicorn.run([listening])
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.error = error


@contextmanager
def _server(
    service: Service, token: Token, context: ssl.SSLContext | None, listening: socket.socket, emit: Emit
) -> Iterator[_Server]:
    app = Edge(
        make_app(service),
        token,
        max_body_bytes=service.config.max_body_bytes,
        metrics=service.metrics,
        log=lambda text: emit(ServiceLogged(text.rstrip("\n"))),
        is_logging=service.config.access_log,
    )
    settings = uvicorn.Config(
        app,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=_WAITING_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_ENDING_SECONDS,
        ssl_context_factory=None if context is None else lambda *_: context,
    )
    server = _Server(settings, listening)
    server.thread.start()
    try:
        while not server.uvicorn.started and server.thread.is_alive():
            time.sleep(_LOOK_SECONDS / 10)
        yield server
    finally:
        server.uvicorn.should_exit = True
        server.thread.join(2 * _ENDING_SECONDS)


def check_exposure(config: ServeConfig) -> None:
    """Refuses to listen where others can read the token on its way.

    Raises:
        UsageError: If the address is not of this machine alone, and nothing is encrypted.
    """
    if config.certificate is not None or config.insecure or is_loopback(config.host):
        return
    raise UsageError(
        f"host {config.host} can be reached from other machines, and without TLS the token can be read on the network",
        hint="set `certificate` and certificate_key, or listen on 127.0.0.1 behind a proxy or an SSH tunnel",
        fields=("host", "certificate", "certificate_key"),
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _tls(config: ServeConfig) -> ssl.SSLContext | None:
    if config.certificate is None or config.certificate_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for path in (config.certificate, config.certificate_key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise UsageError(
                f"{path}: cannot be read: {error.strerror}", fields=("certificate", "certificate_key")
            ) from error
    try:
        context.load_cert_chain(config.certificate, config.certificate_key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        message = (
            f"certificate {config.certificate} and certificate_key {config.certificate_key} cannot be used: {error}"
        )
        hint = "both must be PEM files, and the key must belong to the certificate and have no password"
        raise UsageError(message, hint=hint, fields=("certificate", "certificate_key")) from error
    return context


@contextmanager
def _listening(config: ServeConfig) -> Iterator[socket.socket]:
    host = config.host.strip("[]")
    try:
        family, *_, address = socket.getaddrinfo(host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"host {config.host} is not a valid address: {error.strerror}", fields=("host",)) from error
    with listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted connections inherit these.
            for level, name, value in TCP_KEEP_ALIVE:
                listening.setsockopt(level, name, value)
            listening.bind(address)
            listening.listen(_WAITING_CONNECTIONS)
        except OSError as error:
            message = f"cannot listen on {config.host} port {config.port}: {error.strerror}"
            raise UsageError(message, hint="choose another `port`, or 0 for any free port", fields=("port",)) from error
        yield listening


def _shown(host: str) -> str:
    return f"[{host.strip('[]')}]" if ":" in host else host


def _try_a_program(scorer: Scorer) -> None:
    # This also warms the sandboxes up.
    try:
        result = scorer.run(Program("print(6 * 7)"), Limits()).result(_TRIAL_SECONDS)
    except TimeoutError:
        raise RuntimeUnavailableError(
            "no sandbox ran a program within a minute", hint="check the runtime: sandrl doctor"
        ) from None
    except ServiceError:
        raise
    if result.run is None or result.run.stdout != "42\n":
        raise InfrastructureError(f"sandboxes do not run programs: {result.detail or result.status.value}")


def _wait(server: _Server, interrupt: Interrupt) -> None:
    while not interrupt.level:
        waker = interrupt.waker()
        if interrupt.level:
            return
        try:
            waker.result(1.0)
        except TimeoutError:
            if not server.thread.is_alive():
                raise ServiceError(f"the HTTP server ended: {server.error}") from server.error


def _drain(scorer: Scorer, seconds: float, interrupt: Interrupt, emit: Emit) -> int:
    scorer.refuse_more()
    emit(ServiceStopping(scorer.unfinished, seconds))
    ends_at = time.monotonic() + seconds
    while scorer.unfinished and time.monotonic() < ends_at and interrupt.level is not Level.CANCEL:
        time.sleep(_LOOK_SECONDS)
    return scorer.unfinished
