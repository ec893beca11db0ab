"""Scoring completions: one fresh sandbox each, many at once, every one accounted for.

The design decision: one thread and one loop. Everything slow happens on the SDK's event loop; this loop hands over,
waits for whichever ends first, and decides. A completion leaves it in exactly one way, with a result; one that the
user's wish to stop kept from being finished has none, and the report says so.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sandrl.errors import InfrastructureError
from sandrl.events import CompletionFinished, CompletionStarted, Emit, RetryScheduled, StopRequested, Warned, ignore
from sandrl.problems import Completion, Problem
from sandrl.rewards.extraction import Extraction, continues, extract, join_to_prompt
from sandrl.rewards.judge import Execution, IsolatedJudge, Judge, Limits, check_count, time_limit
from sandrl.rewards.policies import RewardPolicy, binary, reward_of
from sandrl.rewards.summary import ScoredCompletion, Summary, summarise
from sandrl.rewards.verdict import Status, Verdict
from sandrl.sandboxes import Interrupt, Job, Launch, Level, connect, new_job_id
from sandrl.settings import load_settings

# Enough for a sandbox to be created and stopped in, however busy the runtime is.
_LIFETIME_MARGIN_SECONDS = 300.0
# A timeout is doubtful if the code had less than this share of its time on a processor,
_BUSY_SHARE = 0.5
# and waited for a processor for more than this share.
_STARVED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How to score.

    Attributes:
        extraction: Where in a completion its code is.
        limits: What a completion may use.
        concurrency: How many sandboxes at once; what suits the runtime unless given.
        retries: How often a completion is tried again when its sandbox failed.
        policy: From verdict to reward.
    """

    extraction: Extraction = Extraction.AUTO
    limits: Limits = field(default_factory=Limits)
    concurrency: int | None = None
    retries: int = 2
    policy: RewardPolicy = binary


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """What came of scoring.

    Attributes:
        job_id: The job whose sandboxes were used.
        results: In input order; without those that a wish to stop left unfinished.
        summary: Their totals.
        unfinished: How many completions have no result.
        signal_number: The signal that asked to stop; 0 if none did.
    """

    job_id: str
    results: tuple[ScoredCompletion, ...]
    summary: Summary
    unfinished: int = 0
    signal_number: int = 0


OnResult: TypeAlias = Callable[[ScoredCompletion], None]


def lifetime_seconds(problems: Mapping[str, Problem], limits: Limits) -> float:
    """After how long the service should end a sandbox by itself, whatever happened to the job."""
    longest = max((time_limit(problem, limits) for problem in problems.values()), default=limits.timeout_seconds)
    return longest + _LIFETIME_MARGIN_SECONDS


def extract_code(completion: Completion, problem: Problem, how: Extraction = Extraction.AUTO) -> str | None:
    """The code of a completion, joined to the problem's prompt where it continues it; None if there is none."""
    if completion.code is not None:
        code: str | None = completion.code if completion.code.strip() else None
    else:
        text = completion.text or ""
        code = extract(text, how)
        if code is None and how is Extraction.AUTO and continues(problem.prompt, problem.entry_point, text):
            code = text
    return None if code is None else join_to_prompt(problem.prompt, problem.entry_point, code)


def score(
    completions: Sequence[Completion],
    problems: Mapping[str, Problem],
    *,
    job: Job | None = None,
    judge: Judge | None = None,
    options: ScoreOptions | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
    on_result: OnResult | None = None,
) -> ScoreReport:
    """Judges every completion in a fresh sandbox.

    Args:
        completions: What to score; each names its problem.
        problems: Problems by `task_id`.
        job: Owns the sandboxes, and is closed by the caller. Without one, one is made on the runtime that the
            environment decides for, and closed at the end.
        judge: Decides what a completion did.
        options: How to score.
        emit: Told what happens.
        interrupt: The user's wish to stop.
        on_result: Told each result as soon as there is one.

    Returns:
        All results in input order, and their totals.

    Raises:
        KeyError: If a completion names a problem that is not given.
        AuthenticationError: If the service refuses the credentials.
        UsageError: If the service refuses the request itself.
    """
    options = options or ScoreOptions()
    if job is None:
        connection = connect(load_settings(), emit=emit)
        lifetime = lifetime_seconds(problems, options.limits)
        with Job(connection, job_id=new_job_id(), max_lifetime_seconds=lifetime, emit=emit) as own:
            return score(
                completions,
                problems,
                job=own,
                judge=judge,
                options=options,
                emit=emit,
                interrupt=interrupt,
                on_result=on_result,
            )
    judge = judge or IsolatedJudge(with_site_packages=job.connection.has_site_packages)
    scoring = _Scoring(job, judge, options, emit, interrupt or Interrupt(), on_result)
    for completion in completions:
        scoring.add(completion, problems[completion.task_id])
    return scoring.run()


@dataclass(slots=True, eq=False)
class _Try:
    """A completion on its way to its result."""

    index: int
    completion: Completion
    problem: Problem
    code: str | None = None
    sandboxes: int = 0
    failures: int = 0
    alone: bool = False
    began: float = 0.0
    execution: Execution | None = None


class _Scoring:
    """The state of one call of `score`."""

    def __init__(
        self,
        job: Job,
        judge: Judge,
        options: ScoreOptions,
        emit: Emit,
        interrupt: Interrupt,
        on_result: OnResult | None,
    ) -> None:
        self._job = job
        self._judge = judge
        self._options = options
        self._emit = emit
        self._interrupt = interrupt
        self._on_result = on_result
        self._concurrency = options.concurrency or job.connection.suggested_concurrency
        self._waiting: deque[_Try] = deque()
        self._alone: deque[_Try] = deque()
        self._flying: dict[Launch, _Try] = {}
        self._results: dict[int, ScoredCompletion] = {}
        self._total = 0

    def add(self, completion: Completion, problem: Problem) -> None:
        """Queues a completion."""
        self._waiting.append(_Try(self._total, completion, problem))
        self._total += 1

    def run(self) -> ScoreReport:
        """Scores what is queued, until all of it has a result or the user wants to stop."""
        level = Level.NONE
        while self._waiting or self._alone or self._flying:
            if self._interrupt.level > level:
                level = self._interrupt.level
                self._emit(StopRequested(level is Level.CANCEL, len(self._flying)))
            if level is Level.CANCEL:
                break
            if level is Level.NONE:
                self._launch_more()
            if not self._flying:
                break
            for launch in self._job.wait_any(self._interrupt, level):
                self._land(launch)
        results = tuple(self._results[index] for index in sorted(self._results))
        if results and all(result.status is Status.NO_CODE for result in results):
            how = self._options.extraction
            hint = "another --extract may find it: auto, answer, exact, fence, or raw for text that is all code"
            self._emit(Warned(f"no code was found in any completion with --extract {how}", hint=hint))
        unfinished = self._total - len(results)
        return ScoreReport(self._job.id, results, summarise(results), unfinished, self._interrupt.signal_number)

    def _launch_more(self) -> None:
        while self._waiting and len(self._flying) < self._concurrency:
            self._launch(self._waiting.popleft())
            if self._interrupt.level:
                return
        if self._alone and not self._flying:
            self._launch(self._alone.popleft())

    def _launch(self, attempt: _Try) -> None:
        completion, problem = attempt.completion, attempt.problem
        if attempt.code is None:
            attempt.began = time.monotonic()
            attempt.code = extract_code(completion, problem, self._options.extraction)
        if attempt.code is None:
            self._finish(attempt, Status.NO_CODE, "no code was found in it")
            return
        attempt.sandboxes += 1
        # Prepared anew for every sandbox: an execution's key is used once.
        attempt.execution = self._judge.prepare(problem, attempt.code, self._options.limits)
        self._emit(CompletionStarted(attempt.index, completion.id, completion.task_id, attempt.sandboxes))
        launch = self._job.launch(attempt.execution.command, tags=(f"problem-{completion.task_id}",))
        self._flying[launch] = attempt

    def _land(self, launch: Launch) -> None:
        attempt = self._flying.pop(launch)
        assert attempt.execution is not None, "only executions fly"
        try:
            outcome = self._job.collect(launch)
            verdict = self._judge.interpret(attempt.execution, outcome)
        except InfrastructureError as error:
            self._retry_or_give_up(attempt, launch.sandbox_id, error.message)
            return
        if self._judge.falls_back(attempt.problem, verdict):
            self._waiting.appendleft(attempt)
            return
        if not attempt.alone and is_doubtful(verdict):
            attempt.alone = True
            self._alone.append(attempt)
            reason = "it timed out while it waited for a processor; it will run again alone"
            self._emit(RetryScheduled(attempt.index, attempt.sandboxes + 1, attempt.sandboxes + 1, reason))
            return
        self._finish(attempt, verdict.status, verdict.detail, verdict, outcome.sandbox_id)

    def _retry_or_give_up(self, attempt: _Try, sandbox_id: str | None, reason: str) -> None:
        attempt.failures += 1
        if attempt.failures > self._options.retries:
            self._finish(attempt, Status.INFRASTRUCTURE, reason, sandbox_id=sandbox_id)
            return
        at_most = attempt.sandboxes + 1 + self._options.retries - attempt.failures
        self._emit(RetryScheduled(attempt.index, attempt.sandboxes + 1, at_most, reason))
        (self._alone if attempt.alone else self._waiting).append(attempt)

    def _finish(
        self,
        attempt: _Try,
        status: Status,
        detail: str,
        verdict: Verdict | None = None,
        sandbox_id: str | None = None,
    ) -> None:
        seconds = time.monotonic() - attempt.began
        if verdict is None:
            verdict = Verdict(status, trust=None, total=check_count(attempt.problem), detail=detail)
        result = ScoredCompletion(
            index=attempt.index,
            id=attempt.completion.id,
            task_id=attempt.completion.task_id,
            reward=reward_of(verdict, self._options.policy),
            status=status,
            trust=verdict.trust,
            passed=verdict.passed,
            total=verdict.total,
            duration_seconds=seconds,
            sandbox_id=sandbox_id,
            detail=detail,
            sandboxes=attempt.sandboxes,
            cpu_seconds=verdict.cpu_seconds,
            code=attempt.code,
            stdout=verdict.stdout,
            stderr=verdict.stderr,
            truncated=verdict.truncated,
        )
        self._results[attempt.index] = result
        if self._on_result is not None:
            self._on_result(result)
        self._emit(
            CompletionFinished(
                index=result.index,
                id=result.id,
                task_id=result.task_id,
                status=status,
                reward=result.reward,
                passed=result.passed,
                total=result.total,
                duration_seconds=seconds,
                detail=detail,
                finished=len(self._results),
                of=self._total,
            )
        )


def is_doubtful(verdict: Verdict) -> bool:
    """Whether a timeout may be the machine's fault: the code got little of a processor, and waited for one for long.

    The kernel's own account of that wait decides, not the load: a program that sleeps too long on a busy machine has
    waited for nobody. Where the kernel keeps no account, the load of a machine that is this one has to do.
    """
    if verdict.status is not Status.TIMEOUT or verdict.wall_seconds <= 0:
        return False
    if verdict.cpu_seconds > _BUSY_SHARE * verdict.wall_seconds:
        return False
    if verdict.starved_seconds >= 0:
        return verdict.starved_seconds > _STARVED_SHARE * verdict.wall_seconds
    return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
