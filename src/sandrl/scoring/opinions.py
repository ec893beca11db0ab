"""Second opinions: failed completions, judged again in plain Python in one process.

An opinion measures the judge and is never part of a result. It is computed after the result was returned, in slots that
no completion waits for, and it is kept apart from verdicts: in no cache, in no count of executions. If a completion
fails isolated and passes in one process, then either the judge is wrong about it, or the completion deceives checks
that share its process.

Problem and code alone decide which completions get an opinion, so a run that is repeated or resumed chooses the same
ones, and a higher rate chooses those of a lower rate and more.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sandrl.errors import InfrastructureError
from sandrl.events import Emit, OpinionFinished, OpinionsAwaited
from sandrl.events.results import Opinion, ScoredCompletion, Status, Trust
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem
from sandrl.runs import OPINION_TAG
from sandrl.sandboxes import CommandOutcome, Job, Launch, Shape, Withdrawn, problem_tag
from sandrl.scoring.attempts import MOST_MOVES
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions

OpinionMemory: TypeAlias = dict[bytes, Opinion]
"""Opinions by the digest of problem and code."""

# A syntax error and missing code are the same in any process, and what has no reward is no failure.
_FAILURES = frozenset({Status.FAILED, Status.CRASHED, Status.TIMEOUT, Status.RESOURCE_LIMIT})
# Whose checks were never in the process that ran the completion.
_APART = frozenset({Trust.ISOLATED, Trust.OWN_OPERATOR})
_DIGEST_BITS = 64


@dataclass(slots=True, eq=False)
class _Question:
    # About the failed results of a problem and a code: the first, and those of identical completions.
    key: bytes
    problem: Problem
    code: str
    context: ScoringContext
    results: list[ScoredCompletion] = field(default_factory=list)
    moves: int = 0


class Opinions:
    """The second opinions of a batch: which are asked for, which are on their way, and what came of them.

    Args:
        memory: Opinions that were found before, and where to keep new ones.
    """

    def __init__(self, job: Job, options: ScoreOptions, emit: Emit, memory: OpinionMemory) -> None:
        self._job = job
        self._options = options
        self._emit = emit
        self._memory = memory
        self._queue: deque[_Question] = deque()
        self._running: dict[Launch, tuple[_Question, Execution]] = {}
        self._open: dict[bytes, _Question] = {}
        self._found: dict[int, Opinion] = {}
        self._ends_at: float | None = None
        self._has_told = False

    def __bool__(self) -> bool:
        """Whether opinions are still to come."""
        return bool(self._queue or self._running)

    @property
    def in_flight(self) -> int:
        return len(self._running)

    def added_to(self, result: ScoredCompletion) -> ScoredCompletion:
        opinion = self._found.get(result.index)
        return result if opinion is None else replace(result, second_opinion=opinion)

    def consider(self, result: ScoredCompletion, problem: Problem, code: str | None, context: ScoringContext) -> None:
        """Asks for an opinion on a result, if it is a failure of the kind that is asked about, and is chosen."""
        if code is None or not self._is_eligible(result, problem):
            return
        key = digest(problem.task_id, code)
        if not is_chosen(key, self._options.second_opinion.rate):
            return
        if self._options.caching and key in self._memory:
            self._tell(result, replace(self._memory[key], sandboxes=0))
        elif self._options.caching and key in self._open:
            self._open[key].results.append(result)
        else:
            question = _Question(key, problem, code, context, [result])
            self._open[key] = question
            self._queue.append(question)

    def launch(self, room: int) -> None:
        """Runs as many of those that wait as there is room for, each in a fresh sandbox."""
        while self._queue and room > 0:
            question = self._queue.popleft()
            execution = question.context.judge.prepare_opinion(question.problem, question.code, self._options.limits)
            if execution is None:
                self._open.pop(question.key, None)
                continue
            tags = (OPINION_TAG, problem_tag(question.problem.task_id), *self._options.tags)
            launch = self._job.launch(execution.command, tags=tags, shape=Shape(question.context.image))
            self._running[launch] = (question, execution)
            room -= 1

    def land(self, launch: Launch) -> bool:
        """Collects an ended launch; returns whether it was one of an opinion."""
        if launch not in self._running:
            return False
        question, execution = self._running.pop(launch)
        try:
            opinion = _opinion(question.context.judge, execution, self._job.collect(launch), launch.sandbox_id)
        except Withdrawn:
            self._open.pop(question.key, None)
            return True
        except InfrastructureError as error:
            if self._job.has_moved(launch, error) and question.moves < MOST_MOVES:
                question.moves += 1
                self._queue.appendleft(question)
                return True
            opinion = Opinion(Status.INFRASTRUCTURE, error.message, launch.sandbox_id)
        if opinion.is_available:
            self._memory[question.key] = opinion
        self._answer(question, opinion)
        return True

    def seconds_left(self) -> float | None:
        """How long to wait for opinions once every completion has its result; None without a limit."""
        patience = self._options.second_opinion.patience_seconds
        if patience is None:
            if not self._has_told:
                self._has_told = True
                self._emit(OpinionsAwaited(len(self._queue) + len(self._running)))
            return None
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + patience
        return max(self._ends_at - now, 0.0)

    def give_up(self) -> None:
        """Waits no longer: cancels what is at work, and counts what is still to come as unavailable."""
        reason = "the batch stopped waiting for this opinion"
        for launch, (question, _) in self._running.items():
            # It still ends as a launch of the job, which then stops its sandbox.
            launch.cancel()
            self._answer(question, Opinion(Status.INFRASTRUCTURE, reason, launch.sandbox_id))
        for question in self._queue:
            self._answer(question, Opinion(Status.INFRASTRUCTURE, reason, sandboxes=0))
        self._running.clear()
        self._queue.clear()

    def _is_eligible(self, result: ScoredCompletion, problem: Problem) -> bool:
        options = self._options.second_opinion
        if not options.rate or problem.kind != "tests" or result.trust not in _APART:
            return False
        if result.status not in _FAILURES:
            return False
        return options.patience_seconds is None or result.status is not Status.TIMEOUT

    def _answer(self, question: _Question, opinion: Opinion) -> None:
        opinion = replace(opinion, sandboxes=opinion.sandboxes + question.moves)
        if self._open.get(question.key) is question:
            del self._open[question.key]
        for position, result in enumerate(question.results):
            self._tell(result, opinion if position == 0 else replace(opinion, sandboxes=0))

    def _tell(self, result: ScoredCompletion, opinion: Opinion) -> None:
        self._found[result.index] = opinion
        self._emit(OpinionFinished(result, opinion))


def digest(task_id: str, code: str) -> bytes:
    """Names a problem and an answer to it."""
    parts = (hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest() for part in (task_id, code))
    return hashlib.sha256(b"".join(parts)).digest()


def is_chosen(key: bytes, rate: float) -> bool:
    """Whether the completion with a digest is in the share, from 0 to 1, that is asked about."""
    return int.from_bytes(key[: _DIGEST_BITS // 8], "big") / 2**_DIGEST_BITS < rate or rate == 1


def _opinion(judge: Judge, execution: Execution, outcome: CommandOutcome, sandbox_id: str | None) -> Opinion:
    if outcome.timed_out:
        # The judge has a clock of its own; this one goes off where nothing ran, which says nothing about the code.
        return Opinion(Status.INFRASTRUCTURE, "its sandbox stopped answering", sandbox_id)
    verdict: Verdict = judge.interpret(execution, outcome)
    # The word is the guest's, of which the completion is a part; the checks are what counts.
    is_false_word = verdict.status is Status.PASSED and not verdict.is_pass
    return Opinion(Status.FAILED if is_false_word else verdict.status, verdict.detail, sandbox_id)
