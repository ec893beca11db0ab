"""Scores a batch of completions, many at once, each in a cell or in a fresh sandbox.

A batch has one thread and one loop. The SDK's event loop does everything slow; this loop submits work, waits for the
next result, and decides. Each completion leaves the loop in exactly one way, with a result; a completion that was not
finished because the user stopped the command has no result, and the report counts it as unfinished.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

from sandrl.answers.extraction import Extraction, extract_code
from sandrl.errors import InfrastructureError, UsageError
from sandrl.events import (
    CompletionFinished,
    Emit,
    StopRequested,
    Warned,
)
from sandrl.events.results import CheckStatus, Isolation, ScoredCompletion, Status
from sandrl.judge.verdict import Verdict, named_checks, named_detail, with_answer
from sandrl.problems import Completion, Problem
from sandrl.sandboxes import BEAT_SECONDS, Connection, Interrupt, Job, Launch, Level, Withdrawn
from sandrl.scoring.attempts import Attempt
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.grading import Grade, Grading, GradingQueue, judge_of
from sandrl.scoring.judging import Judging, OnVerdict, judging_of
from sandrl.scoring.opinions import OpinionMemory, Opinions
from sandrl.scoring.policies import reward_of
from sandrl.scoring.summary import ScoreReport
from sandrl.scoring.task_judging import TaskJudging
from sandrl.trials.place import JobPlace
from sandrl.trials.trial import Agent

OnResult: TypeAlias = Callable[[ScoredCompletion], None]


class Feed(Protocol):
    """Those who add completions to a batch that is being scored, and use its job besides.

    All of it is called on the batch's own thread; a batch that has nothing left waits for as long as its feed is open.
    Whoever wants to be called wakes the batch's interrupt.
    """

    @property
    def is_open(self) -> bool: ...

    @property
    def has_more(self) -> bool: ...

    def take_turn(self) -> None: ...

    def land(self, launch: Launch) -> bool:
        """Collects an ended launch that is not the batch's; returns whether it was the feed's own."""
        ...


def check_memory(problem: Problem, connection: Connection) -> None:
    """Refuses a problem whose limit is beyond that of a sandbox: right answers might fail in one.

    Raises:
        UsageError: If it is.
    """
    allowed, given = problem.memory_bytes, connection.memory_bytes
    if allowed is not None and given is not None and allowed > given:
        raise UsageError(
            f"the problem {problem.task_id!r} allows {allowed / 2**20:.0f} MiB of memory, and a sandbox has"
            f" {given / 2**20:.0f} MiB",
            hint=f"give each sandbox this much memory with `sandbox_memory_bytes`: {allowed}",
            fields=("sandbox_memory_bytes",),
        )


def _isolation(attempt: Attempt) -> Isolation | None:
    if not attempt.executions:
        return None
    return Isolation.SANDBOX if attempt.cells < attempt.executions else Isolation.CELL


def no_code_warning(extraction: Extraction) -> Warned:
    hint = "try another `extract`: auto, answer, exact, fence, or raw for text that is only code"
    return Warned(f"no code was found in any completion with `extract` {extraction}", hint, fields=("extract",))


@dataclass(frozen=True, slots=True)
class _Queued:
    index: int
    completion: Completion | Callable[[], Completion]
    problem: Problem | Mapping[str, Problem]
    context: ScoringContext
    agent: Agent | None = None
    queued_at: float = field(default_factory=time.monotonic)
    began: float = 0.0

    def attempt(self) -> Attempt:
        completion = self.completion if isinstance(self.completion, Completion) else self.completion()
        problem = self.problem if isinstance(self.problem, Problem) else self.problem[completion.task_id]
        return Attempt(self.index, completion, problem, self.context, self.agent, queued_at=self.queued_at)


class Batch:
    """The state of one call of `score`; see there for the arguments."""

    def __init__(
        self,
        job: Job,
        context: ScoringContext,
        cache: VerdictCache,
        emit: Emit,
        interrupt: Interrupt,
        on_result: OnResult | None,
        opinions: OpinionMemory | None = None,
        *,
        keeps_output: bool = True,
        keeps_results: bool = True,
        hash_seeds: Mapping[int, dict[str, str]] | None = None,
        on_verdict: OnVerdict | None = None,
        place: JobPlace | None = None,
        counts: bool = True,
        on_withdrawn: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._job = job
        self._place = place
        # Whether a completion is what the budget of the job counts, and not a part of it.
        self._counts = counts
        self._on_withdrawn = on_withdrawn
        self._trials: TaskJudging | None = None
        self._on_verdict = on_verdict
        self._cache = cache
        self._context = context
        # Identical completions wait here for the verdict of the first.
        self._followers: dict[str, list[_Queued]] = {}
        self._emit = emit
        self._interrupt = interrupt
        self._on_result = on_result
        self._keeps_output = keeps_output
        self._keeps_results = keeps_results
        self._hash_seeds = hash_seeds or {}
        self._waiting: deque[Attempt | _Queued] = deque()
        options = context.options
        self._judging = judging_of(job)(job, context.judge, options.concurrency, emit, self._finish)
        self._opinions: Opinions | None = None
        if options.second_opinion.rate:
            self._opinions = Opinions(job, options, emit, {} if opinions is None else opinions)
        # Completions with a verdict that wait for their grade, by who grades.
        self._gradings: dict[Grading, GradingQueue] = {}
        if options.grading is not None:
            judge_of(options.grading).check(emit)
        # Completions that wait for the image of their problem, by image, and contexts with images.
        self._without_image: dict[str, list[_Queued]] = {}
        self._of_images: dict[tuple[ScoringContext, str], ScoringContext] = {}
        self._refused_images: set[str] = set()
        self._results: dict[int, ScoredCompletion] = {}
        self._total = self._finished = 0
        self._has_text = False
        self._has_warned = False

    def add(
        self,
        completion: Completion | Callable[[], Completion],
        problem: Problem | Mapping[str, Problem],
        context: ScoringContext | None = None,
        *,
        agent: Agent | None = None,
    ) -> int:
        """Queues a completion.

        Args:
            completion: What is to be scored, or what returns it when its turn comes, and again when it has a verdict.
            problem: What it answers, or problems by `task_id`: its own is looked up when its turn comes, because a
                batch may have more of them than fit into memory.
            context: How it is judged and rewarded, where that is not how the batch is.
            agent: Who acts on the machine of a task, if it is not the completion itself, as a patch or a script.

        Returns:
            Its number in the batch, from 0.
        """
        self._waiting.append(_Queued(self._total, completion, problem, context or self._context, agent))
        self._total += 1
        return self._total - 1

    def add_all(self, completions: Sequence[Completion], problems: Mapping[str, Problem]) -> None:
        for position in range(len(completions)):
            self.add(partial(completions.__getitem__, position), problems)

    def withdraw_trials(self) -> None:
        """Lets trials end that have a machine, and no other begin; `on_withdrawn` hears of those, by their number."""
        self._judged_by_trials.stop(Level.FINISH)

    @property
    def room(self) -> int:
        """How many more completions would be launched at once."""
        begun = self._in_flight + sum(judging.waiting for judging in self._judgings)
        return max(max(judging.window for judging in self._judgings) - begun - len(self._waiting), 0)

    def run(self, feed: Feed | None = None, *, is_limited: bool | None = None) -> ScoreReport:
        """Scores until nothing is left, and the feed is closed; the budget limits how many are begun at once.

        A feed sees to the budget itself, unless the batch `is_limited`.
        """
        is_limited = feed is None if is_limited is None else is_limited
        level = Level.NONE
        spending = self._job.spending
        while self._has_work or (feed and feed.is_open):
            if feed is not None:
                feed.take_turn()
            if spending.is_bounded:
                spending.look()
            if self._interrupt.level > level:
                level = self._interrupt.level
                self._emit(StopRequested(level is Level.CANCEL, self._in_flight))
                for judging in self._judgings:
                    judging.stop(level)
            for judging in self._judgings:
                judging.look()
            for grading in self._gradings.values():
                grading.land()
            if level is Level.CANCEL:
                break
            if level is Level.NONE:
                self._launch_more(is_limited=is_limited)
                if feed is not None and feed.has_more and self.room:
                    # What waits for another one's verdict, or has it already, takes no place.
                    continue
            pause = self._judging.seconds_to_next(level)
            if pause is None and self._ungraded:
                pause = math.inf
            if pause is None and ((feed is not None and feed.is_open) or (self._trials and self._trials.in_flight)):
                pause = math.inf
            is_over = self._finished == self._total and not (feed and feed.is_open)
            if self._opinions and is_over and (level is Level.NONE or self._in_flight):
                # Results never wait for opinions, but the batch does, for as long as it may.
                pause = self._opinions.seconds_left()
                if pause == 0:
                    self._opinions.give_up()
                    break
            if self._without_image and level is Level.NONE:
                pause = min(BEAT_SECONDS if pause is None else pause, BEAT_SECONDS)
            if not self._in_flight and pause is None:
                break
            for launch in self._job.wait_any(self._interrupt, level, pause):
                if any(judging.land(launch) for judging in self._judgings):
                    continue
                if self._opinions is not None and self._opinions.land(launch):
                    continue
                if feed is None or not feed.land(launch):
                    # The job was used before, by a batch that an error or Ctrl-C tore open.
                    with suppress(InfrastructureError, Withdrawn):
                        self._job.collect(launch)
        for judging in self._judgings:
            judging.end()
        for grading in self._gradings.values():
            grading.close()
        if spending.level is Level.CANCEL:
            self._job.give_up_early()
        self._job.tell_held()
        results = tuple(self._results[index] for index in sorted(self._results))
        if self._opinions is not None:
            results = tuple(map(self._opinions.added_to, results))
        options = self._context.options
        if self._has_text and results and all(result.status is Status.NO_CODE for result in results):
            self._emit(no_code_warning(options.extraction))
        if results and all(result.status is Status.ABSTAINED for result in results):
            hint = "does it return a number for each completion that it is to reward?"
            self._emit(Warned(f"the reward function returned None for all {len(results)} completions", hint))
        unfinished, rate = self._total - self._finished, options.second_opinion.rate
        return ScoreReport(self._job.id, results, unfinished, self._interrupt.signal_number, opinion_rate=rate)

    @property
    def _has_work(self) -> bool:
        begun = self._in_flight or any(judging.waiting for judging in self._judgings)
        return bool(self._waiting or self._without_image or begun or self._ungraded or self._opinions)

    @property
    def _ungraded(self) -> int:
        return sum(grading.pending for grading in self._gradings.values())

    @property
    def _judgings(self) -> tuple[Judging, ...]:
        return (self._judging,) if self._trials is None else (self._judging, self._trials)

    @property
    def _in_flight(self) -> int:
        opinions = 0 if self._opinions is None else self._opinions.in_flight
        return opinions + sum(judging.in_flight for judging in self._judgings)

    def _is_full_of_trials(self, *, is_limited: bool) -> bool:
        if self._trials is None:
            return False
        window = self._job.spending.limit(self._trials.window) if is_limited else self._trials.window
        return self._trials.in_flight + self._trials.waiting >= window

    def _launch_more(self, *, is_limited: bool) -> None:
        self._take_images()
        for judging in self._judgings:
            judging.go_on()
        window = self._judging.window
        if is_limited and self._job.spending.is_bounded:
            # Who feeds a batch has begun what it asks for, and sees to the budget itself.
            window = self._job.spending.limit(window)
        trials = self._trials
        while self._waiting and self._in_flight - (trials.in_flight if trials else 0) < window:
            if self._is_full_of_trials(is_limited=is_limited):
                break
            queued = self._waiting.popleft()
            attempt = queued if isinstance(queued, Attempt) else queued.attempt()
            if attempt.problem.task is None:
                check_memory(attempt.problem, self._job.connection)
            image = attempt.problem.image if attempt.problem.task is None else attempt.problem.task.environment.image
            if isinstance(queued, _Queued) and image is not None and not queued.context.image:
                self._await_image(attempt, queued, image)
            else:
                self._launch(attempt, queued)
            if self._interrupt.level:
                break
        if not self._waiting and self._opinions and not self._interrupt.level:
            self._opinions.launch(self._judging.fresh_window - self._in_flight)

    def _await_image(self, attempt: Attempt, queued: _Queued, image: str) -> None:
        found = self._job.with_image(image)
        if not found.done():
            self._without_image.setdefault(image, []).append(queued)
            return
        error = found.exception()
        if error is None:
            key = queued.context, image
            if key not in self._of_images:
                self._of_images[key] = queued.context.with_image(found.result())
            queued = replace(queued, context=self._of_images[key])
            self._launch(replace(attempt, context=queued.context), queued)
        elif isinstance(error, InfrastructureError):
            attempt.began = time.monotonic()
            if image not in self._refused_images:
                self._refused_images.add(image)
                message = f"completions of problems with this image have no reward: {error.message}"
                self._emit(Warned(message, error.hint))
            self._finish(attempt, Verdict(Status.INFRASTRUCTURE, None, detail=error.message))
        else:
            raise error

    def _take_images(self) -> None:
        # What waited for an image that is there now, or cannot be had, comes first.
        for image in [image for image in self._without_image if self._job.with_image(image).done()]:
            self._waiting.extendleft(reversed(self._without_image.pop(image)))

    def _launch(self, attempt: Attempt, queued: Attempt | _Queued) -> None:
        self._has_text = self._has_text or attempt.completion.completion is not None
        is_task = attempt.problem.task is not None
        if attempt.code is None:
            attempt.began = time.monotonic()
            if is_task:
                attempt.take_agent()
            else:
                attempt.code = extract_code(attempt.completion, attempt.problem, attempt.context.options.extraction)
        if attempt.completion.loss:
            self._finish(attempt, Verdict(Status.INFRASTRUCTURE, None, detail=attempt.completion.loss))
        elif attempt.agent is None if is_task else attempt.code is None:
            missing = "patch or script" if is_task else "code" if attempt.problem.answer is None else "answer"
            self._finish(attempt, Verdict(Status.NO_CODE, None, detail=f"no {missing} was found in the completion"))
        elif attempt.code is None:
            # What a model does is another thing each time.
            self._judged_by_trials.begin(attempt)
        elif (
            attempt.context.options.caching
            and not attempt.executions
            and self._waits_or_has_verdict(attempt, attempt.code, queued)
        ):
            return
        else:
            (self._judged_by_trials if is_task else self._judging).begin(attempt)

    @property
    def _judged_by_trials(self) -> TaskJudging:
        if self._trials is None:
            self._trials = TaskJudging(
                self._job,
                self._context.options.trial.at_once,
                self._emit,
                self._finish,
                on_withdrawn=lambda attempt: self._on_withdrawn(attempt.index),
                wake=self._interrupt.wake,
                place=self._place,
            )
        return self._trials

    def _waits_or_has_verdict(self, attempt: Attempt, code: str, queued: Attempt | _Queued) -> bool:
        if attempt.key is not None:
            return False
        # Any verdict on all checks will do; one that stopped at a failure is another one.
        attempt.whole_key, attempt.key = attempt.context.names.both(attempt.problem, code)
        verdict = self._cache.find(attempt.whole_key)
        if verdict is None and attempt.key != attempt.whole_key:
            verdict = self._cache.find(attempt.key)
        if verdict is not None:
            self._finish(attempt, verdict, cached=True)
            return True
        if attempt.key in self._followers:
            assert isinstance(queued, _Queued), "it has not been launched before"
            self._followers[attempt.key].append(replace(queued, began=attempt.began))
            return True
        self._followers[attempt.key] = []
        attempt.leads = True
        return False

    def _finish(self, attempt: Attempt, verdict: Verdict, *, cached: bool = False) -> None:
        seconds = time.monotonic() - attempt.began
        if verdict.trust is None:
            verdict = replace(verdict, total=attempt.problem.check_count)
        grading = attempt.context.options.grading
        if grading is None or not verdict.status.scorable or attempt.problem.task is not None:
            self._give_result(attempt, verdict, seconds, cached=cached)
        else:
            if grading not in self._gradings:
                self._gradings[grading] = GradingQueue(judge_of(grading), self._interrupt.wake)
            answer = attempt.completion.completion or attempt.code or ""
            take = partial(self._give_result, attempt, verdict, seconds, cached=cached)
            self._gradings[grading].add(attempt.problem.prompt, answer, lambda grade: take(grade=grade))
        if attempt.leads and attempt.key is not None:
            self._release_followers(attempt, attempt.key, verdict)

    def _give_result(
        self, attempt: Attempt, verdict: Verdict, seconds: float, *, cached: bool, grade: Grade | None = None
    ) -> None:
        text = attempt.completion.completion if attempt.completion.code is None else attempt.completion.code
        reward, shown = self._rewarded(attempt, verdict)
        components = attempt.context.options.components.of(text or "", shown)
        grading = attempt.context.options.grading
        if grade is not None and grading is not None and shown.status.scorable:
            if grade.score is None:
                reward, components = None, {}
                shown = replace(shown, status=Status.JUDGE_ERROR, detail=grade.reason)
            else:
                components["judge"] = grading.weight * grade.score
        result = ScoredCompletion(
            index=attempt.index,
            id=attempt.completion.id,
            task_id=attempt.completion.task_id,
            reward=reward,
            status=shown.status,
            trust=verdict.trust,
            passed=verdict.passed,
            total=verdict.total,
            duration_seconds=seconds,
            sandbox_id=attempt.sandbox_id if cached else attempt.sandbox_id or verdict.sandbox_id,
            detail=named_detail(shown, attempt.problem),
            sandboxes=attempt.executions,
            cells=attempt.cells,
            isolation=_isolation(attempt),
            retries=attempt.retries,
            reruns=attempt.reruns,
            canaries=attempt.canaries,
            components=components,
            score=verdict.score,
            scores=verdict.scores,
            states=() if cached else verdict.states,
            state_bytes=None if cached else verdict.state_bytes,
            processes=verdict.processes,
            phases={} if cached else verdict.phases,
            verifier_failures=0 if cached else verdict.verifier_failures,
            reached=None if cached else verdict.reached,
            failures=tuple(attempt.failures),
            cached=cached,
            cpu_seconds=verdict.cpu_seconds,
            compile_seconds=verdict.compile_seconds,
            image=attempt.context.image,
            code=attempt.code,
            stdout=verdict.stdout,
            stderr=verdict.stderr,
            truncated=verdict.truncated,
            checks=named_checks(verdict, attempt.problem),
            hash_seeds=self._hash_seeds.get(attempt.index, {}),
            why_in_process=attempt.why_in_process,
        )
        result = with_answer(result, attempt.completion)
        self._finished += 1
        if self._counts and attempt.executions and self._job.spending.is_bounded:
            self._job.spending.finish()
        kept = result if self._keeps_output else result.without_output()
        if self._keeps_results:
            self._results[attempt.index] = kept
        if self._on_verdict is not None:
            self._on_verdict(attempt, verdict)
        if self._on_result is not None:
            self._on_result(result)
        self._emit(CompletionFinished(result, finished=self._finished, of=self._total))
        if self._opinions is not None:
            self._opinions.consider(kept, attempt.problem, attempt.code, attempt.context)

    def _rewarded(self, attempt: Attempt, verdict: Verdict) -> tuple[float | None, Verdict]:
        # A policy that fails costs this completion its reward and no other its result; who has the report raises it.
        completion = replace(attempt.completion, code=attempt.code)
        try:
            reward = reward_of(verdict, completion, attempt.context.options.policy)
        except UsageError as error:
            return None, replace(verdict, status=Status.REWARD_ERROR, detail=error.message)
        if reward is None and verdict.status.scorable:
            detail = f"the reward function gives no reward ({verdict.status.value})"
            return None, replace(verdict, status=Status.ABSTAINED, detail=detail)
        return reward, verdict

    def _release_followers(self, leader: Attempt, key: str, verdict: Verdict) -> None:
        followers = self._followers.pop(key)
        # Where nothing was left out after a failure, it is a verdict on all checks.
        is_whole = all(check.status is not CheckStatus.NOT_RUN for check in verdict.checks)
        is_kept = self._keep(leader.whole_key if is_whole else key, verdict, for_others=not leader.failures)
        # Otherwise each for itself, and at once: one after the other could take as many time limits as there are.
        judged_again = []
        for queued in followers:
            follower = queued.attempt()
            follower.code, follower.key, follower.began = leader.code, key, queued.began
            if is_kept:
                follower.sandbox_id = leader.sandbox_id or verdict.sandbox_id
                self._finish(follower, verdict, cached=True)
            else:
                judged_again.append(follower)
        self._waiting.extendleft(reversed(judged_again))

    def _keep(self, key: str, verdict: Verdict, *, for_others: bool) -> bool:
        try:
            return self._cache.keep(key, verdict, for_others=for_others)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                self._emit(Warned(f"verdicts cannot be written to the cache: {error.strerror}"))
            return True
