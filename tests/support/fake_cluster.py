"""A cluster without Ray, whose nodes answer as tests say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from sandrl.fleet.cluster import Cluster, Node, NodeFacts


class FakeCluster(Cluster):
    """A cluster with these hosts, by the names of their nodes.

    Attributes:
        problems: Why nodes cannot be used, by their names.
        leaving: The names of the nodes that are being drained.
    """

    def __init__(self, hosts: Mapping[str, Any]) -> None:
        super().__init__(None, "127.0.0.2:6379")
        self.hosts = dict(hosts)
        self.problems: Mapping[str, str] = {}
        self.leaving: set[str] = set()

    def nodes(self) -> list[Node]:
        return [Node(f"id-of-{name}", name, "127.0.0.2", 2.0, name in self.leaving) for name in self.hosts]

    def examine(self, nodes: Sequence[Node]) -> list[NodeFacts]:
        return [NodeFacts(node, "3.11.7", "0.1.0", self.problems.get(node.name, "")) for node in nodes]

    def hold(self, node: Node, name: str, *arguments: object) -> Any:
        host = self.hosts[node.name]
        host.begin(*arguments)
        return host


class FakeHost:
    """An object of a node that answers at once: the result of its method, or an error."""

    def begin(self, *arguments: Any) -> None: ...

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            answer.set_result(getattr(self, method)(*arguments))
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            answer.set_exception(error)
        return answer
