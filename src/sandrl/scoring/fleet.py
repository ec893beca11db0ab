"""The fleet of a job: the nodes of a Ray cluster judge completions, each with a scorer and sandboxes of its own.

The driver decides which node gets which completion, by the speed that each node has shown. A node holds the completions
that it works on and a few more; the next one goes to the node that will finish it first. When no completion is left to
hand out, an idle node also judges what a slow node, or a node that does not answer, has not finished: the first verdict
counts, and the other one is dropped. The loss of a node is never counted against a completion: its completions are
judged elsewhere, and only a completion that no node could judge has no reward.
"""

from __future__ import annotations

import itertools
import platform
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from sandrl.errors import InfrastructureError, NodeLostError, RuntimeUnavailableError, ServiceError
from sandrl.events import CanaryFinished, CompletionStarted, Emit, ExecutionFinished, RetryScheduled, Warned
from sandrl.events.results import Status
from sandrl.fleet.cluster import Node
from sandrl.judge.judge import Judge, longest_execution_seconds
from sandrl.judge.running import ProgramJudge
from sandrl.judge.verdict import Verdict
from sandrl.sandboxes import Job, Level, SandboxRequest
from sandrl.sandboxes.job import CLEANUP_TIMEOUT_SECONDS
from sandrl.sandboxes.providers.ray import RayConnection
from sandrl.scoring.attempts import MOST_MOVES, Attempt
from sandrl.scoring.fleet_client import NodeClient, WorkItem
from sandrl.scoring.fleet_node import Reply, Task, TaskResult
from sandrl.scoring.judging import Judging, OnVerdict
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.policies import Components, binary
from sandrl.settings import RuntimeKind

LOOK_SECONDS = 2.0
"""How long it takes at most until a node that has come, or gone, is noticed."""

# A node that lives, and whose part of the job was lost, gets another one so many times.
_MOST_RETURNS = 3
# So long without any node that judges, or is about to, until what waits is given up.
_NO_NODE_SECONDS = 60.0
# A node that can say nothing about so many completions in a row is not asked for more.
_MOST_FAILURES = 8
# What another node would have done by now is judged there, too, if that saves so much.
_SAVED_SECONDS = 0.5
_OVERDUE_SECONDS = 5.0
# A node that judges answers every two seconds.
_SILENT_SECONDS = 5.0
_MOST_HOLDERS = 2
_TURN_SECONDS = 0.25
_WINDOW_BEFORE = 64


class Fleet:
    """The nodes that judge for a job, from its first completion to its end.

    Raises:
        ServiceError: If no node of the cluster can judge.
    """

    def __init__(self, job: Job, connection: RayConnection, concurrency: int | None) -> None:
        self._job = job
        self._connection = connection
        self._cluster = connection.cluster
        self._concurrency = concurrency
        self._numbers = itertools.count(1)
        self._clients: dict[str, NodeClient] = {}
        # Why nodes are not used, and how often each was begun, by their ids.
        self._unfit: dict[str, str] = {}
        self._begins: Counter[str] = Counter()
        self._unstopped: tuple[str, ...] = ()
        self._sent: dict[int, WorkItem] = {}
        self._waiting: deque[WorkItem] = deque()
        self._had_node_at = self._doubled_at = time.monotonic()
        self._isolation = ""
        # The nodes, as they were listed last; every list is looked at once.
        self._nodes = self._cluster.nodes()
        self._is_listed = True
        if not self._nodes:
            raise RuntimeUnavailableError(
                f"runtime ray: the cluster at {self._cluster.address} has no node that may score completions",
                hint="give a node processors (--num-cpus of `ray start`) or the resource `sandrl`",
                fields=("runtime",),
            )
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="sandrl-nodes", daemon=True).start()

    def _watch(self) -> None:
        # On a thread of its own: a cluster that does not answer must not delay a verdict.
        while not self._ended.wait(LOOK_SECONDS):
            with suppress(ServiceError):
                self._nodes, self._is_listed = self._cluster.nodes(), True
                self._job.ring()

    def _meet(self) -> None:
        self._is_listed, nodes = False, self._nodes
        living = {node.id for node in nodes}
        for gone in [client for identity, client in self._clients.items() if identity not in living]:
            self._lose(gone, NodeLostError(f"node {gone.node.name} is lost: it has left the cluster"))
        for node in nodes:
            client = self._clients.get(node.id)
            if client is not None and node.is_leaving and not client.is_leaving:
                client.is_leaving = True
                self._job.tell(Warned(f"node {node.name} is being drained: it gets no more completions"))
            if client is None and not node.is_leaving and self._begins[node.id] <= _MOST_RETURNS:
                share = self._share(len(nodes))
                if share != 0:
                    self._begins[node.id] += 1
                    self._clients[node.id] = self._new_client(node, share)

    def _share(self, count: int) -> int | None:
        most = self._job.max_sandboxes
        if most is None:
            return None
        return min(-(-most // count), most - sum(client.share or 0 for client in self._clients.values()))

    def _new_client(self, node: Node, share: int | None) -> NodeClient:
        job, connection = self._job, self._connection
        network = connection.network
        sandboxes = SandboxRequest(
            RuntimeKind.LOCAL,
            connection.asked_image,
            connection.packages.asked,
            max_sandboxes=share,
            memory_bytes=connection.memory_bytes if connection.has_own_memory else None,
            network=None if network is None else network.mode.value,
            allow_hosts=() if network is None else tuple(map(str, network.allowed)),
            private_hosts=() if network is None else tuple(map(str, network.private)),
        )
        arguments = {
            "job_id": job.id,
            "command": job.command,
            "tags": (*job.given_tags, f"node-{node.name}"),
            "max_lifetime_seconds": job.max_lifetime_seconds,
            "max_sandboxes": share,
            "has_cells": job.has_cells,
            "fresh_networks": job.fresh_networks,
        }
        of_scorer = self._concurrency, sandboxes, connection.packages.needed, arguments
        return NodeClient(self._cluster, node, share, job.ring, *of_scorer)

    @property
    def window(self) -> int:
        return sum(client.target for client in self._usable) or _WINDOW_BEFORE

    @property
    def _usable(self) -> list[NodeClient]:
        return [client for client in self._clients.values() if client.window and not client.is_leaving]

    def add(self, attempt: Attempt, owner: FleetJudging) -> None:
        item = WorkItem(_task(next(self._numbers), attempt), attempt, owner)
        self._sent[item.task.number] = item
        if not self._waiting:
            self._job.ring()  # all that are begun in this turn are handed out in the next one
        self._waiting.append(item)

    def hear(self) -> None:
        """Takes what nodes say, and gives up what no node is left for.

        Raises:
            RuntimeUnavailableError: If no node of the cluster can score.
        """
        for client in tuple(self._clients.values()):
            self._hear(client)
        if self._is_listed:
            self._meet()
        now = time.monotonic()
        if self._clients or not self._sent:
            self._had_node_at = now
        elif not self._isolation and all(self._is_given_up(node) for node in self._nodes):
            some = "; ".join(list(self._unfit.values())[:3]) or "all nodes have left"
            raise RuntimeUnavailableError(
                f"runtime ray: no node of the cluster at {self._cluster.address} can score: {some}",
                hint="check each node of the cluster: sandrl doctor --runtime ray",
                fields=("runtime",),
            )
        elif now - self._had_node_at > _NO_NODE_SECONDS:
            reason = f"no node of the Ray cluster at {self._cluster.address} can judge completions any longer"
            for item in tuple(self._sent.values()):
                self._finish(item, Verdict(Status.INFRASTRUCTURE, None, detail=reason))
            self._waiting.clear()

    def _is_given_up(self, node: Node) -> bool:
        return node.id in self._unfit and self._begins[node.id] > _MOST_RETURNS

    def send(self) -> None:
        """Hands out what waits; with nothing left, to nodes that have nothing to do what others have not done."""
        now = time.monotonic()
        self._hand_out(now)
        if not self._waiting and now - self._doubled_at >= _TURN_SECONDS:
            self._doubled_at = now
            self._run_twice(now)
        for client in self._clients.values():
            client.flush()

    def give_up(self, owner: FleetJudging, *, everything: bool) -> None:
        """Drops what a batch has: all of it, or what no node has."""
        for item in [item for item in self._sent.values() if item.owner is owner]:
            if everything or not item.holders:
                self._forget(item)
        self._waiting = deque(item for item in self._waiting if item.task.number in self._sent)

    def _forget(self, item: WorkItem) -> None:
        for client in tuple(item.holders):
            client.drop(item)
        self._sent.pop(item.task.number, None)
        item.owner.count -= 1

    def _finish(self, item: WorkItem, verdict: Verdict) -> None:
        self._forget(item)
        item.owner.on_verdict(item.attempt, verdict)

    def close(self, timeout_seconds: float) -> tuple[str, ...]:
        self._ended.set()
        clients = [client for client in self._clients.values() if client.window]  # the others have made no sandbox
        for client in clients:
            client.retire(timeout_seconds)
        for client in clients:
            try:
                while (reply := client.hear(waits=True)) is not None:
                    # A disk that is full keeps no sandbox from being stopped, and none from being told of.
                    with suppress(ServiceError, OSError):
                        self._take_over(client, reply)
                    if reply.is_last:
                        break
            except InfrastructureError:
                self._unstopped += (f"node {client.node.name}",)
        for client in self._clients.values():
            client.kill()
        self._clients.clear()
        return self._unstopped

    def _hear(self, client: NodeClient) -> None:
        name = client.node.name
        try:
            reply = client.hear()
            if reply is not None and reply.failure:
                raise InfrastructureError(f"node {name}: it cannot judge completions: {reply.failure}")
        except InfrastructureError as error:
            self._lose(client, error)
            return
        if reply is None:
            return
        if not client.window:
            self._welcome(client, reply)
        client.window = reply.window
        self._take_over(client, reply)
        for judged in reply.judged:
            self._land(client, judged)
        if reply.is_last:
            client.kill()
            del self._clients[client.node.id]
        elif client.failed_in_a_row >= _MOST_FAILURES:
            self._begins[client.node.id] += _MOST_RETURNS
            reason = f"node {name} is no longer used: it failed to judge its last completions"
            self._lose(client, InfrastructureError(reason))
        elif client.is_leaving and not client.held:
            client.retire(CLEANUP_TIMEOUT_SECONDS)

    def _welcome(self, client: NodeClient, reply: Reply) -> None:
        name, here = client.node.name, platform.python_version()
        self._unfit.pop(client.node.id, None)
        if reply.python != here and self._begins[client.node.id] == 1:
            self._job.tell(Warned(f"node {name} differs: Python {reply.python}, not {here} as here"))
        self._isolation = self._isolation or reply.isolation
        if reply.isolation != self._isolation:
            detail = f"it isolates completions by {reply.isolation}, the other nodes by {self._isolation}"
            self._job.tell(Warned(f"node {name} differs: {detail}"))

    def _take_over(self, client: NodeClient, reply: Reply) -> None:
        self._unstopped += reply.unstopped
        for row in reply.ledger:
            self._job.journal.record_elsewhere(row)
        for told in reply.events:
            if isinstance(told, CompletionStarted | RetryScheduled | CanaryFinished):
                item = self._sent.get(int(told.id))
                if item is None:
                    continue
                if isinstance(told, CompletionStarted):
                    item.begun.append(client)
                else:
                    item.owner.emit(replace(told, index=item.attempt.index, id=item.attempt.completion.id))
            elif isinstance(told, Warned):
                self._job.tell(replace(told, message=f"node {client.node.name}: {told.message}"))
            else:
                self._job.tell(told)

    def _land(self, client: NodeClient, judged: TaskResult) -> None:
        client.land(judged.number)
        item = self._sent.get(judged.number)
        if item is None:
            return  # another node was first, or nobody wants it any more
        item.holders = [holder for holder in item.holders if holder is not client]
        _count(item, judged)
        if judged.verdict.status is Status.INFRASTRUCTURE:
            client.failed_in_a_row += 1
            item.avoided.add(client.node.name)
            item.verdict = judged.verdict
            if item.holders or self._may_try_elsewhere(item):
                if not item.holders:
                    self._waiting.appendleft(item)
                return
        else:
            client.failed_in_a_row = 0
        if isinstance(item.attempt.context.judge, ProgramJudge):
            item.attempt.context.judge.latest = judged.program
        self._finish(item, judged.verdict)

    def _may_try_elsewhere(self, item: WorkItem) -> bool:
        others = {client.node.name for client in self._clients.values() if not client.is_leaving} - item.avoided
        return bool(others) and len(item.avoided) <= item.attempt.context.options.retries

    def _lose(self, client: NodeClient, error: InfrastructureError) -> None:
        node = client.node
        del self._clients[node.id]
        client.kill()
        self._job.journal.lose_elsewhere(f"{node.name}-")
        if not client.window:
            reason = error.message.removeprefix(f"node {node.name}: ").removeprefix(f"node {node.name} is lost: ")
            self._unfit[node.id] = f"{node.name}: {reason}"
            if self._begins[node.id] == 1:
                self._job.tell(Warned(f"node {node.name} is not used: {reason}", error.hint))
            if not isinstance(error, NodeLostError):
                # It said why it cannot begin, and would say it again.
                self._begins[node.id] += _MOST_RETURNS
            return
        lost = [item for item in client.held.values() if item.task.number in self._sent]
        what = f": {len(lost)} completions are sent to other nodes" if lost else ""
        self._job.tell(Warned(f"{error.message}{what}", error.hint))
        for item in lost:
            item.holders = [holder for holder in item.holders if holder is not client]
            if not item.holders:
                self._move(item, client, error.message)

    def _move(self, item: WorkItem, client: NodeClient, reason: str) -> None:
        attempt = item.attempt
        item.losses += 1
        attempt.failures.append(reason)
        if client in item.begun:
            in_cell = self._job.has_cells
            attempt.retries += bool(attempt.executions)
            attempt.executions += 1
            attempt.cells += in_cell
            task_id = attempt.completion.task_id
            item.owner.emit(ExecutionFinished(task_id, None, "error", attempt.index, error=reason, in_cell=in_cell))
        if item.losses > MOST_MOVES:
            self._finish(item, Verdict(Status.INFRASTRUCTURE, None, detail=reason))
        else:
            self._waiting.appendleft(item)

    def _hand_out(self, now: float) -> None:
        ready = self._usable
        held_back: list[WorkItem] = []
        while self._waiting and ready:
            item = self._waiting.popleft()
            open_to = [
                client for client in ready if client.node.name not in item.avoided and len(client.held) < client.target
            ]
            if open_to:
                self._give(min(open_to, key=lambda client: client.seconds_left), item, now)
            elif item.verdict is not None and not self._may_try_elsewhere(item):
                # The nodes that might have judged it have left meanwhile.
                self._finish(item, item.verdict)
            else:
                held_back.append(item)
        self._waiting.extendleft(reversed(held_back))

    def _give(self, client: NodeClient, item: WorkItem, now: float) -> None:
        attempt = item.attempt
        item.sent_at = item.sent_at or now
        if not item.holders:
            named = attempt.completion
            item.owner.emit(CompletionStarted(attempt.index, named.id, named.task_id, attempt.executions + 1))
        client.give(item)

    def _run_twice(self, now: float) -> None:
        for taker in [client for client in self._usable if not client.held]:
            for client in sorted(self._clients.values(), key=lambda each: -each.seconds_left):
                late = [item for item in reversed(client.held.values()) if self._may_be_doubled(item, taker)]
                if client.seconds_left - 1 / taker.pace > _SAVED_SECONDS:
                    # As many as are done there by the time when the other one has done the rest.
                    late = late[: round(len(client.held) * taker.pace / (taker.pace + client.pace))]
                elif now - client.answered_at <= _SILENT_SECONDS:
                    late = [item for item in late if now - item.sent_at > _longest(item)]
                for item in late[: max(taker.target, taker.window) - len(taker.held)]:
                    self._give(taker, item, now)

    def _may_be_doubled(self, item: WorkItem, taker: NodeClient) -> bool:
        is_new = taker not in item.holders and taker.node.name not in item.avoided
        return item.task.number in self._sent and len(item.holders) < _MOST_HOLDERS and is_new


def _task(number: int, attempt: Attempt) -> Task:
    context, judge = attempt.context, attempt.context.judge
    # What is rewarded, and what is left out after a failure, was decided here, where the policy is.
    plain = replace(context.options, limits=context.limits, policy=binary, components=Components(), caching=False)
    options = _same(replace(plain, all_checks=not context.limits.stops_at_failure))
    # That of a program has none of its own.
    is_required = judge.requires_isolated
    program = judge.program if isinstance(judge, ProgramJudge) else None
    return Task(number, attempt.completion, attempt.problem, options, is_required, program)


@lru_cache(maxsize=64)
def _same(options: ScoreOptions) -> ScoreOptions:
    # One of all equal options, so that a message has them once.
    return options


def _count(item: WorkItem, judged: TaskResult) -> None:
    attempt = item.attempt
    attempt.sandbox_id = judged.sandbox_id or attempt.sandbox_id
    attempt.retries += bool(attempt.executions) and bool(judged.sums["executions"])
    for name, more in judged.sums.items():
        setattr(attempt, name, getattr(attempt, name) + more)
    attempt.why_in_process = judged.why_in_process
    waited = item.sent_at - attempt.queued_at
    for event in judged.executions:
        queued = None if event.queue_seconds is None else event.queue_seconds + waited
        item.owner.emit(replace(event, index=attempt.index, queue_seconds=queued))


def _longest(item: WorkItem) -> float:
    return longest_execution_seconds(item.attempt.problem, item.attempt.context.limits) + _OVERDUE_SECONDS


class FleetJudging(Judging):
    def __init__(self, job: Job, judge: Judge, concurrency: int | None, emit: Emit, on_verdict: OnVerdict) -> None:
        assert isinstance(job.connection, RayConnection), "there is no other with a fleet"
        if job.remote_part is None:
            job.remote_part = Fleet(job, job.connection, concurrency)
        assert isinstance(job.remote_part, Fleet), "nothing else is on other machines"
        self._fleet = job.remote_part
        self.emit = emit
        self.on_verdict = on_verdict
        self.count = 0
        self._is_stopping = False

    @property
    def in_flight(self) -> int:
        return self.count

    @property
    def window(self) -> int:
        return self._fleet.window

    def begin(self, attempt: Attempt) -> None:
        self.count += 1
        self._fleet.add(attempt, self)

    def look(self) -> None:
        self._fleet.hear()
        if self._is_stopping:
            # What a node was lost with is not begun again.
            self._fleet.give_up(self, everything=False)
        self._fleet.send()

    def go_on(self) -> None: ...

    def seconds_to_next(self, level: Level) -> float | None:
        return _TURN_SECONDS if self.count else None

    def stop(self, level: Level) -> None:
        self._is_stopping = True
        self._fleet.give_up(self, everything=level is Level.CANCEL)

    def end(self) -> None:
        self._fleet.give_up(self, everything=True)
