"""A batch of completions: a cell or a fresh sandbox each, many at once, every one accounted for.

The design decision: one thread and one loop. Everything slow happens on the SDK's event loop; this loop hands over,
waits for whichever ends first, and decides. A completion leaves it in exactly one way, with a result; one that the
user's wish to stop kept from being finished has none, and the report says so.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from sandrl.errors import InfrastructureError, UsageError
from sandrl.events import (
    CanaryFinished,
    CompletionFinished,
    CompletionStarted,
    Emit,
    RetryScheduled,
    StopRequested,
    Warned,
)
from sandrl.events.results import CheckStatus, Isolation, ScoredCompletion, Status
from sandrl.problems import Completion, Problem
from sandrl.rewards.attempts import Attempt, Step
from sandrl.rewards.cache import VerdictCache
from sandrl.rewards.canary import has_passed, prepare_canary
from sandrl.rewards.executions import execution_finished
from sandrl.rewards.expected import ReturnedStore
from sandrl.rewards.extraction import Extraction, extract_code
from sandrl.rewards.guest_report import Execution
from sandrl.rewards.judge import Judge, Review
from sandrl.rewards.limits import may_stop
from sandrl.rewards.opinions import OpinionMemory, Opinions
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.policies import reward_of
from sandrl.rewards.summary import ScoreReport
from sandrl.rewards.terms import Terms
from sandrl.rewards.verdict import Verdict, named_checks, named_detail
from sandrl.runs import CANARY_TAG
from sandrl.runs.summary import summarise
from sandrl.sandboxes import Connection, Interrupt, Job, Launch, Level, Withdrawn, delay_seconds, problem_tag
from sandrl.settings import load_settings

OnResult: TypeAlias = Callable[[ScoredCompletion], None]


class Feed(Protocol):
    """Those who add completions to a batch that is being scored, and use its job besides.

    All of it is called on the batch's own thread. Whoever wants to be called wakes the batch's interrupt.

    Attributes:
        is_open: Whether there may be more to do; a batch that has nothing left waits as long as it is.
        has_more: Whether it would add completions at its next turn, if there is room.
    """

    @property
    def is_open(self) -> bool:
        """Whether there may be more to do."""
        ...

    @property
    def has_more(self) -> bool:
        """Whether it would add completions at its next turn, if there is room."""
        ...

    def take_turn(self) -> None:
        """Adds completions, and launches commands of one's own."""
        ...

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
            hint=f"give each sandbox as much with `sandbox_memory_bytes`: {allowed}",
            fields=("sandbox_memory_bytes",),
        )


def _isolation(attempt: Attempt) -> Isolation | None:
    """How the last execution of a completion was isolated; None if it had none."""
    if not attempt.executions:
        return None
    if attempt.cells < attempt.executions:
        return Isolation.SANDBOX
    return Isolation.PROCESS if attempt.had_user else Isolation.CELL


def no_code_warning(extraction: Extraction) -> Warned:
    """What is told where nothing in any completion is code."""
    hint = "another `extract` may find it: auto, answer, exact, fence, or raw for text that is all code"
    return Warned(f"no code was found in any completion with `extract` {extraction}", hint, fields=("extract",))


@dataclass(frozen=True, slots=True)
class _Queued:
    """A completion whose turn has not come."""

    index: int
    completion: Completion
    problem: Problem | Mapping[str, Problem]
    terms: Terms
    queued_at: float = field(default_factory=time.monotonic)

    def attempt(self) -> Attempt:
        """The same, with its problem."""
        problem = self.problem if isinstance(self.problem, Problem) else self.problem[self.completion.task_id]
        return Attempt(self.index, self.completion, problem, self.terms, queued_at=self.queued_at)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A reference, or a program that is known, on trial.

    Attributes:
        problem: Whose.
        wanted: What the judge wants to know.
        execution: What runs.
        terms: Those of the completion that made the judge ask.
    """

    problem: Problem
    wanted: Review
    execution: Execution
    terms: Terms


class Batch:
    """The state of one call of `score`; see there for the arguments."""

    def __init__(
        self,
        job: Job,
        judge: Judge,
        options: ScoreOptions,
        cache: VerdictCache,
        emit: Emit,
        interrupt: Interrupt,
        on_result: OnResult | None,
        opinions: OpinionMemory | None = None,
        returned: ReturnedStore | None = None,
        *,
        keeps_output: bool = True,
        keeps_results: bool = True,
    ) -> None:
        self._job = job
        self._judge = judge
        self._options = options
        self._cache = cache
        self._terms = Terms.of(options, judge, job.connection)
        self._returned = returned
        # Identical completions wait here for the verdict of the first.
        self._followers: dict[str, list[Attempt]] = {}
        self._emit = emit
        self._interrupt = interrupt
        self._on_result = on_result
        self._keeps_output = keeps_output
        self._keeps_results = keeps_results
        self._waiting: deque[Attempt | _Queued] = deque()
        # Those that need sandboxes of their own, of which fewer run at once than there is room for in cells.
        self._waiting_alone: deque[Attempt] = deque()
        self._delayed: list[tuple[float, int, Attempt]] = []
        self._flying: dict[Launch, Attempt] = {}
        # Completions whose judge the runtime had to end; while there are any, the runtime is watched.
        self._late: set[Attempt] = set()
        self._canaries: dict[Launch, tuple[Attempt, Execution]] = {}
        # References and empty completions on trial, and who waits for what comes of it.
        self._trials: dict[Launch, _Trial] = {}
        self._doubted: dict[tuple[Judge, Problem, Review], list[tuple[Attempt, Verdict | None]]] = {}
        self._opinions = Opinions(job, judge, options, emit, {} if opinions is None else opinions)
        self._results: dict[int, ScoredCompletion] = {}
        self._total = self._finished = 0
        self._has_text = False
        self._has_warned = False

    def add(self, completion: Completion, problem: Problem | Mapping[str, Problem], terms: Terms | None = None) -> int:
        """Queues a completion.

        Args:
            completion: What is to be scored.
            problem: What it answers, or problems by `task_id`: its own is looked up when its turn comes, because a
                batch may have more of them than fit into memory.
            terms: How it is judged and rewarded, where that is not how the batch is.

        Returns:
            Its number in the batch, from 0.
        """
        self._waiting.append(_Queued(self._total, completion, problem, terms or self._terms))
        self._has_text = self._has_text or completion.completion is not None
        self._total += 1
        return self._total - 1

    @property
    def room(self) -> int:
        """How many more completions would be launched at once."""
        waiting = len(self._waiting) + len(self._waiting_alone) + len(self._delayed)
        return max(self._job.window(self._options.concurrency) - self._in_flight - waiting, 0)

    def run(self, feed: Feed | None = None) -> ScoreReport:
        """Scores what is queued, until all of it has a result or the user wants to stop.

        Args:
            feed: Adds more while the batch is being scored.
        """
        level = Level.NONE
        while self._has_work or (feed and feed.is_open):
            if feed is not None:
                feed.take_turn()
            if self._interrupt.level > level:
                level = self._interrupt.level
                self._emit(StopRequested(level is Level.CANCEL, self._in_flight))
            if level is Level.CANCEL:
                break
            if level is Level.NONE:
                self._launch_more()
                if feed is not None and feed.has_more and self.room:
                    # What waits for another one's verdict, or has it already, takes no place.
                    continue
            pause = self._until_next() if level is Level.NONE else None
            if pause is None and feed is not None and feed.is_open:
                pause = math.inf
            if self._opinions and self._finished == self._total and (level is Level.NONE or self._in_flight):
                # Results never wait for opinions, but the batch does, for as long as it may.
                pause = self._opinions.seconds_left()
                if pause == 0:
                    self._opinions.give_up()
                    break
            if not self._in_flight and pause is None:
                break
            for launch in self._job.wait_any(self._interrupt, level, pause):
                if launch in self._canaries:
                    self._land_canary(launch)
                elif launch in self._trials:
                    self._land_trial(launch)
                elif launch in self._flying:
                    self._land(launch)
                elif self._opinions.land(launch):
                    continue
                elif feed is None or not feed.land(launch):
                    # The job was used before, by a batch that an error or Ctrl-C tore open.
                    with suppress(InfrastructureError, Withdrawn):
                        self._job.collect(launch)
        self._job.watch_runtime(False)
        results = tuple(self._opinions.added_to(self._results[index]) for index in sorted(self._results))
        if self._has_text and results and all(result.status is Status.NO_CODE for result in results):
            self._emit(no_code_warning(self._options.extraction))
        unfinished = self._total - self._finished
        summary = summarise(results, opinion_rate=self._options.second_opinion.rate)
        return ScoreReport(self._job.id, results, summary, unfinished, self._interrupt.signal_number)

    @property
    def _has_work(self) -> bool:
        return bool(self._waiting or self._waiting_alone or self._delayed or self._in_flight or self._opinions)

    @property
    def _alone_in_flight(self) -> int:
        return sum(not launch.in_cell for launch in self._flying) + len(self._canaries)

    @property
    def _in_flight(self) -> int:
        return len(self._flying) + len(self._canaries) + len(self._trials) + self._opinions.in_flight

    def _until_next(self) -> float | None:
        """How long until the next delayed completion is due; None if none is delayed."""
        return max(self._delayed[0][0] - time.monotonic(), 0.0) if self._delayed else None

    def _launch_more(self) -> None:
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._waiting.append(heapq.heappop(self._delayed)[2])
        wanted = self._options.concurrency
        window = self._job.window(wanted)
        while self._waiting and self._in_flight < window:
            first = self._waiting.popleft()
            attempt = first if isinstance(first, Attempt) else first.attempt()
            check_memory(attempt.problem, self._job.connection)
            if attempt.alone:
                self._waiting_alone.append(attempt)
                continue
            self._launch(attempt)
            if self._interrupt.level:
                return
        room = self._job.fresh_window(wanted) - self._alone_in_flight if self._waiting_alone else 0
        while self._waiting_alone and room > 0:
            self._launch(self._waiting_alone.popleft())
            room -= 1
        if not self._waiting:
            self._opinions.launch(self._job.fresh_window(wanted) - self._in_flight)

    def _launch(self, attempt: Attempt) -> None:
        if attempt.code is None:
            attempt.began = time.monotonic()
            attempt.code = extract_code(attempt.completion, attempt.problem, attempt.terms.options.extraction)
        if attempt.completion.loss:
            self._finish(attempt, Verdict(Status.INFRASTRUCTURE, None, detail=attempt.completion.loss))
        elif attempt.code is None:
            self._finish(attempt, Verdict(Status.NO_CODE, None, detail="no code was found in it"))
        elif (
            attempt.terms.options.caching
            and not attempt.executions
            and self._waits_or_has_verdict(attempt, attempt.code)
        ):
            return
        else:
            self._execute(attempt, attempt.code)

    def _waits_or_has_verdict(self, attempt: Attempt, code: str) -> bool:
        """Whether another completion's verdict is there for this one, or will be."""
        if attempt.key is not None:
            return False
        names = attempt.terms.names
        attempt.key = names.name(attempt.problem, code)
        verdict = self._cache.find(attempt.key)
        if attempt.terms.limits.stops_at_failure and may_stop(attempt.problem):
            # Any verdict on all checks will do; one that stopped at a failure is another one.
            attempt.key = names.name(attempt.problem, code, stops_at_failure=True)
            verdict = verdict or self._cache.find(attempt.key)
        if verdict is not None:
            self._finish(attempt, verdict, cached=True)
            return True
        if attempt.key in self._followers:
            self._followers[attempt.key].append(attempt)
            return True
        self._followers[attempt.key] = []
        attempt.leads = True
        return False

    def _execute(self, attempt: Attempt, code: str) -> None:
        completion, problem, terms = attempt.completion, attempt.problem, attempt.terms
        if problem.asks_reference and not self._is_ready(attempt):
            return
        attempt.executions += 1
        # Prepared anew for every sandbox: an execution's key is used once.
        attempt.execution = terms.judge.prepare(problem, code, terms.limits)
        self._emit(CompletionStarted(attempt.index, completion.id, completion.task_id, attempt.executions))
        extra = terms.options.tags
        launch = self._job.launch(
            attempt.execution.command,
            tags=(problem_tag(completion.task_id), *extra),
            may_be_warm=True,
            alone=attempt.alone,
            traced=extra,
        )
        attempt.cells += launch.in_cell
        self._flying[launch] = attempt

    def _is_ready(self, attempt: Attempt) -> bool:
        """Whether it is known what the calls of a completion's problem must return; else its reference runs first."""
        problem, terms = attempt.problem, attempt.terms
        ruling = terms.judge.preview(problem)
        if isinstance(ruling, Verdict):
            self._finish(attempt, ruling)
            return False
        if ruling is Review.ASK_REFERENCE and (terms.judge, problem, ruling) not in self._doubted:
            kept = self._kept.find(terms.names.name_returned(problem), problem)
            if kept is not None:
                terms.judge.learn(problem, kept)
                return True
        if ruling is not None:
            self._try(attempt, ruling, None)
        return ruling is None

    @property
    def _kept(self) -> ReturnedStore:
        """What references returned to earlier processes; looked for where a problem asks for it."""
        if self._returned is None:
            self._returned = ReturnedStore(load_settings().cache_dir)
        return self._returned

    def _land(self, launch: Launch) -> None:
        attempt = self._flying.pop(launch)
        assert attempt.execution is not None, "only executions fly"
        attempt.sandbox_id = launch.sandbox_id or attempt.sandbox_id
        attempt.had_user = launch.has_user
        try:
            outcome = self._job.collect(launch, keep=True)
            verdict = attempt.terms.judge.interpret(attempt.execution, outcome)
        except Withdrawn:
            return
        except InfrastructureError as error:
            self._emit(execution_finished(attempt, launch, error=error.message))
            if launch.in_cell and launch.may_have_caused(error):
                self._leave_cell(attempt, error.message)
            else:
                self._fail(attempt, launch, error)
            return
        if launch.in_cell and outcome.exit_code not in (0, 1):
            # There is nothing in a cell that its completion can kill or outlast: the worker did.
            reason = f"its cell ended with exit status {outcome.exit_code}"
            self._emit(execution_finished(attempt, launch, error=reason))
            self._leave_cell(attempt, reason)
            return
        self._emit(execution_finished(attempt, launch, outcome, verdict))
        if outcome.timed_out:
            # The judge has a clock of its own: the judge was stopped, the sandbox hangs, or nothing ran for a while.
            attempt.suspect, attempt.doubted = launch, verdict
            self._late.add(attempt)
            self._job.watch_runtime(True)
            self._take(attempt.end_late(has_stalled=self._job.has_stalled(launch.launched_at)), attempt)
            return
        self._job.release(launch)
        self._settle(attempt, verdict)

    def _leave_cell(self, attempt: Attempt, reason: str) -> None:
        """Runs a completion that had no verdict in a cell again, in a sandbox of its own, by the rules for those."""
        attempt.leave_cell(reason)
        most = attempt.executions + 1 + attempt.terms.options.retries
        self._emit(RetryScheduled(attempt.index, attempt.executions + 1, most, reason, 0.0))
        self._waiting_alone.append(attempt)

    def _settle(self, attempt: Attempt, verdict: Verdict) -> None:
        """Does with a verdict what the judge thinks of it."""
        ruling = attempt.terms.judge.review(attempt.problem, attempt.code or "", verdict)
        if isinstance(ruling, Verdict):
            self._finish(attempt, ruling)
        elif ruling is Review.AGAIN:
            attempt.why_in_process = (
                f"{verdict.status.value}: {verdict.detail}" if verdict.detail else verdict.status.value
            )
            attempt.reruns += 1
            self._waiting.appendleft(attempt)
        else:
            self._try(attempt, ruling, verdict)

    def _try(self, attempt: Attempt, wanted: Review, verdict: Verdict | None) -> None:
        """Has a completion wait for a trial, with the verdict that it has so far, if it has run."""
        doubted = self._doubted.setdefault((attempt.terms.judge, attempt.problem, wanted), [])
        doubted.append((attempt, verdict))
        if len(doubted) == 1:
            attempt.canaries += 1
            self._launch_trial(attempt.problem, wanted, attempt.terms, alone=False)

    def _launch_trial(self, problem: Problem, wanted: Review, terms: Terms, *, alone: bool) -> None:
        execution = terms.judge.prepare_trial(problem, wanted, terms.options.limits)
        extra = terms.options.tags
        tags = (CANARY_TAG, problem_tag(problem.task_id), *extra)
        launch = self._job.launch(execution.command, tags=tags, alone=alone, traced=() if alone else extra)
        self._trials[launch] = _Trial(problem, wanted, execution, terms)

    def _land_trial(self, launch: Launch) -> None:
        trial = self._trials.pop(launch)
        problem, wanted, terms = trial.problem, trial.wanted, trial.terms
        # A trial that came to nothing in a cell is repeated in a sandbox of its own.
        try:
            if launch.in_cell and self._job.collect(launch).exit_code not in (0, 1):
                self._launch_trial(problem, wanted, terms, alone=True)
                return
        except InfrastructureError as error:
            if launch.may_have_caused(error):
                self._launch_trial(problem, wanted, terms, alone=True)
                return
        except Withdrawn:
            pass
        doubted = self._doubted.pop((terms.judge, problem, wanted))
        try:
            outcome = self._job.collect(launch)
            if outcome.timed_out and wanted is Review.ASK_REFERENCE:
                raise InfrastructureError("the sandbox of the problem's reference hung")
            tried = terms.judge.interpret(trial.execution, outcome)
            terms.judge.hear_trial(problem, wanted, tried)
        except Withdrawn:
            return
        except InfrastructureError as error:
            has_moved = not launch.may_have_caused(error) and self._job.reconnect(launch)
            for attempt, _ in doubted:
                retries = attempt.terms.options.retries
                self._take(attempt.fail(error.message, has_run=False, retries=retries, has_moved=has_moved), attempt)
            return
        if tried.returned is not None:
            self._kept.keep(terms.names.name_returned(problem), tried.returned)
        for attempt, verdict in reversed(doubted):
            if verdict is None:
                self._waiting.appendleft(attempt)
        for attempt, verdict in doubted:
            if verdict is not None:
                self._settle(attempt, verdict)

    def _fail(self, attempt: Attempt, launch: Launch, error: InfrastructureError) -> None:
        """A launch brought no verdict: its sandbox failed, or never came to be."""
        has_run = launch.may_have_caused(error)
        has_moved = not has_run and self._job.reconnect(launch)
        stalled = launch.process is not None and self._job.has_stalled(launch.launched_at)
        retries = attempt.terms.options.retries
        step = attempt.fail(error.message, has_run=has_run, retries=retries, has_stalled=stalled, has_moved=has_moved)
        attempt.suspect = launch
        self._take(step, attempt)

    def _take(self, step: Step, attempt: Attempt) -> None:
        if step is Step.ASK_CANARY:
            self._launch_canary(attempt)
            return
        if attempt.suspect is not None:
            self._job.release(attempt.suspect)
            attempt.suspect = None
        reason = attempt.failures[-1]
        if step in (Step.RETRY, Step.MOVE):
            attempt.doubted = None
            self._retry(attempt, reason, at_once=step is Step.MOVE)
        elif step is Step.BLAME_RUNTIME:
            self._finish(attempt, Verdict(Status.INFRASTRUCTURE, None, detail=reason))
        else:
            detail = f"its sandbox failed {attempt.broken} times, and a known-good program's did not: {reason}"
            self._finish(attempt, Verdict(Status.CRASHED, None, detail=detail))

    def _retry(self, attempt: Attempt, reason: str, *, at_once: bool) -> None:
        # Where the reference of its problem failed to run, the completion itself was not run yet.
        attempt.retries += bool(attempt.executions)
        options = attempt.terms.options
        delay = 0.0 if at_once else delay_seconds(len(attempt.failures), options.backoff_seconds)
        most = max(attempt.executions + 1, options.retries + 1 + attempt.reruns)
        self._emit(RetryScheduled(attempt.index, attempt.executions + 1, most, reason, delay))
        heapq.heappush(self._delayed, (time.monotonic() + delay, attempt.index, attempt))

    def _launch_canary(self, attempt: Attempt) -> None:
        """Runs the canary in the sandbox that failed, or in a fresh one where that has been tried or never was."""
        attempt.canaries += 1
        execution = prepare_canary(self._judge)
        tags = (CANARY_TAG, *attempt.terms.options.tags)
        launch = self._job.launch(execution.command, tags=tags, within=attempt.suspect)
        self._canaries[launch] = (attempt, execution)

    def _land_canary(self, launch: Launch) -> None:
        attempt, execution = self._canaries.pop(launch)
        within = attempt.suspect is not None
        try:
            passed = has_passed(self._judge, execution, self._job.collect(launch))
        except Withdrawn:
            return
        except InfrastructureError as error:
            if error.lost_runtime:
                # That says nothing about the sandbox that was in doubt, which is gone, too.
                attempt.suspect = None
                self._fail(attempt, launch, error)
                return
            passed = False
        attempt.suspect = None
        self._emit(CanaryFinished(attempt.index, passed, launch.sandbox_id, within))
        doubted, attempt.doubted = attempt.doubted, None
        if doubted is not None:
            if passed:
                self._finish(attempt, doubted)
            else:
                reason = "the sandbox hung, and so did a known-good program in it"
                self._take(attempt.fail(reason, has_run=True, retries=attempt.terms.options.retries), attempt)
        elif within and not passed:
            # The completion may have ruined it; a fresh one tells whether the runtime is well.
            self._launch_canary(attempt)
        else:
            self._take(attempt.hear_canary(passed=passed), attempt)

    def _finish(self, attempt: Attempt, verdict: Verdict, *, cached: bool = False) -> None:
        """Gives a completion its result, and those that wait for its verdict theirs."""
        self._late.discard(attempt)
        if not self._late:
            self._job.watch_runtime(False)
        seconds = time.monotonic() - attempt.began
        if verdict.trust is None:
            verdict = replace(verdict, total=attempt.problem.check_count)
        text = attempt.completion.completion if attempt.completion.code is None else attempt.completion.code
        reward, shown = self._rewarded(attempt, verdict)
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
            sandbox_id=attempt.sandbox_id,
            detail=named_detail(shown, attempt.problem),
            sandboxes=attempt.executions,
            cells=attempt.cells,
            isolation=_isolation(attempt),
            retries=attempt.retries,
            reruns=attempt.reruns,
            canaries=attempt.canaries,
            components=attempt.terms.options.components.of(text or "", shown),
            failures=tuple(attempt.failures),
            cached=cached,
            cpu_seconds=verdict.cpu_seconds,
            compile_seconds=verdict.compile_seconds,
            code=attempt.code,
            stdout=verdict.stdout,
            stderr=verdict.stderr,
            truncated=verdict.truncated,
            checks=named_checks(verdict, attempt.problem),
            why_in_process=attempt.why_in_process,
        )
        self._finished += 1
        kept = result if self._keeps_output else result.without_output()
        if self._keeps_results:
            self._results[attempt.index] = kept
        if self._on_result is not None:
            self._on_result(result)
        self._emit(CompletionFinished(result, finished=self._finished, of=self._total))
        self._opinions.consider(kept, attempt.problem)
        if attempt.leads and attempt.key is not None:
            self._release_followers(attempt, attempt.key, verdict)

    def _rewarded(self, attempt: Attempt, verdict: Verdict) -> tuple[float | None, Verdict]:
        """What the policy gives for this completion, and the verdict as its result has it.

        A policy that fails costs this completion its reward and no other its result; who has the report raises it.
        """
        completion = replace(attempt.completion, code=attempt.code)
        try:
            return reward_of(verdict, completion, attempt.terms.options.policy), verdict
        except UsageError as error:
            return None, replace(verdict, status=Status.REWARD_ERROR, detail=error.message)

    def _release_followers(self, leader: Attempt, key: str, verdict: Verdict) -> None:
        followers = self._followers.pop(key)
        # Where nothing was left out after a failure, it is a verdict on all checks.
        is_whole = all(check.status is not CheckStatus.NOT_RUN for check in verdict.checks)
        name = leader.terms.names.name(leader.problem, leader.code or "") if is_whole else key
        if self._keep(name, verdict, for_others=not leader.failures):
            for follower in followers:
                follower.sandbox_id = leader.sandbox_id
                self._finish(follower, verdict, cached=True)
        else:
            # Each for itself, and at once: one after the other could take as many time limits as there are.
            self._waiting.extendleft(reversed(followers))

    def _keep(self, key: str, verdict: Verdict, *, for_others: bool) -> bool:
        try:
            return self._cache.keep(key, verdict, for_others=for_others)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                self._emit(Warned(f"verdicts cannot be written to the cache: {error.strerror}"))
            return True
