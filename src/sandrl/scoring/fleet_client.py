"""The client of one node: sends completions to its scorer, and asks what has come of them.

It waits for no call: an answer wakes the batch, whose thread alone uses the client.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandrl.errors import NodeLostError
from sandrl.fleet.cluster import Cluster, Node, answer_within
from sandrl.judge.verdict import Verdict
from sandrl.scoring.attempts import Attempt
from sandrl.scoring.fleet_node import Reply, Task

if TYPE_CHECKING:
    from sandrl.scoring.fleet import FleetJudging

SILENCE_SECONDS = 30.0
"""A node without an answer for this long is treated as lost; a node that judges answers every two seconds."""

_SCORER = "sandrl.scoring.fleet_node:NodeScorer"
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
    holders: list[NodeClient] = field(default_factory=list)
    begun: list[NodeClient] = field(default_factory=list)
    avoided: set[str] = field(default_factory=set)
    losses: int = 0
    verdict: Verdict | None = None
    sent_at: float = 0.0


class NodeClient:
    """Starts a scorer on a node.

    Args:
        share: How many sandboxes it may have at once; None for no limit.
        ring: Called when it has answered, on any thread.
        arguments: Those of its scorer, after the node.

    Attributes:
        window: How many completions it has under way at once; 0 until it is ready.
        held: What it has, by number, in the order in which it was sent.
        failed_in_a_row: How many completions it could say nothing about since the last verdict.
        is_leaving: Whether it is being drained, and gets nothing more.
    """

    def __init__(
        self, cluster: Cluster, node: Node, share: int | None, ring: Callable[[], None], *arguments: object
    ) -> None:
        self.node = node
        self.share = share
        self.window = 0
        self.held: dict[int, WorkItem] = {}
        self.failed_in_a_row = 0
        self.answered_at = time.monotonic()
        self.is_leaving = False
        self._ring = ring
        self._shown: deque[float] = deque(maxlen=_SHOWN)
        self._tasks: list[Task] = []
        self._dropped: list[int] = []
        self._takes: deque[Future[Any]] = deque()
        self._host = cluster.hold(node, _SCORER, node, *arguments)
        self._ends_at: float | None = None
        self._expect(self._host.ask("collect"), _START_SECONDS)

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

    def retire(self, seconds: float) -> None:
        """Has it end its part of the job, at most in this time; it says so in its last reply."""
        if self._ends_at is None:
            self._ends_at = self._until = time.monotonic() + seconds
            self._seconds = seconds
            self._takes.clear()  # nothing of them is awaited any more
            self._host.ask("close", seconds * _OWN_SHARE)

    def _expect(self, answer: Future[Any], seconds: float) -> None:
        if self._ends_at is None:
            self._seconds, self._until = seconds, time.monotonic() + seconds
        self._answer = answer
        answer.add_done_callback(lambda _: self._ring())

    def hear(self, *, waits: bool = False) -> Reply | None:
        """What it has said since the last call; None if nothing, and nothing is awaited.

        Raises:
            NodeLostError: If it, or its process there, has ended, or does not answer in time.
            InfrastructureError: If it cannot judge.
        """
        while self._takes and self._takes[0].done():
            self._result(self._takes.popleft(), 0.0)
        left = max(self._until - time.monotonic(), 0.0)
        if not self._answer.done() and left and not waits:
            return None
        reply: Reply = self._result(self._answer, left)
        self.answered_at = time.monotonic()
        if not reply.is_last:
            self._expect(self._host.ask("collect"), SILENCE_SECONDS)
        return reply

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
        if self._tasks or self._dropped:
            self._takes.append(self._host.ask("take", self._tasks, self._dropped))
            self._tasks, self._dropped = [], []

    def kill(self) -> None:
        """Ends the process on the node at once; its keeper ends the sandboxes."""
        self._host.kill()
