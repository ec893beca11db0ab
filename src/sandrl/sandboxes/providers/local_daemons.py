"""The sandboxes of all local runtimes of this user: each environment and each version of sandrl has its own daemon.

Existing sandboxes are found and stopped through this connection; jobs use that of the daemon of their own environment.
A daemon that does not answer hides only its own sandboxes: it is reported with the reason (`Connection.unreached`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeAlias, TypeVar

from sandrl.deadlines import in_background
from sandrl.errors import InfrastructureError, SandrlError, ServiceError, UnknownSandboxError, UsageError
from sandrl.events import Emit, ignore
from sandrl.runtime.state import DaemonEndpoint
from sandrl.sandboxes.daemons import ask
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.sandboxes.providers.protocol import Client, Connection, Sandbox, UnreachableNode
from sandrl.sandboxes.shape import USUAL, Shape

_Value = TypeVar("_Value")
_Daemon: TypeAlias = tuple[DaemonEndpoint, SdkConnection]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonsConnection(Connection):
    """The local runtimes of this user on this machine, to list and stop existing sandboxes.

    Attributes:
        reasons: Why daemons could not be asked, by name.
    """

    daemons: tuple[_Daemon, ...] = field(repr=False, compare=False)
    emit: Emit = field(default=ignore, repr=False, compare=False)
    reasons: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> Client:
        return DaemonsClient(self)

    def addresses(self) -> tuple[str, ...]:
        return tuple(endpoint.base_url for endpoint, _ in self.daemons if endpoint.base_url)

    def unreached(self) -> tuple[UnreachableNode, ...]:
        return tuple(UnreachableNode(name, reason) for name, reason in self.reasons.items())


class DaemonsClient:
    def __init__(self, connection: DaemonsConnection) -> None:
        self._connection = connection
        self._lock = Lock()
        self._clients: list[tuple[_Daemon, Client]] | None = None

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> Sandbox:
        raise UsageError("sandboxes can only be created by jobs, each in the runtime of its own environment")

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        return in_background(
            lambda: [sandbox for found in self._ask(lambda client: client.list(tags, ended=ended)) for sandbox in found]
        )

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        def work() -> Sandbox:
            found = self._ask(lambda client: client.get(sandbox_id))
            if found:
                return found[0]
            if self._connection.reasons:
                raise InfrastructureError(
                    f"no runtime that answers has a sandbox {sandbox_id!r}; "
                    + "; ".join(self._connection.reasons.values())
                )
            raise UnknownSandboxError(sandbox_id)

        return in_background(work)

    def ping(self) -> Future[None]:
        def work() -> None:
            self._ask(lambda client: client.ping())

        return in_background(work)

    def abandon(self) -> None:
        # It has made none.
        pass

    def close(self, timeout_seconds: float) -> None:
        # It has made none.
        pass

    def _ask(self, question: Callable[[Client], Future[_Value]]) -> Sequence[_Value]:
        asked = [(one, question(client)) for one, client in self._usable()]
        answers, failed = [], 0
        for one, future in asked:
            try:
                answers.append(future.result())
            except UnknownSandboxError:
                continue
            except ServiceError as error:
                failed += not self._note(one, error)
        if failed and failed == len(asked):
            raise InfrastructureError("; ".join(self._connection.reasons.values()))
        return answers

    def _usable(self) -> Sequence[tuple[_Daemon, Client]]:
        with self._lock:
            if self._clients is None:
                opening = [in_background(partial(self._open, each)) for each in self._connection.daemons]
                self._clients = [found for each in opening if (found := each.result()) is not None]
            if not self._clients and self._connection.reasons:
                raise InfrastructureError("; ".join(self._connection.reasons.values()))
            reasons = self._connection.reasons
            return [(one, client) for one, client in self._clients if _name(one) not in reasons]

    def _open(self, one: _Daemon) -> tuple[_Daemon, Client] | None:
        endpoint, connection = one
        try:
            found = ask(endpoint, self._connection.emit)
        except SandrlError as error:
            self._note(one, error)
            return None
        return (one, connection.open()) if found.running else None

    def _note(self, one: _Daemon, error: SandrlError) -> bool:
        # Returns whether the daemon has just ended, with its sandboxes.
        endpoint, connection = one
        if connection.has_ended is not None and connection.has_ended():
            return True
        if endpoint.base_url and len(self._connection.daemons) == 1:
            raise error
        self._connection.reasons[_name(one)] = f"{error.message} ({error.hint})" if error.hint else error.message
        return False


def _name(one: _Daemon) -> str:
    return f"local runtime (pid {one[0].pid})"
