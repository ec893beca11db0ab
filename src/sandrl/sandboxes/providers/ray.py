"""The machines of a Ray cluster, each with its own local runtime.

Completions are judged where the sandboxes are, by the part of a job that each node has (see
`sandrl.scoring.fleet_node`). So a job makes no sandboxes through this connection except those of its episodes, and
these are on this machine: its local runtime is started for the first of them. Existing sandboxes are found and stopped
through another connection, which calls all nodes (`sandrl.sandboxes.providers.ray_nodes`).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from sandrl.events import Emit, ignore
from sandrl.fleet.cluster import Cluster
from sandrl.fleet.cluster import connect as connect_to_cluster
from sandrl.runtime.limits import MEMORY_BYTES
from sandrl.sandboxes.providers import local
from sandrl.sandboxes.providers.protocol import Client, Connection, Need, Packages, Sandbox
from sandrl.sandboxes.providers.ray_nodes import NodesConnection
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.settings import RuntimeKind, Settings

_Value = TypeVar("_Value")


class RayProvider:
    summary: str = "the machines of a Ray cluster run the sandboxes, each with its local runtime"
    needs: frozenset[Need] = frozenset({Need.CLUSTER})

    def connect(
        self,
        settings: Settings,
        *,
        reason: str,
        image: str | None,
        packages: Packages,
        private_hosts: tuple[str, ...] = (),
        emit: Emit,
    ) -> RayConnection:
        cluster = connect_to_cluster(settings.ray_address)
        nodes = cluster.nodes()

        def open_here() -> Connection:
            return local.PROVIDER.connect(
                settings, reason=reason, image=image, packages=packages, private_hosts=private_hosts, emit=emit
            )

        def find_here() -> Connection | None:
            return local.PROVIDER.find_own(settings, reason=reason)

        return RayConnection(
            kind=RuntimeKind.RAY,
            reason=reason,
            address=cluster.address,
            image=image or f"python {platform.python_version()}",
            is_local=False,
            suggested_concurrency=max(round(sum(node.cpus for node in nodes)), 1),
            has_site_packages=packages != Packages(),
            packages=packages,
            overlay=",".join((*packages.asked, *packages.needed)),
            memory_bytes=MEMORY_BYTES,
            state_dir=settings.state_dir,
            cluster=cluster,
            node_count=len(nodes),
            asked_image=image,
            open_here=open_here,
            find_here=find_here,
        )

    def find(self, settings: Settings, *, reason: str, emit: Emit = ignore) -> NodesConnection | None:
        cluster = connect_to_cluster(settings.ray_address)
        nodes = cluster.nodes()
        if not nodes:
            return None
        return NodesConnection(
            kind=RuntimeKind.RAY,
            reason=reason,
            address=cluster.address,
            image="",
            is_local=False,
            state_dir=settings.state_dir,
            way_out="`ray status` lists the nodes of the cluster",
            cluster=cluster,
            nodes=tuple(nodes),
        )

    def absence(self, settings: Settings) -> str:
        return "No node of the Ray cluster has processors for scoring, so there are no sandboxes."


PROVIDER = RayProvider()


@dataclass(frozen=True, slots=True, kw_only=True)
class RayConnection(Connection):
    """A cluster, for a job whose completions its nodes judge.

    Attributes:
        asked_image: The requested image; None for the default of each node.
        find_here: Finds it; None if it does not run.
    """

    cluster: Cluster = field(repr=False, compare=False)
    node_count: int = 1
    asked_image: str | None = None
    open_here: Callable[[], Connection] = field(repr=False, compare=False)
    find_here: Callable[[], Connection | None] = field(repr=False, compare=False)

    def named(self) -> tuple[str, str | None]:
        return f"{self.kind}:{self.address}", self.asked_image

    def concurrency(self, asked: int | None, *, least: int = 1, processes: int = 1) -> int | None:
        return asked

    def at_once(self, concurrency: int | None) -> int:
        return self.suggested_concurrency if concurrency is None else concurrency * max(self.node_count, 1)

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> Client:
        return _ClientHere(self, tags, max_lifetime_seconds)


class _ClientHere:
    # The local runtime of this machine is started for the first sandbox that is made.

    def __init__(self, connection: RayConnection, tags: Sequence[str], max_lifetime_seconds: float | None) -> None:
        self._connection = connection
        self._tags = tuple(tags)
        self._max_lifetime_seconds = max_lifetime_seconds
        self._lock = Lock()
        self._client: Client | None = None

    def _found(self, connect: Callable[[], Connection | None]) -> Client | None:
        with self._lock:
            if self._client is None and (found := connect()) is not None:
                self._client = found.open(tags=self._tags, max_lifetime_seconds=self._max_lifetime_seconds)
            return self._client

    def _opened(self) -> Client:
        client = self._found(self._connection.open_here)
        assert client is not None, "it was started"
        return client

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> Sandbox:
        return self._opened().create(tags, cells, shape)

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        return self._opened().get(sandbox_id)

    def ping(self) -> Future[None]:
        found = self._found(self._connection.find_here)
        return _done(None) if found is None else found.ping()

    def abandon(self) -> None:
        if self._client is not None:
            self._client.abandon()

    def close(self, timeout_seconds: float) -> None:
        if self._client is not None:
            self._client.close(timeout_seconds)

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        found = self._found(self._connection.find_here)
        return _done([]) if found is None else found.list(tags, ended=ended)


def _done(value: _Value) -> Future[_Value]:
    done: Future[_Value] = Future()
    done.set_result(value)
    return done
