"""Watches which nodes a cluster has, repeatedly, on a thread of its own.

A cluster that does not answer, or a slow node, must not delay a verdict. The watcher therefore puts its findings into
the queue of the fleet, and the batch reads them when it has time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeAlias

from sandrl.errors import ServiceError
from sandrl.events import Warned
from sandrl.fleet.cluster import Cluster, Node, NodeFacts
from sandrl.rewards.fleet_link import Link, Said
from sandrl.rewards.parcels import Bundle

LOOK_SECONDS = 2.0
"""How long it takes at most until a node that has come, or gone, is noticed."""

# A node that lives, and whose part of the job was lost, gets another one so many times.
_MOST_RETURNS = 3


@dataclass(frozen=True, slots=True)
class Living:
    """The nodes that live.

    Attributes:
        ids: Their ids.
        leaving: Those of them that are being drained.
    """

    ids: frozenset[str]
    leaving: frozenset[str]


@dataclass(frozen=True, slots=True)
class Retired:
    """The part of the job on a node has ended, because the node is being drained.

    Attributes:
        link: Which node.
        bundle: What it said last.
    """

    link: Link
    bundle: Bundle


News: TypeAlias = "NodeFacts | Living | Retired | Warned | Said"
"""News for a fleet: nodes that were examined, nodes that are alive, a remark, and messages of nodes."""


class Watch:
    """Looks for nodes.

    Args:
        cluster: The cluster.
        nodes: Those it has now.
        news: Where to put what was found out.
        ring: Called after that.

    Attributes:
        count: How many nodes there were at the last look.
    """

    def __init__(
        self, cluster: Cluster, nodes: Sequence[Node], news: SimpleQueue[News], ring: Callable[[], None]
    ) -> None:
        self.count = len(nodes)
        self._cluster = cluster
        self._news = news
        self._ring = ring
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._again: set[str] = set()
        self._is_silent = False
        self._ended = threading.Event()
        self._examine(nodes)
        threading.Thread(target=self._look, name="sandrl-nodes", daemon=True).start()

    def look_again(self, node: Node) -> None:
        """Examines a node again if it is still there at the next look but one."""
        with self._lock:
            self._again.add(node.id)

    def refuse(self, node: Node) -> None:
        """Examines a node no more."""
        with self._lock:
            self._seen[node.id] = _MOST_RETURNS + 1

    def end(self) -> None:
        """Looks no more."""
        self._ended.set()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                nodes = self._cluster.nodes()
            except ServiceError as error:
                if not self._is_silent:
                    self._is_silent = True
                    self._tell(Warned(error.message, error.hint))
                continue
            self._is_silent = False
            self.count = len(nodes)
            leaving = frozenset(node.id for node in nodes if node.is_leaving)
            self._tell(Living(frozenset(node.id for node in nodes), leaving))
            with self._lock:
                again, self._again = self._again, set()
            self._examine([node for node in nodes if self._is_new(node, again)])

    def _is_new(self, node: Node, again: Collection[str]) -> bool:
        with self._lock:
            times = self._seen.get(node.id, 0)
            if node.is_leaving:
                return False
            return times == 0 or (node.id in again and times <= _MOST_RETURNS)

    def _examine(self, nodes: Sequence[Node]) -> None:
        """Examines nodes, each on a thread of its own: one that hangs keeps no other waiting."""
        for node in nodes:
            with self._lock:
                self._seen[node.id] = self._seen.get(node.id, 0) + 1
            threading.Thread(target=self._examine_one, args=(node,), name="sandrl-examine", daemon=True).start()

    def _examine_one(self, node: Node) -> None:
        try:
            [facts] = self._cluster.examine([node])
        except Exception as error:  # noqa: BLE001 - whatever Ray says, the node cannot be used now
            facts = NodeFacts(node, problem=f"it did not answer: {error}".splitlines()[0], has_answered=False)
        if not facts.has_answered:
            # Ray lists a node for a while that has gone; one that only was busy answers next time.
            self.look_again(node)
        self._tell(facts)

    def _tell(self, what: NodeFacts | Living | Warned) -> None:
        if not self._ended.is_set():
            self._news.put(what)
            self._ring()
