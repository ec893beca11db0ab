"""Gets the verdict for a completion's code: in sandboxes of this job, or wherever its connection runs them.

This module hides everything between code and verdict (launches, retries, canaries, trials) behind a few calls. A batch
handles only the requests, the known verdicts and the rewards, and does not depend on where its completions run.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from sandrl.errors import InfrastructureError, JudgeNotStartedError
from sandrl.events import CanaryFinished, CompletionStarted, Emit, RetryScheduled
from sandrl.events.results import Status
from sandrl.judge.calibration import Calibration, CalibrationStore, Trial, Trials
from sandrl.judge.guest.clock import STOPPED
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge
from sandrl.judge.verdict import Verdict
from sandrl.problems import Problem
from sandrl.runs import CANARY_TAG
from sandrl.sandboxes import Job, Launch, Level, Shape, Withdrawn, delay_seconds, problem_tag
from sandrl.scoring.attempts import Attempt, Step, execution_finished
from sandrl.scoring.context import ScoringContext
from sandrl.settings import RuntimeKind, load_settings

_STOPPED = "a process of the completion, or its sandbox, was stopped for a while"

OnVerdict: TypeAlias = Callable[[Attempt, Verdict], None]


class Judging(Protocol):
    """Gets completions their verdicts; all of it on the thread of the batch that they belong to.

    What is judged in sandboxes of the job ends as launches of it, see `land`; what is judged on other machines is asked
    for by `look`.
    """

    @property
    def in_flight(self) -> int:
        """How many executions are under way."""

    @property
    def waiting(self) -> int:
        """How many completions were begun, and wait to be run again."""
        return 0

    @property
    def window(self) -> int:
        """How many executions there should be under way."""

    @property
    def fresh_window(self) -> int:
        """The same of those that have a sandbox each."""
        return self.window

    def begin(self, attempt: Attempt) -> None:
        """Runs a completion, or what must be known before it is run."""

    def look(self) -> None:
        """Hands over what was begun, and gives the verdicts that have come, where that is not done one by one."""

    def go_on(self) -> None:
        """Runs those that wait, as far as there is room."""

    def seconds_to_next(self, level: Level) -> float | None:
        """How long until there is something to do, whatever ends meanwhile; None if nothing waits for a time."""

    def land(self, launch: Launch) -> bool:
        """Takes an ended launch; returns whether it was one of these completions."""
        return False

    def stop(self, level: Level) -> None:
        """The user wants to stop: nothing more is begun; at `CANCEL`, nothing is waited for."""

    def end(self) -> None:
        """The batch is over."""


@dataclass(slots=True, eq=False)
class _OpenCalibration:
    # A problem whose trials run, in the context of the first completion that waits for them.
    problem: Problem
    context: ScoringContext
    trials: Trials
    name: str
    waiting: list[Attempt]


class SandboxJudging(Judging):
    """Judges in sandboxes of a job.

    Args:
        judge: Knows the canary.
        concurrency: How many completions at once; what suits the runtime unless given.
    """

    def __init__(self, job: Job, judge: Judge, concurrency: int | None, emit: Emit, on_verdict: OnVerdict) -> None:
        self._job = job
        self._judge = judge
        self._concurrency = concurrency
        self._emit = emit
        self._on_verdict = on_verdict
        self._ready: deque[Attempt] = deque()
        # Those that need sandboxes of their own, of which fewer run at once than there is room for in cells.
        self._waiting_alone: deque[Attempt] = deque()
        self._delayed: list[tuple[float, int, Attempt]] = []
        self._flying: dict[Launch, Attempt] = {}
        # Completions whose judge the runtime had to end; while there are any, the runtime is watched.
        self._late: set[Attempt] = set()
        self._canaries: dict[Launch, tuple[Attempt, Execution]] = {}
        self._calibrating: dict[tuple[Judge, Problem], _OpenCalibration] = {}
        self._trials: dict[Launch, tuple[Trial, Execution, list[_OpenCalibration]]] = {}
        # Problems that wait for a trial that more than one of them needs.
        self._shared: dict[Hashable, list[_OpenCalibration]] = {}

    @property
    def in_flight(self) -> int:
        return len(self._flying) + len(self._canaries) + len(self._trials)

    @property
    def waiting(self) -> int:
        return len(self._ready) + len(self._waiting_alone) + len(self._delayed)

    @property
    def window(self) -> int:
        return self._job.window(self._concurrency)

    @property
    def fresh_window(self) -> int:
        return self._job.fresh_window(self._concurrency)

    @cached_property
    def _store(self) -> CalibrationStore:
        return CalibrationStore(load_settings().cache_dir)

    def begin(self, attempt: Attempt) -> None:
        if attempt.alone:
            self._waiting_alone.append(attempt)
        else:
            self._execute(attempt)

    def go_on(self) -> None:
        while self._delayed and self._delayed[0][0] <= time.monotonic():
            self._ready.append(heapq.heappop(self._delayed)[2])
        while self._ready and self.in_flight < self.window:
            self.begin(self._ready.popleft())
        if not self._waiting_alone:
            return
        room = self.fresh_window - sum(not launch.in_cell for launch in self._flying) - len(self._canaries)
        while self._waiting_alone and room > 0:
            self._execute(self._waiting_alone.popleft())
            room -= 1

    def seconds_to_next(self, level: Level) -> float | None:
        if level is not Level.NONE or not self._delayed:
            return None
        return max(self._delayed[0][0] - time.monotonic(), 0.0)

    def land(self, launch: Launch) -> bool:
        if launch in self._canaries:
            self._land_canary(launch)
        elif launch in self._trials:
            self._land_trial(launch)
        elif launch in self._flying:
            self._land(launch)
        else:
            return False
        return True

    def end(self) -> None:
        # Also where a batch before this one was torn open.
        self._job.watch_runtime(False)

    # Completions

    def _execute(self, attempt: Attempt) -> None:
        completion, problem, context = attempt.completion, attempt.problem, attempt.context
        known = self._calibration(attempt)
        if known is None:
            return
        refused = context.judge.refusal(problem, known)
        if refused is not None:
            self._finish(attempt, refused)
            return
        attempt.why_in_process = attempt.why_in_process or known.reason
        attempt.executions += 1
        # Prepared anew for every sandbox: an execution's key is used once.
        together = bool(attempt.reruns)
        attempt.execution = context.judge.prepare(problem, attempt.code or "", context.limits, known, together=together)
        self._emit(CompletionStarted(attempt.index, completion.id, completion.task_id, attempt.executions))
        extra = context.options.tags
        launch = self._job.launch(
            attempt.execution.command,
            tags=(problem_tag(completion.task_id), *extra),
            may_be_warm=True,
            alone=attempt.alone,
            traced=extra,
            shape=Shape(context.image),
        )
        attempt.cells += launch.in_cell
        self._flying[launch] = attempt

    def _land(self, launch: Launch) -> None:
        attempt = self._flying.pop(launch)
        assert attempt.execution is not None, "only executions fly"
        try:
            outcome = self._job.collect(launch, keep=True)
            attempt.sandbox_id = outcome.sandbox_id or attempt.sandbox_id
            verdict = attempt.context.judge.interpret(attempt.execution, outcome)
        except Withdrawn:
            return
        except InfrastructureError as error:
            attempt.sandbox_id = launch.sandbox_id or attempt.sandbox_id
            self._emit(execution_finished(attempt, launch, error=error.message))
            if launch.in_cell and launch.may_have_caused(error):
                self._leave_cell(attempt, error.message)
            else:
                self._fail(attempt, launch, error)
            return
        if outcome.exit_code == STOPPED:
            if attempt.may_have_been_stopped():
                self._emit(execution_finished(attempt, launch, error=_STOPPED))
                self._job.release(launch)
                self._leave_cell(attempt, _STOPPED)
                return
        elif launch.in_cell and outcome.exit_code not in (0, 1):
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
        ruling = attempt.context.judge.review(attempt.problem, verdict)
        if ruling is not None:
            self._finish(attempt, ruling)
            return
        attempt.why_in_process = f"{verdict.status.value}: {verdict.detail}" if verdict.detail else verdict.status.value
        attempt.reruns += 1
        self._ready.appendleft(attempt)

    def _leave_cell(self, attempt: Attempt, reason: str) -> None:
        attempt.leave_cell(reason)
        self._emit(_retry_of(attempt, attempt.executions + 1 + attempt.context.options.retries, reason, 0.0))
        self._waiting_alone.append(attempt)

    def _finish(self, attempt: Attempt, verdict: Verdict) -> None:
        if attempt in self._late:
            self._late.discard(attempt)
            if not self._late:
                self._job.watch_runtime(False)
        self._on_verdict(attempt, verdict)

    # Failures

    def _fail(self, attempt: Attempt, launch: Launch, error: InfrastructureError) -> None:
        if isinstance(error, JudgeNotStartedError):
            # Each further sandbox of this image would do the same, unless the completion has brought it about.
            attempt.failures.append(error.message)
            self._job.release(launch)
            self._launch_canary(attempt)
            return
        has_run, has_moved = launch.may_have_caused(error), self._job.has_moved(launch, error)
        stalled = launch.process is not None and self._job.has_stalled(launch.launched_at)
        attempt.suspect = launch
        self._take(attempt.fail(error.message, has_run=has_run, has_stalled=stalled, has_moved=has_moved), attempt)

    def _refusal_of_image(self, error: InfrastructureError, context: ScoringContext) -> Verdict | None:
        # After known code in a sandbox in which nothing else has run. The image of the job refuses all completions.
        if not isinstance(error, JudgeNotStartedError):
            return None
        image = context.image or self._job.connection.image
        message = f"image {image} cannot judge completions: {error.message}"
        if not context.image:
            raise InfrastructureError(message, hint="name an image that has Python 3.8 or later as python3")
        return Verdict(Status.INFRASTRUCTURE, None, detail=message)

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
            detail = (
                f"its sandbox failed {attempt.broken} times, and a known-good program ran without a failure: {reason}"
            )
            self._finish(attempt, Verdict(Status.CRASHED, None, detail=detail))

    def _retry(self, attempt: Attempt, reason: str, *, at_once: bool) -> None:
        # Where the reference of its problem failed to run, the completion itself was not run yet.
        attempt.retries += bool(attempt.executions)
        options = attempt.context.options
        delay = 0.0 if at_once else delay_seconds(len(attempt.failures), options.backoff_seconds)
        most = max(attempt.executions + 1, options.retries + 1 + attempt.reruns)
        self._emit(_retry_of(attempt, most, reason, delay))
        heapq.heappush(self._delayed, (time.monotonic() + delay, attempt.index, attempt))

    def _launch_canary(self, attempt: Attempt) -> None:
        # In the sandbox that failed, or in a fresh one where that has been tried or never was.
        attempt.canaries += 1
        execution = self._judge_of_canary(attempt).prepare_canary()
        tags = (CANARY_TAG, *attempt.context.options.tags)
        image = attempt.context.image
        launch = self._job.launch(execution.command, tags=tags, within=attempt.suspect, shape=Shape(image))
        self._canaries[launch] = (attempt, execution)

    def _judge_of_canary(self, attempt: Attempt) -> Judge:
        # Where the judge of the context runs a program, that of the job knows the canary.
        return attempt.context.judge if attempt.context.image else self._judge

    def _land_canary(self, launch: Launch) -> None:
        attempt, execution = self._canaries.pop(launch)
        within = attempt.suspect is not None
        try:
            passed = self._judge_of_canary(attempt).interpret(execution, self._job.collect(launch)).is_pass
        except Withdrawn:
            return
        except InfrastructureError as error:
            if error.lost_runtime:
                # That says nothing about the sandbox that was in doubt, which is gone, too.
                attempt.suspect = None
                self._fail(attempt, launch, error)
                return
            if not within and (refused := self._refusal_of_image(error, attempt.context)):
                self._finish(attempt, refused)
                return
            passed = False
        attempt.suspect = None
        named = attempt.completion
        self._emit(CanaryFinished(attempt.index, passed, launch.sandbox_id, within, named.id, named.task_id))
        doubted, attempt.doubted = attempt.doubted, None
        if doubted is not None:
            if passed:
                self._finish(attempt, doubted)
            else:
                reason = "the sandbox hung, and a known-good program in it also hung"
                self._take(attempt.fail(reason, has_run=True), attempt)
        elif within and not passed:
            # The completion may have ruined it; a fresh one tells whether the runtime is well.
            self._launch_canary(attempt)
        else:
            self._take(attempt.hear_canary(passed=passed), attempt)

    # Trials

    def _calibration(self, attempt: Attempt) -> Calibration | None:
        # None if the completion waits for what is being determined.
        problem, context = attempt.problem, attempt.context
        known = context.judge.calibrations.find(problem)
        if known is not None:
            return known
        running = self._calibrating.get((context.judge, problem))
        if running is not None:
            running.waiting.append(attempt)
            return None
        trials = context.judge.calibrate(problem, context.options.limits)
        try:
            first = next(trials)
        except StopIteration as end:
            known = end.value
        else:
            name = context.names.name_calibration(problem)
            known = self._store.find(name, problem)
            if known is None:
                running = _OpenCalibration(problem, context, trials, name, [attempt])
                self._calibrating[context.judge, problem] = running
                self._try(running, first)
                return None
        context.judge.calibrations.keep(problem, known)
        return known

    def _try(self, running: _OpenCalibration, trial: Trial) -> None:
        of = [] if trial.key is None else self._shared.setdefault((running.context.image, trial.key), [])
        of.append(running)
        if len(of) == 1:  # else it is under way for another problem
            self._launch_trial(trial, of, alone=False)

    def _launch_trial(self, trial: Trial, of: list[_OpenCalibration], *, alone: bool) -> None:
        of[0].waiting[0].canaries += 1
        execution, extra = trial.prepare(), of[0].context.options.tags
        tags = (CANARY_TAG, problem_tag(of[0].problem.task_id), *extra)
        traced, image = () if alone else extra, of[0].context.image
        launch = self._job.launch(execution.command, tags=tags, alone=alone, traced=traced, shape=Shape(image))
        self._trials[launch] = trial, execution, of

    def _land_trial(self, launch: Launch) -> None:
        trial, execution, of = self._trials.pop(launch)
        if launch.in_cell and self._came_to_nothing(launch):
            # It is repeated in a sandbox of its own.
            self._launch_trial(trial, of, alone=True)
            return
        self._shared.pop((of[0].context.image, trial.key), None)
        try:
            outcome = self._job.collect(launch)
            if outcome.timed_out or outcome.exit_code == STOPPED:
                raise InfrastructureError("the sandbox that calibrated the problem hung, or was stopped")
            verdict = of[0].context.judge.interpret(execution, outcome)
        except Withdrawn:
            return
        except InfrastructureError as error:
            refused = self._refusal_of_image(error, of[0].context)
            has_moved = refused is None and self._job.has_moved(launch, error)
            for running in of:
                del self._calibrating[running.context.judge, running.problem]
                for attempt in running.waiting:
                    if refused is not None:
                        self._finish(attempt, refused)
                        continue
                    self._take(attempt.fail(error.message, has_run=False, has_moved=has_moved), attempt)
            return
        for running in of:
            try:
                following = running.trials.send(verdict)
            except StopIteration as end:
                self._end_calibration(running, end.value)
            else:
                self._try(running, following)

    def _came_to_nothing(self, launch: Launch) -> bool:
        try:
            return self._job.collect(launch).exit_code not in (0, 1)
        except InfrastructureError as error:
            return launch.may_have_caused(error)
        except Withdrawn:
            return False

    def _end_calibration(self, running: _OpenCalibration, found: Calibration) -> None:
        del self._calibrating[running.context.judge, running.problem]
        running.context.judge.calibrations.keep(running.problem, found)
        self._store.keep(running.name, found)
        self._ready.extendleft(reversed(running.waiting))


def judging_of(job: Job) -> Callable[[Job, Judge, int | None, Emit, OnVerdict], Judging]:
    """How the completions of a job are judged; for the arguments see `SandboxJudging`."""
    if job.connection.kind == RuntimeKind.RAY:
        from sandrl.scoring.fleet import FleetJudging

        return FleetJudging
    return SandboxJudging


def _retry_of(attempt: Attempt, most: int, reason: str, delay_seconds: float) -> RetryScheduled:
    named = attempt.completion
    return RetryScheduled(attempt.index, attempt.executions + 1, most, reason, delay_seconds, named.id, named.task_id)
