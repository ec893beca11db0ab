"""Gets the verdicts on tasks: each completion of one is a trial, on a thread of its own.

Trials take turns by the memory and the processors of their machines, not by their number. Their commands run in
sandboxes of the batch's job, on whose thread everything else here is done. A trial whose sandbox was lost is repeated
if its agent can act again. If it is lost every time, the task is tried without an agent: where that gives a verdict,
the answer is to blame.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from sandrl.config.words import VerifierPlace
from sandrl.errors import InfrastructureError, UsageError
from sandrl.events import CanaryFinished, CompletionStarted, Emit, Event, RetryScheduled, Warned
from sandrl.events.results import Status, Trust
from sandrl.judge.verdict import Verdict
from sandrl.problems.tasks.task import Task
from sandrl.runs import CANARY_TAG
from sandrl.sandboxes import (
    Job,
    Launch,
    Level,
    Shape,
    State,
    Withdrawn,
    delay_seconds,
    downloads,
    problem_tag,
    with_loopback,
)
from sandrl.scoring.attempts import MOST_MOVES, Attempt
from sandrl.scoring.judging import Judging, OnVerdict
from sandrl.settings import RuntimeKind
from sandrl.trials.answers import Nothing
from sandrl.trials.capacity import capacity_of
from sandrl.trials.machine import Machine
from sandrl.trials.place import JobPlace, RuntimeLost
from sandrl.trials.state import states_of
from sandrl.trials.trial import Agent, Site, TrialOptions, needs_of, run_trial

_MOST_THREADS = 512


class _Stopped(Exception):
    """Nothing is judged any more."""


class TaskJudging(Judging):
    """Judges completions of tasks.

    Args:
        concurrency: How many trials at once at most; as many as there is room for unless given.
        on_withdrawn: Hears of those that have no verdict because the user asked to stop.
        wake: Wakes the thread of the batch.
        place: Where trials get their sandboxes, which somebody else lets work; one of its own unless given.
    """

    def __init__(
        self,
        job: Job,
        concurrency: int | None,
        emit: Emit,
        on_verdict: OnVerdict,
        *,
        on_withdrawn: Callable[[Attempt], None] = lambda _: None,
        wake: Callable[[], None],
        place: JobPlace | None = None,
    ) -> None:
        self._job = job
        if job.connection.kind == RuntimeKind.RAY:
            message = "tasks are judged on this machine or by the remote service, and not on the nodes of a Ray cluster"
            raise UsageError(message, hint="use `runtime` local or remote", fields=("runtime",))
        self._own_place: JobPlace | None = None
        if place is None:
            place = self._own_place = JobPlace(job, wake, emit=self._tell)
        self._site = _site_of(place, states_of(job.run_dir), self._tell)
        self._capacity = capacity_of(job.connection)
        self._wake = wake
        self._most = min(concurrency or _MOST_THREADS, _MOST_THREADS)
        self._emit = emit
        self._on_verdict = on_verdict
        self._on_withdrawn = on_withdrawn
        self._ready: deque[Attempt] = deque()
        self._told: set[str] = set()
        self._running = 0
        self._heard: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._level = Level.NONE

    @property
    def in_flight(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._ready)

    @property
    def window(self) -> int:
        return self._most

    def begin(self, attempt: Attempt) -> None:
        task = attempt.problem.task
        if task is not None and task.ignored and task.digest not in self._told:
            self._told.add(task.digest)
            self._emit(Warned(f"{attempt.problem.task_id}: without an effect here: {', '.join(task.ignored)}"))
        self._ready.append(attempt)
        self.go_on()
        if self._level is not Level.NONE:
            self._withdraw_ready()

    def go_on(self) -> None:
        while self._ready and self._running < self._most and self._level is Level.NONE:
            attempt = self._ready.popleft()
            self._running += 1
            attempt.executions += 1
            named = attempt.completion
            self._emit(CompletionStarted(attempt.index, named.id, named.task_id, attempt.executions))
            threading.Thread(target=self._try, args=(attempt,), name="sandrl-trial", daemon=True).start()

    def look(self) -> None:
        if self._own_place is not None:
            self._own_place.take_turn()
        try:
            while True:
                self._heard.get_nowait()()
        except Empty:
            return

    def seconds_to_next(self, level: Level) -> float | None:
        return None

    def land(self, launch: Launch) -> bool:
        return self._own_place is not None and self._own_place.land(launch)

    def stop(self, level: Level) -> None:
        self._level = max(level, self._level)
        self._withdraw_ready()
        self._capacity.look()

    def _withdraw_ready(self) -> None:
        while self._ready:
            self._on_withdrawn(self._ready.popleft())

    def end(self) -> None:
        self.stop(Level.CANCEL)
        if self._own_place is not None:
            self._own_place.end(_Stopped())

    # On the thread of a trial

    def _try(self, attempt: Attempt) -> None:
        try:
            end = partial(self._finish, attempt, self._verdict(attempt))
        except (_Stopped, Withdrawn):
            end = partial(self._withdraw, attempt)
        except Exception as error:  # noqa: BLE001 - the batch ends with it, on its own thread
            end = partial(_raise, error)
        self._hear(end)

    def _verdict(self, attempt: Attempt) -> Verdict:
        task, agent = attempt.problem.task, attempt.agent
        assert task is not None, "it is a trial"
        assert agent is not None, "it was found before"
        scoring = attempt.context.options
        task_id = attempt.completion.task_id
        tags = problem_tag(task_id), *scoring.tags
        options = replace(scoring.trial, tags=tags, task_id=task_id, retries=scoring.retries)
        is_strict = attempt.context.judge.requires_isolated
        if is_strict and options.mode is VerifierPlace.TASK:
            options = replace(options, mode=VerifierPlace.SEPARATE)
        failures = moves = 0
        while True:
            try:
                verdict = self._trial(task, agent, options)
                return _strict(verdict) if is_strict else verdict
            except RuntimeLost as lost:
                reason, moves = str(lost), moves + 1
                is_over = moves > MOST_MOVES
            except InfrastructureError as error:
                reason, failures = error.message, failures + 1
                is_over = failures > scoring.retries
            attempt.failures.append(reason)
            if not agent.is_repeatable:
                return Verdict(Status.INFRASTRUCTURE, None, 0, 1, reason)
            if is_over:
                return self._blamed(attempt, task, options, reason) if failures > scoring.retries else _lost(reason)
            pause = delay_seconds(failures + moves, scoring.backoff_seconds)
            self._hear(partial(self._retry, attempt, reason, pause))
            time.sleep(pause)

    def _trial(self, task: Task, agent: Agent, options: TrialOptions) -> Verdict:
        memory_bytes, processors = needs_of(task, options.mode)
        room: AbstractContextManager[bool] = nullcontext(True)
        if agent.takes_turns:
            needed = min(processors, _processors())
            room = self._capacity.take(memory_bytes, needed, is_wanted=lambda: self._level is Level.NONE)
        with room as has_room:
            if not has_room or self._level is not Level.NONE:
                raise _Stopped
            return run_trial(task, agent, self._site, options)

    def _blamed(self, attempt: Attempt, task: Task, options: TrialOptions, reason: str) -> Verdict:
        # Each sandbox of the answer was lost; one without an answer tells whether the runtime is well.
        try:
            passed = self._trial(task, Nothing(), replace(options, tags=(CANARY_TAG, *options.tags))).status.scorable
        except (InfrastructureError, RuntimeLost):
            passed = False
        named = attempt.completion
        self._tell(CanaryFinished(attempt.index, passed, None, False, named.id, named.task_id))
        if not passed:
            return _lost(reason)
        detail = f"its sandbox failed {len(attempt.failures)} times, and that of nothing did not: {reason}"
        return Verdict(Status.CRASHED, None, 0, 1, detail, score=0.0)

    def _hear(self, done: Callable[[], None]) -> None:
        self._heard.put(done)
        self._wake()

    def _tell(self, event: Event) -> None:
        self._hear(lambda: self._emit(event))

    # On the thread of the batch

    def _retry(self, attempt: Attempt, reason: str, pause: float) -> None:
        attempt.retries += 1
        attempt.executions += 1
        named = attempt.completion
        most = attempt.context.options.retries + 1
        self._emit(RetryScheduled(attempt.index, attempt.executions, most, reason, pause, named.id, named.task_id))

    def _withdraw(self, attempt: Attempt) -> None:
        self._running -= 1
        self._on_withdrawn(attempt)

    def _finish(self, attempt: Attempt, verdict: Verdict) -> None:
        self._running -= 1
        if verdict.status is Status.INVALID_PROBLEM and verdict.sandbox_id is None:
            attempt.executions = 0
        self._on_verdict(attempt, verdict)


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _raise(error: Exception) -> None:
    raise error


def _strict(verdict: Verdict) -> Verdict:
    # Without a state, the verifier ran where the agent was. What has earned nothing there is no choice of an agent.
    if verdict.trust is not Trust.SHARED or (verdict.score or 0.0) <= 0:
        return verdict
    detail = "the verifier ran in the sandbox of the agent, whose state cannot be kept"
    return replace(verdict, status=Status.NOT_ISOLATED, score=None, detail=detail)


def _lost(reason: str) -> Verdict:
    return Verdict(Status.INFRASTRUCTURE, None, 0, 1, reason)


def _site_of(place: JobPlace, states: Path, emit: Emit) -> Site:
    has_told = False
    furnish = downloads(os.environ, emit)

    def make(shape: Shape, state: State | None, tags: Sequence[str], task_id: str) -> Machine:
        nonlocal has_told
        there = _processors()
        if place.connection.is_local and (shape.processors or 0) > there:
            if not has_told:
                has_told = True
                message = f"a task asks for {shape.processors:g} processors, and this machine has {there}: it gets all"
                emit(Warned(message))
            shape = replace(shape, processors=float(there))
        if shape.loopback_ports:
            network = with_loopback(shape.network or place.connection.network, shape.loopback_ports)
            shape = replace(shape, network=network, loopback_ports=())
        shape, files = furnish(shape, place.connection)
        return Machine(place, replace(shape, state=state), tags, task_id=task_id, states=states, files=files)

    return Site(make, place.find_image)
