"""The driver's side of one node: the work that it was sent, its results so far, and the threads that exchange both.

One thread sends and one receives, so neither waits for the other. They only call the node and put its results into the
queue of the fleet. All other data here belongs to the thread of the batch, so only the next parcel needs a lock.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from sandrl.errors import InfrastructureError, SandrlError
from sandrl.fleet.cluster import Cluster, Host, Node
from sandrl.problems import Problem
from sandrl.rewards.attempts import Attempt
from sandrl.rewards.parcels import Bundle, NodeReport, NodeSetup, Parcel, Task, TaskTerms
from sandrl.rewards.running import ProgramJudge
from sandrl.rewards.verdict import Verdict
from sandrl.sandboxes.owner import Owner

PART = "sandrl.rewards.fleet_node:begin_part"
START_SECONDS = 180.0
"""How long a node may take to be ready: its interpreter starts, its local runtime boots."""
SILENCE_SECONDS = 30.0
"""A node without an answer for this long is treated as lost; a node that is judging answers every two seconds."""

_KNOWN_BYTES = 512 << 20
# The slowest network that a large parcel may take.
_BYTES_PER_SECOND = 2 << 20
_PREFETCH_SECONDS = 0.5
_SHOWN = 64
# Of the time that the end of a part may take, so much is the node's own.
_OWN_SHARE = 0.85


@dataclass(slots=True, eq=False)
class Sent:
    """A completion that was handed to the fleet.

    Attributes:
        number: Names it for as long as the job lives.
        attempt: What is judged.
        problem: The number of its problem.
        holders: The nodes that have it.
        begun: Those that have said that they run it.
        avoided: Names of nodes that could say nothing about it.
        losses: How many nodes were lost under it.
        verdict: The latest that says nothing about it.
        sent_at: When a node got it first.
    """

    number: int
    attempt: Attempt
    problem: int = -1
    holders: list[Link] = field(default_factory=list)
    begun: list[Link] = field(default_factory=list)
    avoided: set[str] = field(default_factory=set)
    losses: int = 0
    verdict: Verdict | None = None
    sent_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a node says, or why it says nothing any more.

    Attributes:
        link: Which node.
        said: What it says.
    """

    link: Link
    said: NodeReport | Bundle | SandrlError


class ProblemBook:
    """Problems as nodes get them: each has a number, and bytes that are made once while it is in use.

    A set may be larger than memory, and its problems are read anew each time they are looked up; so what is kept of
    all of them is a digest.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._latest: OrderedDict[str, tuple[Problem, int, bytes]] = OrderedDict()
        self._bytes = 0

    def find(self, problem: Problem) -> tuple[int, bytes]:
        """The number of a problem, and its bytes."""
        known = self._latest.get(problem.task_id)
        if known is not None and (known[0] is problem or known[0] == problem):
            self._latest.move_to_end(problem.task_id)
            return known[1], known[2]
        content = pickle.dumps(problem, protocol=pickle.HIGHEST_PROTOCOL)
        # Pickled bytes of equal problems may differ; the worst that comes of it is that one travels twice.
        name = problem.task_id, hashlib.blake2b(content, digest_size=16).digest()
        number = self._numbers.setdefault(name, len(self._numbers))
        if known is not None:
            self._bytes -= len(known[2])
        self._latest[problem.task_id] = problem, number, content
        self._latest.move_to_end(problem.task_id)
        self._bytes += len(content)
        while self._bytes > _KNOWN_BYTES // 4 and len(self._latest) > 1:
            _, (_, _, dropped) = self._latest.popitem(last=False)
            self._bytes -= len(dropped)
        return number, content


class Link:
    """One node of the fleet.

    Args:
        cluster: The cluster.
        node: The node.
        setup: What its part of the job begins with.
        news: Where to put what it says.
        ring: Called after that, on the thread of the link.

    Attributes:
        node: The node.
        setup: What its part of the job began with.
        is_ready: Whether it judges.
        window: How many completions it has under way at once.
        held: What it has, by number, in the order in which it was sent.
        failed_in_a_row: How many completions it could say nothing about since the last verdict.
        answered_at: When it answered last.
        receiving: The thread that asks for verdicts.
        owner: The process on it that owns the sandboxes; None before it was ready.
        is_leaving: Whether it is being drained, and gets nothing more.
        bound: How many sandboxes it has been allowed to hold; None for no bound.
        may_hold: How many it may hold in fact, until it has said that it holds no more than its bound.
    """

    def __init__(
        self, cluster: Cluster, node: Node, setup: NodeSetup, news: SimpleQueue[Any], ring: Callable[[], None]
    ) -> None:
        self.node = node
        self.setup = setup
        self.is_ready = False
        self.window = 0
        self.held: dict[int, Sent] = {}
        self.failed_in_a_row = 0
        self.answered_at = time.monotonic()
        self.owner: Owner | None = None
        self.is_leaving = False
        self.bound = self.may_hold = setup.max_sandboxes
        self._news = news
        self._ring = ring
        self._cluster = cluster
        self._known: OrderedDict[int, int] = OrderedDict()
        self._known_bytes = 0
        self._shown: deque[float] = deque(maxlen=_SHOWN)
        self._parcel = Parcel()
        self._change = threading.Condition()
        self._is_ended = False
        self._host: Host | None = None
        self.receiving = threading.Thread(target=self._receive, name=f"sandrl-node-{node.name}", daemon=True)
        self.receiving.start()

    @property
    def rate(self) -> float:
        """How many completions a second it has shown to do; 0 before it has."""
        if len(self._shown) < _SHOWN // 8:
            return 0.0
        return (len(self._shown) - 1) / max(self._shown[-1] - self._shown[0], 1e-3)

    @property
    def target(self) -> int:
        """How many completions it should have: what it works at, and what it does until an answer is back."""
        return self.window + round(self.rate * _PREFETCH_SECONDS)

    @property
    def seconds_left(self) -> float:
        """How long what it has will take it, as far as it has shown; with no rate, what a slow node would."""
        return len(self.held) / (self.rate or max(self.node.cpus, 1.0))

    def show(self, at: float) -> None:
        """Notes that it has judged a completion."""
        self._shown.append(at)

    def give(self, sent: Sent, content: bytes, terms: TaskTerms) -> None:
        """Sends it a completion, with its problem where the node does not have that."""
        problem = sent.problem
        if not self.held:
            # What it has shown before it stood idle says nothing about how fast it is now.
            self._shown.clear()
            self.answered_at = time.monotonic()
        self.held[sent.number] = sent
        sent.holders.append(self)
        if problem in self._known:
            self._known.move_to_end(problem)
            content = b""
        else:
            self._known[problem] = len(content)
            self._known_bytes += len(content)
        forgotten = self._forgotten(problem) if self._known_bytes > _KNOWN_BYTES else []
        with self._change:
            if content:
                self._parcel.problems[problem] = content
            self._parcel.tasks.append(_task(sent, terms))
            self._parcel.forgotten += forgotten
            self._change.notify_all()

    def _forgotten(self, kept: int) -> list[int]:
        """The problems that the node need not keep any more, so that they fit into its memory."""
        in_use = {kept, *(sent.problem for sent in self.held.values())}
        forgotten: list[int] = []
        for number in list(self._known):
            if self._known_bytes <= _KNOWN_BYTES // 2:
                break
            if number not in in_use:
                self._known_bytes -= self._known.pop(number)
                forgotten.append(number)
        return forgotten

    def bind(self, most: int) -> None:
        """Lowers the bound on its sandboxes."""
        self.bound = most
        with self._change:
            self._parcel.max_sandboxes = most
            self._change.notify_all()

    def note_held(self, held: int, bound: int | None) -> None:
        """Notes how many sandboxes it holds under which bound."""
        if self.bound is not None and bound == self.bound and held <= bound:
            self.may_hold = self.bound

    def drop(self, number: int) -> None:
        """Says that the verdict on a completion is of no use any more."""
        sent = self.held.pop(number, None)
        if sent is not None and self in sent.holders:
            sent.holders.remove(self)
        with self._change:
            self._parcel.dropped.append(number)
            self._change.notify_all()

    def end(self) -> None:
        """Has the thread say nothing more; see `end_part`."""
        with self._change:
            self._is_ended = True
            self._change.notify_all()

    def kill(self) -> None:
        """Ends the process on the node at once; its keeper ends the sandboxes."""
        self.end()
        if self._host is not None:
            self._host.kill()

    def end_part(self, seconds: float) -> Bundle:
        """Ends the part of the job on the node with its sandboxes, and returns what that says last.

        Args:
            seconds: How long to wait for that. A node that has not said that its sandboxes are gone is among those that
                could not be stopped.
        """
        self.end()
        if self._host is None:
            return Bundle()
        try:
            bundle: Bundle = self._host.call("close", seconds * _OWN_SHARE, timeout_seconds=seconds)
        except SandrlError:
            bundle = Bundle(unstopped=(f"node {self.node.name}",))
        self._host.kill()
        return bundle

    def _receive(self) -> None:
        """Begins the part of the job on the node, and asks for verdicts as long as it has completions."""
        try:
            self._host = self._cluster.hold(self.node, PART, self.setup)
            if self._is_ended:
                self._host.kill()
                return
            self._tell(self._host.call("report", timeout_seconds=START_SECONDS))
            threading.Thread(target=self._send, name=f"{self.receiving.name}-send", daemon=True).start()
            while not self._is_ended:
                # One that has nothing to do is asked for a sign of life now and then.
                method = "collect" if self._has_work() else "report"
                self._tell(self._host.call(method, timeout_seconds=SILENCE_SECONDS))
        except Exception as error:  # noqa: BLE001 - a node that fails in whatever way is lost
            self._tell_failure(error)

    def _has_work(self) -> bool:
        with self._change:
            if not self.held:
                self._change.wait_for(lambda: self.held or self._is_ended, SILENCE_SECONDS / 3)
            return bool(self.held)

    def _send(self) -> None:
        try:
            while (parcel := self._next_parcel()) is not None:
                assert self._host is not None, "it was made before"
                self._host.call("take", parcel, timeout_seconds=SILENCE_SECONDS + parcel.size / _BYTES_PER_SECOND)
        except Exception as error:  # noqa: BLE001 - as above
            self._tell_failure(error)

    def _next_parcel(self) -> Parcel | None:
        with self._change:
            self._change.wait_for(lambda: self._parcel or self._is_ended)
            if self._is_ended:
                return None
            parcel, self._parcel = self._parcel, Parcel()
            return parcel

    def _tell_failure(self, error: Exception) -> None:
        if not isinstance(error, SandrlError):
            error = InfrastructureError(f"node {self.node.name}: {type(error).__name__}: {error}")
        self._tell(error)

    def _tell(self, what: NodeReport | Bundle | SandrlError) -> None:
        # What became of sandboxes is worth knowing to the end; that a node is lost which is given up is not.
        if isinstance(what, Bundle) or not self._is_ended:
            self._news.put(Said(self, what))
            self._ring()


def _task(sent: Sent, terms: TaskTerms) -> Task:
    attempt = sent.attempt
    judge = attempt.terms.judge
    program = judge.program if isinstance(judge, ProgramJudge) else None
    return Task(sent.number, sent.problem, terms, attempt.completion.id, attempt.code or "", program)
