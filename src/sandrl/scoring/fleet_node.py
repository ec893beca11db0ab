"""A node of a cluster has a scorer, with a job and a local runtime of its own.

The driver sends completions, and asks what has come of them; an answer returns as soon as there are enough results for
a round trip. The driver keeps results, policies and the cache, as if the completions had run on its own
machine. If this process is killed, its keeper ends the sandboxes.
"""

from __future__ import annotations

import os
import platform
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from sandrl.events import CompletionFinished, Event, ExecutionFinished, SandboxesHeld
from sandrl.fleet.cluster import Node
from sandrl.judge.running import Program, ProgramJudge, ProgramResult
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion, Problem
from sandrl.runs.rows import SandboxRow
from sandrl.sandboxes import Job, SandboxRequest
from sandrl.sandboxes.keeper import Keeper
from sandrl.sandboxes.tags import job_tag, owner_tag
from sandrl.scoring.attempts import Attempt
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.scorer import Scorer, Ticket
from sandrl.settings import load_settings

# An answer waits so long for the first result, and so long for more of them.
_WAIT_SECONDS = 2.0
_GATHER_SECONDS = 0.2
# With fewer completions left than this share of its window, a node wants more at once.
_LOW_SHARE = 0.5
# What of an attempt adds up over the nodes that a completion was on.
_SUMS = ("executions", "cells", "retries", "reruns", "canaries", "failures")


@dataclass(frozen=True, slots=True)
class Task:
    """A completion to be judged.

    Attributes:
        number: Names it for as long as the job lives.
        program: The program that it is, where it is one that is only run.
    """

    number: int
    completion: Completion
    problem: Problem
    options: ScoreOptions
    require_isolated: bool
    program: Program | None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A completion that has its verdict.

    Attributes:
        sandbox_id: Where it ran last.
        sums: What is added to its attempt, by name.
        program: What it did, where it is a program.
    """

    number: int
    verdict: Verdict
    sandbox_id: str | None
    sums: Mapping[str, Any]
    why_in_process: str
    executions: tuple[ExecutionFinished, ...]
    program: ProgramResult | None


@dataclass(slots=True)
class Reply:
    """What a node says of itself, and what has happened there since its last reply.

    Attributes:
        window: How many completions it has under way at once.
        failure: Why nothing can be judged there any more; empty if it can.
        is_last: Whether it has ended its part of the job.
        unstopped: Ids of sandboxes that could not be stopped, once it has ended.
    """

    python: str
    isolation: str
    window: int
    judged: list[TaskResult] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ledger: list[SandboxRow] = field(default_factory=list)
    failure: str = ""
    is_last: bool = False
    unstopped: tuple[str, ...] = ()


class NodeScorer:
    """The part of a job that a node has; the driver calls its methods, each on a thread of its own.

    Args:
        needed: Packages that problems name.
        job: The arguments of its job.

    Raises:
        ServiceError: If the node's local runtime cannot start or isolate.
        UsageError: If it does not have the image or the packages.
    """

    def __init__(
        self,
        node: Node,
        concurrency: int | None,
        sandboxes: SandboxRequest,
        needed: tuple[str, ...],
        job: Mapping[str, Any],
    ) -> None:
        self._name = node.name
        self._news = threading.Condition()
        self._tickets: dict[int, Ticket] = {}
        self._executions: dict[int, list[ExecutionFinished]] = {}
        self._is_closing = False
        # It grows on threads that must not wait.
        self._ledger: deque[SandboxRow] = deque()
        connection = sandboxes.connect(load_settings(), needed=needed)
        self._reply = Reply(platform.python_version(), connection.isolation, 0)
        self._job = Job(connection, ledger=self._record, emit=self._note, **job)
        self._keeper = Keeper([job_tag(self._job.id), owner_tag(self._job.owner.hash)])
        share = min(node.cpus / (os.cpu_count() or 1), 1.0) or 1.0
        self._concurrency = concurrency or max(round(connection.suggested_concurrency * share), 1)
        self._scorer = Scorer(self._job, concurrency=self._concurrency, emit=self._note, on_verdict=self._keep)

    def take(self, tasks: Sequence[Task], dropped: Sequence[int]) -> None:
        with self._news:
            for task in tasks:
                if task.program is not None:
                    context = self._scorer.context_of_program(task.program, task.options)
                else:
                    context = self._scorer.context(task.options, require_isolated=task.require_isolated)
                answer = replace(task.completion, id=str(task.number)), task.problem
                ticket = self._scorer.submit([answer], context, is_bounded=False)
                self._tickets[task.number] = ticket
                ticket.future.add_done_callback(self._look_for_failure)
            for number in dropped:
                if number in self._tickets:
                    self._tickets.pop(number).cancel()

    def collect(self) -> Reply:
        """Waits until something has come of what was sent, a moment for more of it, and answers with that."""
        with self._news:
            if self._reply.window:  # the first reply says that it is ready
                self._news.wait_for(self._has_news, _WAIT_SECONDS)
                self._news.wait_for(self._is_urgent, _GATHER_SECONDS)
            reply = self._reply
            reply.window = self._job.window(self._concurrency)
            self._reply = Reply(reply.python, reply.isolation, reply.window)
        while self._ledger:
            reply.ledger.append(self._ledger.popleft())
        return reply

    def close(self, seconds: float) -> None:
        """Ends its part of the job; the reply after that is its last."""
        # Whatever keeps it from its end keeps it from saying what is left.
        unstopped: tuple[str, ...] = (f"node {self._name}",)
        self._is_closing = True
        try:
            self._scorer.close()
            self._job.close(seconds)
            unstopped = self._job.unstopped
            if not unstopped:
                self._keeper.close()
        finally:
            with self._news:
                self._reply.is_last, self._reply.unstopped = True, unstopped
                self._news.notify_all()

    def _has_news(self) -> bool:
        reply = self._reply
        return bool(reply.judged or reply.events or self._ledger or reply.failure or reply.is_last)

    def _is_urgent(self) -> bool:
        has_little = len(self._tickets) <= self._reply.window * _LOW_SHARE
        return has_little or self._reply.is_last or bool(self._reply.failure)

    def _look_for_failure(self, ended: Future[Any]) -> None:
        # What ends with the scorer has not failed.
        if not self._is_closing and not ended.cancelled() and (error := ended.exception()) is not None:
            with self._news:
                self._reply.failure = str(error) or type(error).__name__
                self._news.notify_all()

    def _record(self, row: SandboxRow) -> None:
        self._ledger.append(row.model_copy(update={"key": f"{self._name}-{row.key}"}))

    def _note(self, event: Event) -> None:
        # Events of executions wait for the verdict, and the driver counts for itself.
        if isinstance(event, ExecutionFinished) and event.index is not None:
            self._executions.setdefault(event.index, []).append(event)
        elif not isinstance(event, SandboxesHeld | CompletionFinished):
            with self._news:
                self._reply.events.append(event)

    def _keep(self, attempt: Attempt, verdict: Verdict) -> None:
        number, judge = int(attempt.completion.id), attempt.context.judge
        executions = tuple(self._executions.pop(attempt.index, ()))
        with self._news:
            if self._tickets.pop(number, None) is None:
                return  # it was dropped
            sums = {name: getattr(attempt, name) for name in _SUMS}
            program = judge.latest if isinstance(judge, ProgramJudge) else None
            why = attempt.why_in_process
            self._reply.judged.append(TaskResult(number, verdict, attempt.sandbox_id, sums, why, executions, program))
            self._news.notify_all()
