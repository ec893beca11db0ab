"""A node of a cluster has a scorer, with a job and a local runtime of its own.

The driver sends completions, and asks what has come of them; an answer returns as soon as there are enough results for
a round trip. The driver keeps results, policies and the cache, as if the completions had run on its own
machine. If this process is killed, its keeper ends the sandboxes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from sandrl.errors import InfrastructureError
from sandrl.events import CompletionFinished, CompletionStarted, Event, ExecutionFinished, SandboxesHeld
from sandrl.events.results import ScoredCompletion
from sandrl.judge.running import Program, ProgramJudge, ProgramResult
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion, Problem
from sandrl.sandboxes import Job, SandboxRequest
from sandrl.sandboxes.journal import LedgerLine, SentLedger
from sandrl.sandboxes.keeper import Keeper
from sandrl.sandboxes.owner import Owner
from sandrl.sandboxes.tags import job_tag, owner_tag
from sandrl.scoring.attempts import Attempt
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.scorer import Scorer, Ticket
from sandrl.settings import load_settings

# An answer waits so long for the first result, and so long for more of them.
_WAIT_SECONDS = 2.0
_GATHER_SECONDS = 0.2
# With fewer completions left than this share of its window, a node wants more at once.
_LOW_SHARE = 0.5
# Of an attempt: what adds up over the nodes that a completion was on, and what is that of the latest.
SUMS = ("executions", "cells", "retries", "reruns", "canaries", "failures")
_LATEST = ("why_in_process",)


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """What a node begins with.

    Attributes:
        cpus: How many processors it has for the job; 0 if that is not known.
        needed: Packages that problems name.
    """

    node: str
    cpus: float
    concurrency: int | None
    sandboxes: SandboxRequest
    needed: tuple[str, ...]
    job: Mapping[str, Any]


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
        sums: What is added to its attempt, by the names in `SUMS`.
        latest: What its attempt has from now on.
        program: What it did, where it is a program.
    """

    number: int
    verdict: Verdict
    sandbox_id: str | None
    sums: Mapping[str, Any]
    latest: Mapping[str, Any]
    executions: tuple[ExecutionFinished, ...]
    program: ProgramResult | None


@dataclass(slots=True)
class Reply:
    """What a node says of itself, and what has happened there since it was asked last.

    Attributes:
        window: How many completions it has under way at once.
        begun: Numbers of those that run.
        unstopped: Ids of sandboxes that could not be stopped, once it has ended.
    """

    isolation: str
    owner: Owner
    window: int
    judged: list[TaskResult] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ledger: list[LedgerLine] = field(default_factory=list)
    unstopped: tuple[str, ...] = ()


class NodeScorer:
    """The part of a job that a node has; the driver calls its methods, each on a thread of its own.

    Raises:
        ServiceError: If the node's local runtime cannot start or isolate.
        UsageError: If it does not have the image or the packages.
    """

    def __init__(self, setup: NodeSetup) -> None:
        self._news = threading.Condition()
        self._judged: list[TaskResult] = []
        self._begun: list[int] = []
        self._events: list[Event] = []
        self._ledger: list[LedgerLine] = []
        self._tickets: dict[int, Ticket] = {}
        self._executions: dict[int, list[ExecutionFinished]] = {}
        self._failure: BaseException | None = None
        self._has_answered = self._is_closing = False
        self._connection = setup.sandboxes.connect(load_settings(), needed=setup.needed)
        ledger = SentLedger(self._ledger.append, setup.node)
        self._job = Job(self._connection, ledger=ledger, emit=self._note, **setup.job)
        self._keeper = Keeper([job_tag(self._job.id), owner_tag(self._job.owner.hash)])
        share = min(setup.cpus / (os.cpu_count() or 1), 1.0) or 1.0
        self._concurrency = setup.concurrency or max(round(self._connection.suggested_concurrency * share), 1)
        self._window = self._job.window(self._concurrency)
        self._scorer = Scorer(self._job, concurrency=self._concurrency, emit=self._note, on_verdict=self._keep)

    def take(self, tasks: Sequence[Task], dropped: Sequence[int]) -> None:
        with self._news:
            for task in tasks:
                completion = replace(task.completion, id=str(task.number))
                ticket = self._scorer.submit(
                    [(completion, task.problem)], self._context(task), on_result=_ignore, is_bounded=False
                )
                self._tickets[task.number] = ticket
                ticket.future.add_done_callback(self._look_for_failure)
            for number in dropped:
                if number in self._tickets:
                    self._tickets.pop(number).cancel()

    def collect(self) -> Reply:
        """Waits until something has come of what was sent, a moment for more of it, and answers with that.

        Raises:
            InfrastructureError: If nothing can be judged here any more.
        """
        with self._news:
            if self._has_answered:
                self._news.wait_for(self._has_news, _WAIT_SECONDS)
                self._news.wait_for(self._is_urgent, _GATHER_SECONDS)
            self._has_answered = True
            if self._failure is not None and not self._is_closing:
                raise InfrastructureError(f"it cannot judge completions: {self._failure}")
            return self._taken()

    def close(self, seconds: float) -> Reply:
        with self._news:
            self._is_closing = True
            self._news.notify_all()
        self._scorer.close()
        self._job.close(seconds)
        if not self._job.unstopped:
            self._keeper.close()
        with self._news:
            return self._taken()

    def _taken(self) -> Reply:
        self._window = self._job.window(self._concurrency)
        told = self._judged[:], self._begun[:], self._events[:], self._ledger[:]
        for kept in (self._judged, self._begun, self._events):
            kept.clear()
        del self._ledger[: len(told[-1])]  # which grows on other threads
        return Reply(self._connection.isolation, self._job.owner, self._window, *told, self._job.unstopped)

    def _has_news(self) -> bool:
        return bool(self._judged or self._events or self._ledger or self._failure or self._is_closing)

    def _is_urgent(self) -> bool:
        has_little = len(self._tickets) <= self._window * _LOW_SHARE
        return has_little or self._is_closing or self._failure is not None

    def _context(self, task: Task) -> ScoringContext:
        if task.program is not None:
            return self._scorer.context_of_program(task.program, task.options)
        return self._scorer.context(task.options, require_isolated=task.require_isolated)

    def _look_for_failure(self, ended: Future[tuple[ScoredCompletion, ...]]) -> None:
        if not ended.cancelled() and (error := ended.exception()) is not None:
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _note(self, event: Event) -> None:
        # Events of executions wait for the verdict.
        if isinstance(event, SandboxesHeld | CompletionFinished):
            return  # the driver counts for itself
        if isinstance(event, ExecutionFinished) and event.index is not None:
            self._executions.setdefault(event.index, []).append(event)
            return
        with self._news:
            if isinstance(event, CompletionStarted):
                self._begun.append(int(event.id))
            else:
                self._events.append(event)

    def _keep(self, attempt: Attempt, verdict: Verdict) -> None:
        number, judge = int(attempt.completion.id), attempt.context.judge
        executions = tuple(self._executions.pop(attempt.index, ()))
        with self._news:
            if self._tickets.pop(number, None) is None:
                return  # it was dropped
            sums, latest = ({name: getattr(attempt, name) for name in names} for names in (SUMS, _LATEST))
            done = judge.latest if isinstance(judge, ProgramJudge) else None
            self._judged.append(TaskResult(number, verdict, attempt.sandbox_id, sums, latest, executions, done))
            self._news.notify_all()


def _ignore(_: ScoredCompletion) -> None: ...
