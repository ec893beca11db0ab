"""The sandboxes on all nodes of a Ray cluster: found, and stopped.

Every operation calls every node (`sandrl.sandboxes.node`), because only a node's own local runtime has the list of its
sandboxes. A node that does not answer does not affect the answers of the others; the connection reports such nodes. A
node has one call under way at a time, so that a thousand stops start no more processes there than one: stops that are
requested meanwhile travel together.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from sandrl.deadlines import in_background
from sandrl.errors import InfrastructureError, UnknownSandboxError, UsageError
from sandrl.fleet.cluster import Cluster, Node
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

if TYPE_CHECKING:
    from sandrl.sandboxes.node import StopResults

ANSWER_SECONDS = 30.0
"""How long a node may take to list its sandboxes; starting a process for that takes some seconds."""

STOP_SECONDS = 120.0
"""How long a node may take to stop the sandboxes of one call."""

_LIST = "sandrl.sandboxes.node:list_sandboxes"
_GET = "sandrl.sandboxes.node:get_sandbox"
_STOP = "sandrl.sandboxes.node:stop_sandboxes"


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
        self._is_examined = False
        self._stops = {node.id: _StopsOfNode(connection.cluster, node) for node in connection.nodes}

    def create(self, tags: Sequence[str], cells: int = 0) -> Sandbox:
        raise UsageError("sandboxes on the nodes of a Ray cluster can only be created by jobs, each on its own node")

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        def work() -> list[Sandbox]:
            found: dict[str, Sandbox] = {}
            for node, sandboxes in self._ask(_LIST, tuple(tags), ended):
                for info in sandboxes:
                    # Nodes that share a machine and a state directory have the same sandboxes.
                    found.setdefault(info.id, self._seen(node, info))
            return list(found.values())

        return in_background(work)

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        def work() -> Sandbox:
            for node, info in self._ask(_GET, sandbox_id):
                if info is not None:
                    return self._seen(node, info)
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

    def _seen(self, node: Node, info: SandboxInfo) -> Sandbox:
        return _NodeSandbox(replace(info, runner=node.name), self._stops[node.id])

    def _ask(self, function: str, *arguments: object) -> Sequence[tuple[Node, Any]]:
        answers = []
        for node, answer in self._cluster.ask(self._usable(), function, *arguments, timeout_seconds=ANSWER_SECONDS):
            if isinstance(answer, InfrastructureError):
                self._reasons[node.name] = answer.message
            else:
                answers.append((node, answer))
        if not answers:
            reasons = "; ".join(self._reasons.values())
            raise InfrastructureError(f"no node of the Ray cluster can list its sandboxes: {reasons}")
        return answers

    def _usable(self) -> Sequence[Node]:
        with self._lock:
            if not self._is_examined:
                for facts in self._cluster.examine(self._nodes):
                    if facts.problem:
                        self._reasons[facts.node.name] = f"node {facts.node.name}: {facts.problem}"
                self._is_examined = True
        return [node for node in self._nodes if node.name not in self._reasons]


class _StopsOfNode:
    # Stops that are requested while others are under way are sent together afterwards.

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.node = node
        self._cluster = cluster
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, Future[bool]]] = []
        self._is_busy = False

    def begin(self, sandbox_id: str) -> Future[bool]:
        end: Future[bool] = Future()
        with self._lock:
            self._waiting.append((sandbox_id, end))
            if not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._work, name="sandrl-stops", daemon=True).start()
        return end

    def _work(self) -> None:
        while True:
            with self._lock:
                batch, self._waiting = self._waiting, []
                if not batch:
                    self._is_busy = False
                    return
            ids = tuple(sandbox_id for sandbox_id, _ in batch)
            try:
                [(_, stops)] = self._cluster.ask([self.node], _STOP, ids, timeout_seconds=STOP_SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where these stops are waited for
                stops = error
            for sandbox_id, end in batch:
                self._settle(end, sandbox_id, stops)

    def _settle(self, end: Future[bool], sandbox_id: str, stops: StopResults | Exception) -> None:
        if isinstance(stops, Exception):
            end.set_exception(stops)
        elif sandbox_id in stops.failed:
            end.set_exception(InfrastructureError(f"node {self.node.name}: {stops.failed[sandbox_id]}"))
        else:
            end.set_result(sandbox_id not in stops.unknown)


class _NodeSandbox:
    def __init__(self, info: SandboxInfo, stops: _StopsOfNode) -> None:
        self._info = info
        self._stops = stops

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

    def read_file(self, path: str) -> Future[bytes]:
        self._refuse("exec", f" -- cat {path}")

    def write_file(self, path: str, content: bytes) -> Future[None]:
        self._refuse("exec", f" -- tee {path}")

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        self._refuse("logs", "")

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        end: Future[None] = Future()

        def settle(stopped: Future[bool]) -> None:
            error = stopped.exception()
            if error is None and not stopped.result() and not missing_ok:
                error = UnknownSandboxError(self._info.id)
            if error is None:
                end.set_result(None)
            else:
                end.set_exception(error)

        self._stops.begin(self._info.id).add_done_callback(settle)
        return end

    def _refuse(self, command: str, words: str) -> NoReturn:
        node = self._stops.node.name
        raise UsageError(
            f"sandbox {self._info.id!r} is on node {node}, and can only be used from there",
            hint=f"run on {node}: sandrl sandboxes {command} {self._info.id} --runtime local{words}",
        )
