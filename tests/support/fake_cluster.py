"""A cluster without Ray, whose nodes answer as tests say."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from sandrl.errors import InfrastructureError
from sandrl.fleet.actor import Reply
from sandrl.fleet.cluster import Cluster, Node


class FakeCluster(Cluster):
    """A cluster with these hosts, by the names of their nodes.

    Attributes:
        leaving: The names of the nodes that are being drained.
    """

    def __init__(self, hosts: Mapping[str, Any]) -> None:
        super().__init__(None, "127.0.0.2:6379")
        self.hosts = dict(hosts)
        self.leaving: set[str] = set()

    def nodes(self) -> list[Node]:
        return [Node(f"id-of-{name}", name, "127.0.0.2", 2.0, name in self.leaving) for name in self.hosts]

    def hold(self, node: Node, name: str, *arguments: object) -> Any:
        host = self.hosts[node.name]
        host.begin(*arguments)
        return host


class FakeHost:
    """An object of a node that answers at once: what a method of it returns or raises."""

    def begin(self, *arguments: Any) -> None: ...

    def ask(self, method: str, *arguments: Any) -> Future[Reply]:
        answer: Future[Reply] = Future()
        try:
            answer.set_result((getattr(self, method)(*arguments), None))
        except InfrastructureError as error:
            answer.set_result((None, (error.message, error.hint)))
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            answer.set_exception(error)
        return answer
