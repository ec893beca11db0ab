"""The sandboxes on all nodes of a Ray cluster: found, and stopped.

Every operation calls every node (`sandrl.sandboxes.node`), because only a node's own local runtime has the list of its
sandboxes. A node that does not answer does not affect the answers of the others; the connection reports such nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NoReturn

from sandrl.deadlines import in_background
from sandrl.errors import InfrastructureError, UnknownSandboxError, UsageError
from sandrl.fleet.cluster import Cluster, Host, Node, answer_within, answers_within
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.protocol import (
    AttachedProgram,
    Client,
    Connection,
    Output,
    Result,
    Sandbox,
    SandboxInfo,
    UnreachableNode,
)
from sandrl.sandboxes.shape import USUAL, Shape

# How long a node may take to list its sandboxes (starting a process for that takes some seconds), and to stop one.
_ANSWER_SECONDS = 60.0
_STOP_SECONDS = 120.0
_SANDBOXES = "sandrl.sandboxes.node:NodeSandboxes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesConnection(Connection):
    """A cluster whose existing sandboxes are listed and stopped.

    Attributes:
        reasons: Why nodes could not be asked so far, by their names.
    """

    cluster: Cluster = field(repr=False, compare=False)
    nodes: tuple[Node, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> Client:
        return NodesClient(self)

    def unreached(self) -> tuple[UnreachableNode, ...]:
        return tuple(UnreachableNode(name, reason) for name, reason in self.reasons.items())


class NodesClient:
    def __init__(self, connection: NodesConnection) -> None:
        self._cluster = connection.cluster
        self._nodes = connection.nodes
        self._reasons = connection.reasons
        self._lock = threading.Lock()
        self._hosts: dict[Node, Host] | None = None

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> Sandbox:
        raise UsageError("sandboxes on the nodes of a Ray cluster can only be created by jobs, each on its own node")

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        def work() -> list[Sandbox]:
            found: dict[str, Sandbox] = {}
            for node, host, sandboxes in self._ask("list", tuple(tags), ended):
                for info in sandboxes:
                    # Nodes that share a machine and a state directory have the same sandboxes.
                    found.setdefault(info.id, _NodeSandbox(info, node, host))
            return list(found.values())

        return in_background(work)

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        def work() -> Sandbox:
            for node, host, info in self._ask("get", sandbox_id):
                if info is not None:
                    return _NodeSandbox(info, node, host)
            if self._reasons:
                names = ", ".join(self._reasons)
                raise InfrastructureError(
                    f"no node that answered has a sandbox {sandbox_id!r}; nodes that could not be queried: {names}"
                )
            raise UnknownSandboxError(sandbox_id)

        return in_background(work)

    def ping(self) -> Future[None]:
        def work() -> None:
            self._cluster.nodes()

        return in_background(work)

    def abandon(self) -> None: ...

    def close(self, timeout_seconds: float) -> None: ...

    def _ask(self, method: str, *arguments: object) -> Sequence[tuple[Node, Host, Any]]:
        hosts = self._usable()
        asked = [(node, host.ask(method, *arguments)) for node, host in hosts.items()]
        answers = []
        for node, answer in answers_within(_ANSWER_SECONDS, asked):
            if isinstance(answer, InfrastructureError):
                self._reasons[node.name] = answer.message
            else:
                answers.append((node, hosts[node], answer))
        if not answers:
            reasons = "; ".join(self._reasons.values())
            raise InfrastructureError(f"no node of the Ray cluster can list its sandboxes: {reasons}")
        return answers

    def _usable(self) -> dict[Node, Host]:
        with self._lock:
            if self._hosts is None:
                self._hosts = {node: self._cluster.hold(node, _SANDBOXES) for node in self._nodes}
        return {node: host for node, host in self._hosts.items() if node.name not in self._reasons}


class _NodeSandbox:
    def __init__(self, info: SandboxInfo, node: Node, host: Host) -> None:
        self._info = replace(info, runner=node.name)
        self._node = node
        self._host = host

    @property
    def id(self) -> str | None:
        return self._info.id

    @property
    def started_at(self) -> datetime | None:
        return self._info.started_at

    @property
    def info(self) -> SandboxInfo:
        return self._info

    def start(self) -> Future[None]:
        return in_background(lambda: None)

    def run(self, command: Command) -> Future[Result]:
        self._refuse("exec", " -- COMMAND")

    def attach(
        self, argv: Sequence[str], *, stdin: bool, stdout: Output, stderr: Output, timeout_seconds: float
    ) -> AttachedProgram:
        self._refuse("exec", " -- COMMAND")

    def open_terminal(
        self, argv: Sequence[str], *, columns: int, rows: int, output: Callable[[bytes], None]
    ) -> AttachedProgram:
        self._refuse("exec", " -- COMMAND")

    def read_file(self, path: str) -> Future[bytes]:
        self._refuse("exec", f" -- cat {path}")

    def write_file(self, path: str, content: bytes) -> Future[None]:
        self._refuse("exec", f" -- tee {path}")

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        self._refuse("logs", "")

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        def work() -> None:
            stopped = answer_within(_STOP_SECONDS, self._node, self._host.ask("stop", self._info.id))
            if not stopped and not missing_ok:
                raise UnknownSandboxError(self._info.id)

        return in_background(work)

    def _refuse(self, command: str, words: str) -> NoReturn:
        node = self._node.name
        raise UsageError(
            f"sandbox {self._info.id!r} is on node {node}, and can only be used from there",
            hint=f"run on {node}: sandrl sandboxes {command} {self._info.id} --runtime local{words}",
        )
