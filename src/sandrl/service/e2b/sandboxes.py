"""The sandboxes of E2B's clients: each is a machine of the service's job, until its time is over.

A sandbox belongs to the service, not to a connection. The service ends it at its time, which clients extend; the
runtime ends it after the longest time in any case.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sandrl.deadlines import in_background
from sandrl.errors import InfrastructureError, NoImageError, NoUserError, SandrlError, UsageError
from sandrl.runtime.network import Network
from sandrl.sandboxes import Command, Shape, Withdrawn
from sandrl.sandboxes.providers.protocol import Result
from sandrl.service.e2b.connect import PlainFailure, RpcError
from sandrl.settings import NetworkMode
from sandrl.trials import guest
from sandrl.trials.machine import ROOT, Machine
from sandrl.trials.place import RuntimeLost

if TYPE_CHECKING:
    from sandrl.service.e2b.processes import Process
    from sandrl.service.state import Service

LONGEST_SECONDS = 86_400
"""How long a sandbox may live."""

USUAL_SECONDS = 15
"""How long it lives if a client says nothing, as in E2B's API."""

USUAL_TEMPLATE = "base"
"""The template that E2B's SDKs name unless told otherwise: here the image of the service."""

TAG = "e2b"
ENVD_VERSION = "0.6.1"
"""What E2B's SDKs are told of envd, by which they know what it can do: file metadata came after it."""

GONE = "the sandbox was not found"
"""How E2B's SDKs recognise, from these words, that a sandbox has ended."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of a variable of a process."""

_STARTED_SECONDS, _ASKED_SECONDS = 300.0, 30.0
_ANSWER_BYTES = 1 << 20
_MOST_KEYS = 10_000


@dataclass(eq=False)
class E2BSandbox:
    """A sandbox that runs.

    Attributes:
        token: What authorises requests to its envd.
        processes: Those that run, by their process ids.
        lock: Held by who asks the machine, which one thread does at a time.
    """

    id: str
    template: str
    machine: Machine
    variables: Mapping[str, str]
    metadata: Mapping[str, str]
    started_at: datetime
    ends_at: datetime
    allows_internet: bool | None
    token: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)
    processes: dict[int, Process] = field(default_factory=dict)
    watchers: dict[str, Any] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    is_over: bool = False

    def document(self, service: Service) -> dict[str, Any]:
        """The sandbox as E2B's API describes it."""
        found = {
            "sandboxID": self.id,
            "templateID": self.template,
            "clientID": TAG,
            "envdVersion": ENVD_VERSION,
            "startedAt": _written(self.started_at),
            "endAt": _written(self.ends_at),
            "state": "running",
            "cpuCount": 1,
            "memoryMB": (service.memory_bytes or 0) >> 20,
            "diskSizeMB": 0,
            "metadata": dict(self.metadata),
        }
        return found if self.allows_internet is None else {**found, "allowInternetAccess": self.allows_internet}

    def with_token(self, service: Service) -> dict[str, Any]:
        return {**self.document(service), "envdAccessToken": self.token}

    def check(self) -> None:
        """Makes sure that it was not ended here.

        Raises:
            RpcError: If it was.
        """
        if self.is_over:
            raise RpcError("unavailable", f"{GONE}: {self.id!r}")

    async def becoming(self, user: str | None) -> tuple[list[str], dict[str, str]]:
        """As `Machine.becoming`, which may ask the sandbox.

        Raises:
            RpcError: If it has no such user, or has ended.
        """

        def found() -> tuple[list[str], dict[str, str]]:
            with self.lock:
                return self.machine.becoming(ROOT if user == "root" else user)

        try:
            return await asyncio.wrap_future(in_background(found))
        except NoUserError as error:
            raise RpcError("unauthenticated", f"invalid username: {error.message}") from error
        except (SandrlError, RuntimeLost) as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> RpcError:
        return RpcError("unavailable", f"the connection to sandbox {self.id} was lost: {error}")

    async def is_lost(self) -> bool:
        """Whether the sandbox has ended elsewhere; not, if it only did not answer this time."""

        def asked() -> bool:
            with suppress(SandrlError, RuntimeLost), self.lock:
                self.machine.ask(self.machine.program(":"), b"", _ASKED_SECONDS, _ANSWER_BYTES)
            return self.machine.is_lost

        return await asyncio.wrap_future(in_background(asked))

    async def run(
        self,
        program: str,
        *arguments: str,
        user: str | None = None,
        stdin: bytes = b"",
        most_bytes: int = _ANSWER_BYTES,
        is_own: bool = False,
    ) -> Result:
        """Runs a program of the shell to its end: as a user, or with `is_own` as the first user of the sandbox.

        Raises:
            RpcError: If the sandbox has ended, or there is no such user.
        """
        self.check()
        becoming = [] if is_own else (await self.becoming(user))[0]
        command = Command(
            (*becoming, *self.machine.program(program, "sh", *arguments)),
            stdin,
            _STARTED_SECONDS,
            most_output_bytes=most_bytes,
        )
        try:
            return await asyncio.wrap_future(self.machine.sandbox.run(command))
        except (SandrlError, RuntimeLost) as error:
            raise self.lost(error) from error


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


class E2BSandboxes:
    """The sandboxes of a service; only the thread of its event loop uses it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._running: dict[str, E2BSandbox] = {}
        self._made: dict[str, asyncio.Future[E2BSandbox]] = {}
        self._is_closed = threading.Event()

    def find(self, identifier: str) -> E2BSandbox:
        """A sandbox that runs.

        Raises:
            PlainFailure: If there is none.
        """
        found = self._running.get(identifier)
        if found is None:
            raise PlainFailure(HTTPStatus.NOT_FOUND, f"{GONE}: {identifier[:80]!r}")
        return found

    def of_envd(
        self, identifier: str, token: str, signed: Callable[[str], str | None] = lambda token: token
    ) -> E2BSandbox:
        """The sandbox of a request to its envd.

        Args:
            signed: What is to be given of its token; None if nothing opens it.

        Raises:
            PlainFailure: If it has ended, or the token is not its own.
        """
        named = self._running.get(identifier)
        if identifier and named is None:
            raise PlainFailure(HTTPStatus.BAD_GATEWAY, f"{GONE}: {identifier[:80]!r}")
        # A signed link to a service at one address names no sandbox.
        for each in list(self._running.values()) if named is None else [named]:
            wanted = signed(each.token)
            if wanted is not None and hmac.compare_digest(token.encode("utf-8", "replace"), wanted.encode()):
                return each
        raise PlainFailure(HTTPStatus.UNAUTHORIZED, "the access token is wrong")

    def all(
        self, metadata: Mapping[str, str], template: str | None, started_after: datetime | None, *, oldest_first: bool
    ) -> list[E2BSandbox]:
        """Those that run and have these metadata and this template, the newest first unless told otherwise."""
        found = (
            each
            for each in self._running.values()
            if metadata.items() <= each.metadata.items()
            and template in (None, each.template)
            and (started_after is None or each.started_at > started_after)
        )
        return sorted(found, key=lambda each: each.started_at, reverse=not oldest_first)

    async def create(self, body: Mapping[str, Any], key: str) -> E2BSandbox:
        """Makes a sandbox; requests with the same key get the same one while it is made or runs.

        Raises:
            PlainFailure: If it cannot be made.
        """
        known = self._made.get(key) if key else None
        if known is None or (known.done() and (known.exception() or known.result().is_over)):
            known = asyncio.ensure_future(self._create(body))
            if key:
                while len(self._made) >= _MOST_KEYS:
                    del self._made[next(iter(self._made))]
                self._made[key] = known
        return await asyncio.shield(known)

    async def _create(self, body: Mapping[str, Any]) -> E2BSandbox:
        template = _text(body, "templateID") or USUAL_TEMPLATE
        seconds = checked_seconds(body.get("timeout", USUAL_SECONDS))
        allows = body.get("allow_internet_access")
        shape = Shape(network=self._network(allows, body.get("network")), lifetime_seconds=float(LONGEST_SECONDS))
        variables, metadata = _texts(body, "envVars"), _texts(body, "metadata")
        if wrong := next((each for each in variables if not VARIABLE.fullmatch(each)), None):
            raise PlainFailure(HTTPStatus.BAD_REQUEST, f"envVars: {wrong[:60]!r} is not the name of a variable")
        for name in ("mcp", "iam", "volumeMounts"):
            if body.get(name):
                raise PlainFailure(HTTPStatus.BAD_REQUEST, f"{name}: this service does not have it")
        if body.get("autoPause"):
            raise PlainFailure(HTTPStatus.BAD_REQUEST, "autoPause: this service does not pause sandboxes")
        machine = await asyncio.wrap_future(self._started(template, shape))
        now = datetime.now(UTC)
        made = E2BSandbox(
            # The SDKs take letters, digits and `-`.
            (machine.sandbox_id or secrets.token_hex(10)).replace("_", "-"),
            template,
            machine,
            variables,
            metadata,
            now,
            now + timedelta(seconds=seconds),
            allows if isinstance(allows, bool) else None,
        )
        self._running[made.id] = made
        self.extend(made, seconds, is_exact=True)
        return made

    def _started(self, template: str, shape: Shape) -> Future[Machine]:
        place = self._service.scorer.place

        def start() -> Machine:
            image = "" if template == USUAL_TEMPLATE else place.find_image(template)
            machine = Machine(place, replace(shape, image=image, as_root=bool(image)), (TAG,))
            try:
                machine.start()
                if self._is_closed.is_set():
                    raise InfrastructureError("the service ends")
            except BaseException:
                machine.close()
                raise
            return machine

        def tried() -> Machine:
            try:
                return start()
            except (RuntimeLost, Withdrawn) as error:
                raise PlainFailure(HTTPStatus.SERVICE_UNAVAILABLE, f"the sandbox was not made: {error}") from error
            except SandrlError as error:
                is_clients = isinstance(error, UsageError) or (isinstance(error, NoImageError) and error.is_final)
                status = HTTPStatus.BAD_REQUEST if is_clients else HTTPStatus.SERVICE_UNAVAILABLE
                raise PlainFailure(status, f"the sandbox was not made: {error.message}", error.hint) from error

        return in_background(tried)

    def _network(self, allows: object, given: object) -> Network | None:
        if allows is False:
            return Network(NetworkMode.NONE)
        own = self._service.scorer.place.connection
        if given:
            raise PlainFailure(
                HTTPStatus.BAD_REQUEST,
                "network: rules of single sandboxes are not supported",
                "start the service with `network` and `allow_hosts`",
            )
        if allows is True and own.is_local and not own.has_network:
            raise PlainFailure(
                HTTPStatus.BAD_REQUEST,
                "allow_internet_access: this service gives sandboxes no network",
                "start it with `network` public",
            )
        return None

    def extend(self, sandbox: E2BSandbox, seconds: int, *, is_exact: bool) -> None:
        """Ends a sandbox so many seconds from now; without `is_exact`, not before its present end."""
        now = datetime.now(UTC)
        ends_at = now + timedelta(seconds=seconds)
        latest = sandbox.started_at + timedelta(seconds=LONGEST_SECONDS)
        sandbox.ends_at = min(ends_at if is_exact else max(sandbox.ends_at, ends_at), latest)
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        left = (sandbox.ends_at - now).total_seconds()
        sandbox.timer = asyncio.get_running_loop().call_later(left, self.end, sandbox)

    def end(self, sandbox: E2BSandbox) -> None:
        """Ends a sandbox with all of its processes."""
        if self._running.pop(sandbox.id, None) is None:
            return
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        sandbox.is_over = True
        sandbox.machine.close()

    def close(self) -> None:
        """Ends all sandboxes; on any thread, after the last request."""
        self._is_closed.set()
        for sandbox in list(self._running.values()):
            with suppress(RuntimeError):
                self.end(sandbox)


def checked_seconds(value: object) -> int:
    """A time-out of a sandbox.

    Raises:
        PlainFailure: If it is none, or too long.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONGEST_SECONDS:
        raise PlainFailure(HTTPStatus.BAD_REQUEST, f"timeout: must be from 0 to {LONGEST_SECONDS} seconds")
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name) or ""
    if not isinstance(value, str) or not _is_text(value):
        raise PlainFailure(HTTPStatus.BAD_REQUEST, f"{name}: must be a text")
    return value


def _texts(body: Mapping[str, Any], name: str) -> dict[str, str]:
    value = body.get(name) or {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise PlainFailure(HTTPStatus.BAD_REQUEST, f"{name}: must be texts by name")
    if any("\0" in each + text for each, text in value.items()):
        raise PlainFailure(HTTPStatus.BAD_REQUEST, f"{name}: has a NUL byte")
    if not all(_is_text(each + text) for each, text in value.items()):
        raise PlainFailure(HTTPStatus.BAD_REQUEST, f"{name}: has a character that UTF-8 does not have")
    return dict(value)


def _is_text(text: str) -> bool:
    # JSON can write halves of surrogate pairs, which nothing else takes.
    return not any("\ud800" <= each <= "\udfff" for each in text)


def words(argv: list[str], variables: Mapping[str, str], directory: str | None) -> bytes:
    """The first line of the standard input of a program that becomes a command."""
    return guest.lines(guest.command(argv, variables, directory))
