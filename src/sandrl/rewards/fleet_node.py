"""The part of a job that runs on a node of a cluster: a job of its own on the node's local runtime.

One thread judges, like the thread of a batch, and puts its results where the driver's next call takes them from. A
call returns as soon as there are enough results for a round trip, so verdicts arrive when they are ready, and one call
carries several. If this process is killed, its keeper ends the sandboxes.
"""

from __future__ import annotations

import math
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from sandrl.errors import InfrastructureError
from sandrl.events import CanaryFinished, CompletionStarted, Event, ExecutionFinished, RetryScheduled, SandboxesHeld
from sandrl.problems import Completion, Problem
from sandrl.rewards.attempts import Attempt
from sandrl.rewards.judge import Judge
from sandrl.rewards.judging import SandboxJudging
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.parcels import Bundle, Judged, LedgerLine, NodeReport, NodeSetup, Parcel, Task, TaskTerms
from sandrl.rewards.running import ProgramJudge
from sandrl.rewards.terms import Terms
from sandrl.rewards.verdict import Verdict
from sandrl.runs.rows import OwnerRow, now
from sandrl.sandboxes import Interrupt, Job, Level, SandboxRequest, Withdrawn
from sandrl.sandboxes.keeper import Keeper
from sandrl.sandboxes.tags import job_tag, owner_tag
from sandrl.settings import RuntimeKind, load_settings

# A call waits so long for more verdicts once it has one, and so long for the first.
_GATHER_SECONDS = 0.2
_WAIT_SECONDS = 2.0
# With fewer tasks left than this share of its window, a node wants more at once.
_LOW_SHARE = 0.5
_KNOWLEDGE_BYTES = 64 << 20
# Each step of a training run has terms of its own, because they have its tag.
_MOST_TERMS = 16
_ENDING_SECONDS = 5.0

_OfCompletion = CompletionStarted | RetryScheduled | CanaryFinished | ExecutionFinished


class _SentLedger:
    """The lines of a job's ledger, on their way to the driver, which has the run directory."""

    def __init__(self, node: str, lines: list[LedgerLine], lock: threading.Lock) -> None:
        self._node = node
        self._lines = lines
        self._lock = lock

    def _add(
        self,
        event: str,
        key: str,
        about: tuple[str, ...] | str | None,
        at: datetime | None = None,
        since: datetime | None = None,
    ) -> None:
        with self._lock:
            self._lines.append(LedgerLine(event, f"{self._node}-{key}", about, at or now(), since))

    def intend(self, key: str, tags: Sequence[str], owner: OwnerRow | None = None, at: datetime | None = None) -> None:
        """See `Ledger`; the driver knows who owns what is here."""
        self._add("intend", key, tuple(tags), at)

    def taken(self, key: str, tags: Sequence[str]) -> None:
        """See `Ledger`."""
        self._add("taken", key, tuple(tags))

    def created(self, key: str, sandbox_id: str) -> None:
        """See `Ledger`."""
        self._add("created", key, sandbox_id)

    def stopped(
        self, key: str, sandbox_id: str | None, at: datetime | None = None, since: datetime | None = None
    ) -> None:
        """See `Ledger`."""
        self._add("stopped", key, sandbox_id, at, since)


class NodePart:
    """See the module; its methods are called by the driver, each on a thread of its own.

    Args:
        setup: What it begins with.

    Raises:
        ServiceError: If the node's local runtime cannot start or isolate.
        UsageError: If it does not have the image or the packages.
    """

    def __init__(self, setup: NodeSetup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._bundle = Bundle()
        self._arrived: deque[Task] = deque()
        self._dropped: deque[int] = deque()
        self._problems: dict[int, Problem] = {}
        self._new_bound: int | None = None
        self._held: tuple[int, int | None] = 0, setup.max_sandboxes
        self._failure: Exception | None = None
        self._is_closing = False
        # What follows belongs to the thread that judges.
        self._waiting: deque[Attempt] = deque()
        self._attempts: dict[int, Attempt] = {}
        self._given_up: set[int] = set()
        self._events: dict[int, list[Event]] = {}
        self._of_programs: Judge | None = None
        self._terms: dict[TaskTerms, Terms] = {}
        request = SandboxRequest(
            runtime=RuntimeKind.LOCAL,
            image=setup.image,
            packages=setup.packages.asked,
            max_sandboxes=setup.max_sandboxes,
            memory_bytes=setup.memory_bytes,
        )
        self._connection = request.connect(load_settings(), needed=setup.packages.needed)
        self._job = Job(
            self._connection,
            job_id=setup.job_id,
            command=setup.command,
            tags=(*setup.tags, f"node-{setup.node}"),
            max_sandboxes=setup.max_sandboxes,
            max_lifetime_seconds=setup.max_lifetime_seconds,
            ledger=_SentLedger(setup.node, self._bundle.ledger, self._lock),
            has_cells=setup.has_cells,
            emit=self._note,
        )
        self._keeper = Keeper([job_tag(setup.job_id), owner_tag(self._job.owner.hash)])
        self._bell = Interrupt()
        concurrency = setup.concurrency or _suited(self._connection.suggested_concurrency, setup.cpus)
        self._judging = SandboxJudging(self._job, self._judge(False), concurrency, self._note, self._settle)
        self._window = self._judging.window
        self._thread = threading.Thread(target=self._work, name="sandrl-node", daemon=True)
        self._thread.start()

    def report(self) -> NodeReport:
        """What it says of itself."""
        return NodeReport(self._connection.isolation, self._window, self._job.owner)

    def take(self, parcel: Parcel) -> None:
        """Takes what the driver sends."""
        problems = {number: pickle.loads(content) for number, content in parcel.problems.items()}
        with self._news:
            self._problems |= problems
            for number in parcel.forgotten:
                self._problems.pop(number, None)
            self._arrived.extend(parcel.tasks)
            self._dropped.extend(parcel.dropped)
            if parcel.max_sandboxes is not None:
                self._new_bound = parcel.max_sandboxes
        self._bell.wake()

    def collect(self) -> Bundle:
        """Waits until something has come of what was sent, a moment for more of it, and answers with that.

        Raises:
            InfrastructureError: If nothing can be judged here any more.
        """
        with self._news:
            self._news.wait_for(self._has_news, _WAIT_SECONDS)
            self._news.wait_for(self._is_urgent, _GATHER_SECONDS)
            if self._is_closing:
                return Bundle(window=self._window)  # `close` takes the rest
            if self._failure is not None:
                raise InfrastructureError(f"it cannot judge completions: {self._failure}")
            return self._taken()

    def close(self, seconds: float) -> Bundle:
        """Ends every sandbox, and answers with the rest."""
        with self._news:
            self._is_closing = True
            self._news.notify_all()
        while self._bell.request(0):
            pass
        self._thread.join(_ENDING_SECONDS)
        self._job.close(seconds)
        if not self._job.unstopped:
            self._keeper.close()
        with self._news:
            bundle = self._taken()
        bundle.unstopped = self._job.unstopped
        return bundle

    def _taken(self) -> Bundle:
        """What there is to tell, which is told once."""
        kept = self._bundle
        told = replace(kept, ledger=list(kept.ledger), window=self._window, held=self._held[0], bound=self._held[1])
        self._bundle = Bundle(ledger=kept.ledger)
        kept.ledger.clear()
        return told

    def _has_news(self) -> bool:
        bundle = self._bundle
        return bool(
            bundle.judged or bundle.events or bundle.ledger or bundle.given_up or self._failure or self._is_closing
        )

    def _is_urgent(self) -> bool:
        """Whether there is a reason to answer at once: so little is left that the node wants more, or it ends."""
        has_little = len(self._attempts) + len(self._arrived) <= self._window * _LOW_SHARE
        return has_little or self._is_closing or self._failure is not None

    def _work(self) -> None:
        try:
            while not self._is_closing:
                self._turn()
        except Exception as error:  # noqa: BLE001 - the driver gives the tasks to other nodes, and says why
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _turn(self) -> None:
        self._receive()
        # The driver counts a sandbox until it knows that it is gone.
        self._job.settle()
        self._judging.go_on()
        self._window = self._judging.window
        while self._waiting and self._judging.in_flight < self._window:
            attempt = self._waiting.popleft()
            if attempt.index in self._attempts:
                self._judging.begin(attempt)
        pause = self._judging.seconds_to_next(Level.NONE)
        for launch in self._job.wait_any(self._bell, Level.NONE, math.inf if pause is None else pause):
            if not self._judging.land(launch):
                with suppress(InfrastructureError, Withdrawn):
                    self._job.collect(launch)

    def _receive(self) -> None:
        with self._news:
            if self._new_bound is not None:
                self._job.bind(self._new_bound)
                self._new_bound = None
            self._held = self._job.held, self._job.max_sandboxes
            tasks, dropped = list(self._arrived), list(self._dropped)
            self._arrived.clear()
            self._dropped.clear()
            # The problem of a task that was dropped meanwhile may be forgotten.
            known = [(task, self._problems[task.problem]) for task in tasks if task.problem in self._problems]
        for task, problem in known:
            completion = Completion(task.id, problem.task_id, code=task.code)
            attempt = Attempt(task.number, completion, problem, self._terms_of(task), code=task.code)
            attempt.began = time.monotonic()
            self._attempts[task.number] = attempt
            self._waiting.append(attempt)
        for number in dropped:
            attempt_or_none = self._attempts.get(number)
            if attempt_or_none is not None and not attempt_or_none.executions and not attempt_or_none.canaries:
                del self._attempts[number]
                with self._news:
                    self._bundle.given_up.append(number)
            elif attempt_or_none is not None:
                self._given_up.add(number)

    def _judge(self, require_isolated: bool) -> Judge:
        """A judge; calibrations hold for the terms that they were made under, so each terms have one of their own."""
        return Judge.on(self._connection, require_isolated=require_isolated, known_bytes=_KNOWLEDGE_BYTES)

    def _terms_of(self, task: Task) -> Terms:
        terms = task.terms
        if task.program is not None:
            self._of_programs = self._of_programs or self._judge(False)
            return self._made_terms(terms, ProgramJudge(self._of_programs, task.program))
        if len(self._terms) >= _MOST_TERMS:
            self._terms.clear()
        if terms not in self._terms:
            self._terms[terms] = self._made_terms(terms, self._judge(terms.require_isolated))
        return self._terms[terms]

    def _made_terms(self, terms: TaskTerms, judge: Judge) -> Terms:
        options = ScoreOptions(
            limits=terms.limits,
            retries=terms.retries,
            backoff_seconds=terms.backoff_seconds,
            tags=terms.tags,
            caching=False,
        )
        # Whether checks are left out after a failure was decided where the reward is known.
        return replace(Terms.of(options, judge, self._connection), limits=terms.limits)

    def _note(self, event: Event) -> None:
        """Takes an event; what is counted of a completion waits for its verdict."""
        if isinstance(event, ExecutionFinished) and event.index is not None:
            self._events.setdefault(event.index, []).append(event)
            return
        if isinstance(event, SandboxesHeld):
            return  # the driver counts by the ledger
        with self._news:
            self._bundle.events.append(event)

    def _settle(self, attempt: Attempt, verdict: Verdict) -> None:
        number = attempt.index
        events = tuple(self._events.pop(number, ()))
        self._attempts.pop(number, None)
        if number in self._given_up:
            self._given_up.discard(number)
            return
        judge = attempt.terms.judge
        judged = Judged(
            number,
            verdict,
            attempt.sandbox_id,
            attempt.executions,
            attempt.cells,
            attempt.retries,
            attempt.reruns,
            attempt.canaries,
            tuple(attempt.failures),
            attempt.why_in_process,
            events,
            judge.latest if isinstance(judge, ProgramJudge) else None,
        )
        with self._news:
            self._bundle.judged.append(judged)
            self._news.notify_all()


def _suited(suggested: int, cpus: float) -> int:
    """How many completions at once suit that part of this machine's processors that a node has."""
    share = min(cpus / (os.cpu_count() or 1), 1.0) if cpus else 1.0
    return max(round(suggested * share), 1)


def begin_part(setup: NodeSetup) -> NodePart:
    """Makes the part of a job that a node has."""
    return NodePart(setup)
