"""A link sends completions to one node, and asks what has come of them.

It waits for no call: an answer wakes the batch, whose thread alone uses the link.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandrl.deadlines import in_background
from sandrl.errors import InfrastructureError, NodeLostError
from sandrl.fleet.cluster import Cluster, Host, Node, NodeFacts, answer_within
from sandrl.judge.verdict import Verdict
from sandrl.scoring.attempts import Attempt
from sandrl.scoring.fleet_node import NodeSetup, Reply, Task

if TYPE_CHECKING:
    from sandrl.scoring.fleet import FleetJudging

SILENCE_SECONDS = 30.0
"""A node without an answer for this long is treated as lost; a node that judges answers every two seconds."""

_SCORER = "sandrl.scoring.fleet_node:NodeScorer"
_EXAMINE_SECONDS = 90.0
# How long a node may take to be ready: its interpreter starts, its local runtime boots.
_START_SECONDS = 180.0
_PREFETCH_SECONDS = 0.5
_SHOWN = 64
# Of the time that the end of a node may take, so much is its own.
_OWN_SHARE = 0.85


@dataclass(slots=True, eq=False)
class WorkItem:
    """A completion that was handed to the fleet.

    Attributes:
        begun: Those that have said that they run it.
        avoided: Names of nodes that could say nothing about it.
        losses: How many nodes were lost under it.
        verdict: The latest that says nothing about it.
    """

    task: Task
    attempt: Attempt
    owner: FleetJudging
    holders: list[Link] = field(default_factory=list)
    begun: list[Link] = field(default_factory=list)
    avoided: set[str] = field(default_factory=set)
    losses: int = 0
    verdict: Verdict | None = None
    sent_at: float = 0.0


class Link:
    """One node of the fleet, which is examined first.

    Args:
        ring: Called when it has answered, on any thread.

    Attributes:
        window: How many completions it has under way at once; 0 until it is ready.
        held: What it has, by number, in the order in which it was sent.
        failed_in_a_row: How many completions it could say nothing about since the last verdict.
        is_leaving: Whether it is being drained, and gets nothing more.
        is_ending: Whether its next answer is its last.
    """

    def __init__(self, cluster: Cluster, node: Node, share: int | None, ring: Callable[[], None]) -> None:
        self.node = node
        self.share = share
        self.window = 0
        self.held: dict[int, WorkItem] = {}
        self.failed_in_a_row = 0
        self.answered_at = time.monotonic()
        self.is_leaving = self.is_ending = False
        self._cluster = cluster
        self._ring = ring
        self._shown: deque[float] = deque(maxlen=_SHOWN)
        self._tasks: list[Task] = []
        self._dropped: list[int] = []
        self._takes: deque[Future[Any]] = deque()
        self._host: Host | None = None
        self._expect(in_background(lambda: cluster.examine([node])[0]), _EXAMINE_SECONDS)

    @property
    def rate(self) -> float:
        """How many completions a second it has shown to do; 0 before it has."""
        if len(self._shown) < _SHOWN // 8:
            return 0.0
        return (len(self._shown) - 1) / max(self._shown[-1] - self._shown[0], 1e-3)

    @property
    def pace(self) -> float:
        """The same; before it has shown anything, what a slow node would do."""
        return self.rate or max(self.node.cpus, 1.0)

    @property
    def target(self) -> int:
        """How many completions it should have: what it works at, and what it does until an answer is back."""
        return self.window + round(self.rate * _PREFETCH_SECONDS)

    @property
    def seconds_left(self) -> float:
        """How long what it has will take it."""
        return len(self.held) / self.pace

    def begin(self, setup: NodeSetup) -> None:
        self._host = self._cluster.hold(self.node, _SCORER, setup)
        self.go_on(_START_SECONDS)

    def go_on(self, seconds: float = SILENCE_SECONDS) -> None:
        self._ask("collect", seconds=seconds)

    def retire(self, seconds: float) -> None:
        """Has it end its part of the job, at most in this time; the rest of what it has to say is its next answer."""
        self._before, self.is_ending = self._answer, True
        self._ask("close", seconds * _OWN_SHARE, seconds=seconds)

    def _ask(self, method: str, *arguments: object, seconds: float) -> None:
        assert self._host is not None, "it was begun before"
        self._expect(self._host.ask(method, *arguments), seconds)

    def _expect(self, answer: Future[Any], seconds: float) -> None:
        self._answer, self._seconds, self._until = answer, seconds, time.monotonic() + seconds
        answer.add_done_callback(lambda _: self._ring())

    def hear(self) -> NodeFacts | Reply | None:
        """What it has answered since the last call; None if nothing.

        Raises:
            NodeLostError: If it, or its process there, has ended, or does not answer in time.
            InfrastructureError: If it cannot judge.
        """
        while self._takes and self._takes[0].done():
            self._result(self._takes.popleft(), 0.0)
        if not self._answer.done() and time.monotonic() < self._until:
            return None
        said: NodeFacts | Reply = self._result(self._answer, 0.0)
        self.answered_at = time.monotonic()
        return said

    def hear_last(self, until: float) -> list[Reply]:
        """What it says until it has ended, after `retire`.

        Raises:
            InfrastructureError: If it does not say by then that it has.
        """
        replies: list[Reply] = [self._result(self._answer, max(until - time.monotonic(), 0.0))]
        with suppress(InfrastructureError):
            replies.insert(0, self._result(self._before, max(until - time.monotonic(), 0.0)))
        return replies

    def _result(self, answer: Future[Any], seconds: float) -> Any:
        try:
            return answer_within(seconds, self.node, answer, of_seconds=self._seconds)
        except NodeLostError as error:
            reason = error.message.removeprefix(f"node {self.node.name} did not answer: ")
            if reason == error.message:
                reason = f"it did not answer within {self._seconds:.0f} s"
            raise NodeLostError(f"node {self.node.name} is lost: {reason}") from error

    def give(self, item: WorkItem) -> None:
        if not self.held:
            # What it has shown before it stood idle says nothing about how fast it is now.
            self._shown.clear()
            self.answered_at = time.monotonic()
        self.held[item.task.number] = item
        item.holders.append(self)
        self._tasks.append(item.task)

    def drop(self, item: WorkItem) -> None:
        self.held.pop(item.task.number, None)
        item.holders.remove(self)
        self._dropped.append(item.task.number)

    def land(self, number: int) -> None:
        self.held.pop(number, None)
        self._shown.append(time.monotonic())

    def flush(self) -> None:
        if self._host is not None and (self._tasks or self._dropped):
            self._takes.append(self._host.ask("take", self._tasks, self._dropped))
            self._tasks, self._dropped = [], []

    def kill(self) -> None:
        """Ends the process on the node at once; its keeper ends the sandboxes."""
        if self._host is not None:
            self._host.kill()
