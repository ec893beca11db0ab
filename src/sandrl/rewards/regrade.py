"""Judges a run's completions again with the current judge, and lists the verdicts that changed.

Of a task, the final state that the run kept is verified again, so a repaired verifier judges a whole run.

The run is not modified. The saved verdict is compared with a new one of the same text, extracted with the options of
the run. If they differ, the judge was changed, the problem was changed, or the outcome was chance; the list names the
completions to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue, ValidationError

from sandrl.config.parts import MappingPart, ScoringPart
from sandrl.config.scoring import RegradeConfig
from sandrl.errors import (
    CleanupError,
    GateError,
    InfrastructureError,
    InputError,
    ServiceError,
    raise_for_end,
)
from sandrl.events import Emit, JobStarted, Warned, ignore
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.calibration import packages_of
from sandrl.judge.judge import Judge, judge_version
from sandrl.problems import Completion, Problem, demo_problems, load_problems
from sandrl.problems.loading import reading_of
from sandrl.problems.mixture import sources_of
from sandrl.problems.store import joined
from sandrl.problems.tasks.lock import LOCK, TaskHold, TaskLock
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rewards.scoring import lifetime_seconds, score_batch
from sandrl.runs import RunReader, TrajectoryRow
from sandrl.runs.held import SandboxTime
from sandrl.runs.summary import OpinionTotals
from sandrl.sandboxes import Interrupt, Job, SandboxRequest
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions, check_use
from sandrl.settings import Settings
from sandrl.trials.state import find_state, states_of
from sandrl.trials.trial import FinalState

# What decides a verdict and its reward. Opinions do neither, and how many sandboxes there are is today's question.
_NAME_THEM = "name them with `problems`"
_SHOWN = 3
_KEPT = {*ScoringPart.model_fields, *MappingPart.model_fields, "image", "packages", "sandbox_memory_bytes"} - {
    "second_opinion"
}


@dataclass(frozen=True, slots=True)
class Flip:
    """A completion whose verdict is another one now.

    Attributes:
        judge: The version of the judge that gave that verdict; empty if the run does not say it.
    """

    before: TrajectoryRow
    judge: str
    after: ScoredCompletion


@dataclass(frozen=True, slots=True)
class Regrading:
    """A finished regrading.

    Attributes:
        judges: The versions of the judges of the run's jobs; empty for a job that does not say it.
        judge: The version of the present one.
        left_out: How many could not be judged again, because their problem or their text is gone.
        signal_number: The signal that asked to stop; 0 if none did.
        disagreements: The results of completions that fail now and pass in one process.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    run_id: str
    fails_on_flips: bool
    judges: tuple[str, ...]
    judge: str
    compared: int
    flips: tuple[Flip, ...]
    left_out: int = 0
    unscorable: int = 0
    unfinished: int = 0
    signal_number: int = 0
    cleanup_error: CleanupError | None = None
    second_opinion: OpinionTotals | None = None
    disagreements: tuple[ScoredCompletion, ...] = ()
    held: SandboxTime = field(default_factory=SandboxTime)
    exhausted: str = ""

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If completions could not be scored now.
            GateError: If verdicts flipped, and that was to be a failure.
        """
        message = f"interrupted: {self.compared} completions were judged again, {self.unfinished} were not"
        raise_for_end(
            message,
            signal_number=self.signal_number,
            cleanup_error=self.cleanup_error,
            exhausted=self.exhausted if self.unfinished else "",
        )
        if self.unscorable:
            message = f"{self.unscorable} completions could not be judged again: their sandboxes failed"
            raise InfrastructureError(message, hint="check the runtime: sandrl doctor")
        if self.flips and self.fails_on_flips:
            raise GateError(f"{len(self.flips)} of {self.compared} verdicts flipped")


def regrade(
    request: RegradeConfig, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> Regrading:
    """Judges the completions of a run again.

    Raises:
        UsageError: If the run, or its problems, cannot be used.
        ServiceError: If the runtime does not do its part.
    """
    interrupt = interrupt or Interrupt()
    reader = RunReader(Path(request.run))
    problems = _problems(request, reader)
    rows = reader.trajectories().rows
    agents = [_kept_state(row, reader.path) for row in rows]
    found = [(row, agent) for row, agent in zip(rows, agents, strict=True) if row.task_id in problems]
    found = [(row, agent) for row, agent in found if agent or _is_answer(row, problems[row.task_id])]
    known = [row for row, _ in found]
    if not known:
        raise InputError("has no completion that can be judged again", path=reader.path)
    _warn_of_other_tasks(reader, {row.task_id: problems[row.task_id] for row in known}, emit)
    if len(known) < len(rows):
        emit(
            Warned(f"{len(rows) - len(known)} completions are left out, because their problem or their text is missing")
        )
    with _opened_job(request, problems, settings, len(known), emit, interrupt) as (job, context):
        completions = [_completion(row) for row in known]
        acted = [agent for _, agent in found] if any(agent for _, agent in found) else ()
        report = score_batch(completions, problems, job, context, emit=emit, interrupt=interrupt, agents=acted)
    failed = [result for result in report.results if result.status.is_lost]
    judged = [result for result in report.results if not result.status.is_lost]
    judges = {job.job_id: job.versions.get("judge", "") for job in reader.config.jobs}
    flips = (Flip(row := known[result.index], judges.get(row.job_id, ""), result) for result in judged)
    return Regrading(
        reader.config.run_id,
        request.fail_on_flips,
        judges=tuple(dict.fromkeys(judges.values())),
        judge=judge_version(),
        compared=len(judged),
        flips=tuple(flip for flip in flips if _differs(flip)),
        left_out=len(rows) - len(known),
        unscorable=len(failed),
        unfinished=report.unfinished,
        signal_number=report.signal_number,
        cleanup_error=job.cleanup_error(),
        held=job.spending.held,
        exhausted=job.exhausted,
        second_opinion=report.summary.second_opinion,
        disagreements=tuple(
            replace(result, index=known[result.index].index)
            for result in report.results
            if result.second_opinion is not None and result.second_opinion.is_disagreement
        ),
    )


@contextmanager
def _opened_job(
    request: RegradeConfig,
    problems: Mapping[str, Problem],
    settings: Settings,
    total: int,
    emit: Emit,
    interrupt: Interrupt,
) -> Iterator[tuple[Job, ScoringContext]]:
    # Judging again keeps no run; leaving the block ends its job.
    options = ScoreOptions.of(request)
    check_use(request, problems.values())
    tasks = TaskHold.of(request.lock, problems)
    sandboxes = SandboxRequest.of(request, "runs-regrade")
    allowance = sandboxes.allowance(settings)
    connection = sandboxes.connect(settings, needed=packages_of(problems.values()), emit=emit)
    concurrency = connection.concurrency(request.concurrency)
    job = sandboxes.job(
        connection,
        command="runs regrade",
        max_lifetime_seconds=lifetime_seconds(problems, options.limits),
        allowance=allowance,
        interrupt=interrupt,
        emit=emit,
    )
    job.expected_images = tasks.images
    judge = Judge.on(connection, require_isolated=request.require_isolated)
    with interrupt.heard(), job:
        at_once = connection.at_once(concurrency)
        emit(JobStarted(job.id, total, min(at_once, total, sandboxes.max_sandboxes or at_once)))
        yield job, ScoringContext.of(replace(options, concurrency=concurrency), judge, connection)


def estimate_regrading(request: RegradeConfig, settings: Settings) -> SandboxEstimate:
    reader = RunReader(Path(request.run))
    problems = _problems(request, reader)
    rows = (row for row in reader.each_trajectory() if row.task_id in problems)
    counts = (
        (problems[row.task_id], 1)
        for row in rows
        if _kept_state(row, reader.path) or _is_answer(row, problems[row.task_id])
    )
    return estimate_sandboxes(request, ScoreOptions.of(request).limits, settings, command="runs regrade", counts=counts)


def _differs(flip: Flip) -> bool:
    if flip.before.status == Status.JUDGE_ERROR:
        # Completions are not graded again, and the verdict of one without a grade is in its counts.
        return (flip.before.passed, flip.before.total) != (flip.after.passed, flip.after.total)
    return (flip.before.status, flip.before.reward) != (flip.after.status.value, flip.after.reward)


def _problems(request: RegradeConfig, reader: RunReader) -> Mapping[str, Problem]:
    options = reader.config.options
    source = request.problems or options.get("problems")
    if not isinstance(source, str):
        raise InputError("does not name its problems", path=reader.path, hint=_NAME_THEM, fields=("problems",))
    if request.problems is None and reader.config.command == "reward" and options.get("completions") is None:
        return demo_problems()
    try:
        skips = options.get("skip_bad_rows") is True
        loaded = (load_problems(each, skip_bad_rows=skips, **reading_of(request)) for each in sources_of(source))
        return joined(*(each.problems for each in loaded))
    except (InputError, ServiceError) as error:
        if request.problems is not None:
            raise
        message = f"its problems cannot be loaded: {error.message}"
        raise InputError(message, path=reader.path, hint=_NAME_THEM, fields=("problems",)) from error


# A repaired verifier is what a run is judged again for; a task that has changed unknowingly is not.
def _warn_of_other_tasks(reader: RunReader, problems: Mapping[str, Problem], emit: Emit) -> None:
    path = reader.path / LOCK
    if path.is_file() and (found := TaskLock.read(path).differences(TaskLock.of(problems.values()))):
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        emit(Warned(f"tasks are not those of the run: {'; '.join(found[:_SHOWN])}{more}"))


def _kept_state(row: TrajectoryRow, run: Path) -> FinalState | None:
    # What its agent left in the machine of a task, if all of it is still there.
    directory = states_of(run)
    found = [find_state(directory, digest, row.image) for digest in row.states]
    if not found or None in found:
        return None
    return FinalState(tuple(str(state.path) for state in found if state is not None), row.image)


def _is_answer(row: TrajectoryRow, problem: Problem) -> bool:
    # What was said in an episode on a task is no answer: its state is.
    return (row.completion is not None or row.code is not None) and not (problem.task and row.messages)


def _completion(row: TrajectoryRow) -> Completion:
    if row.completion is None and row.code is not None:
        return Completion(row.id, row.task_id, code=row.code)
    return Completion(row.id, row.task_id, completion=row.completion)


def saved_options(reader: RunReader) -> dict[str, JsonValue]:
    """The options that a run was scored with, as far as judging depends on them.

    Raises:
        InputError: If they are of another version of sandrl.
    """
    kept = {name: value for name, value in reader.config.options.items() if name in _KEPT}
    try:
        return RegradeConfig.model_validate(kept).model_dump(mode="json", include=set(kept))
    except ValidationError as error:
        raise InputError("was made by an incompatible version of sandrl", path=reader.path) from error
