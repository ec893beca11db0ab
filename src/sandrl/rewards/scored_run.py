"""A run that scores completions: those of a file, or those that a model is generating.

Completions come in batches, and a batch is requested only after the one before is scored, so it makes no difference
whether they existed before. A result is written to the run directory and to `--out` before its event is emitted. A run
that is resumed keeps the results it has; a completion that is scored again gets a row with a higher `attempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pydantic import JsonValue

from sandrl.config.episodes import EpisodesConfig
from sandrl.config.scoring import RedteamConfig, ScoredRunConfig, ValidateConfig
from sandrl.errors import InputError, ServiceError
from sandrl.events import (
    CanaryFinished,
    CompletionFinished,
    CompletionStarted,
    Emit,
    Event,
    ExecutionFinished,
    JobStarted,
    OpinionFinished,
    OpinionsAwaited,
    RetryScheduled,
    ServiceAsked,
    Warned,
    ignore,
)
from sandrl.events.results import ScoredCompletion, Status
from sandrl.jsonl import RowAppender
from sandrl.judge.calibration import packages_of
from sandrl.judge.judge import Judge, judge_version
from sandrl.problems import Completion, Problem
from sandrl.problems.problem_records import KeptProblems
from sandrl.problems.prompting import Prompting
from sandrl.problems.quality import QualityFilter
from sandrl.problems.tasks.lock import TaskHold
from sandrl.rewards.reward_run import RewardRun
from sandrl.rewards.scoring import lifetime_seconds, score_batch
from sandrl.rewards.weak_problems import warn_of_weak_problems
from sandrl.runs import MetricsRecorder, RunReader, RunWriter
from sandrl.runs.overview import counted_rows
from sandrl.runs.session import RunPlan, RunSession, open_run
from sandrl.sandboxes import Connection, Interrupt, Job, SandboxRequest, checked_job_id, new_job_id
from sandrl.scoring.batch import OnResult, no_code_warning
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.document import result_document, to_line
from sandrl.scoring.options import ScoreOptions, check_use
from sandrl.scoring.records import Place, opinion_row, trajectory_row
from sandrl.scoring.summary import LONGER_ANSWERS, ScoreReport, truncation_warning
from sandrl.settings import Settings

if TYPE_CHECKING:
    from sandrl.remote.client import ServiceClient

RESUMABLE = frozenset({"eval"})
"""The commands whose runs of scored completions can be resumed."""

Batches: TypeAlias = Callable[[RunWriter], Iterable[Sequence[Completion]]]
"""Makes the batches of completions to score, given the run that keeps them."""


@dataclass(frozen=True, slots=True)
class ResumedRun:
    path: Path
    results: tuple[ScoredCompletion, ...]


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run that is open; it has no job, and no connection, if a service scores."""

    session: RunSession
    recorder: MetricsRecorder
    tell: Emit
    interrupt: Interrupt
    connection: Connection | None
    job: Job | None
    out: RowAppender | None

    def end(
        self, finished: int, total: int, *, is_resumed: bool, metrics: Mapping[str, float | None] | None = None
    ) -> None:
        """Stops the sandboxes, and writes the metrics of all jobs of a run without steps."""
        if self.job is not None:
            # The sandbox time of the run is known when all of its sandboxes are gone.
            self.job.close()
        self.session.is_complete = self.interrupt.is_exhausted and finished == total
        # What earlier jobs of the run did counts, too, and is known from the rows they left.
        earlier = counted_rows(RunReader(self.session.writer.path))[0].metrics if is_resumed and finished else {}
        self.recorder.log(0, {**earlier, **(metrics or {})})

    def reported(
        self,
        request: ScoredRunConfig,
        results: Sequence[ScoredCompletion],
        total: int,
        *,
        hint: str = LONGER_ANSWERS,
        can_resume: bool = True,
        emit: Emit,
    ) -> RewardRun:
        """The finished run; warns of truncated answers, with this hint."""
        results = sorted(results, key=lambda result: result.index)
        session, interrupt = self.session, self.interrupt
        report = ScoreReport(
            session.writer.job_id,
            tuple(results),
            total - len(results),
            interrupt.signal_number,
            None if self.job is None else session.held(),
            request.second_opinion,
        )
        if (warning := truncation_warning(report.summary, hint=hint)) is not None:
            emit(warning)
        return RewardRun(
            request,
            report,
            session.writer.path,
            session.cleanup_error(),
            exhausted=session.exhausted if interrupt.is_exhausted else "",
            can_resume=can_resume,
        )


@contextmanager
def open_job_run(
    config: ScoredRunConfig | EpisodesConfig | ValidateConfig | RedteamConfig,
    problems: Mapping[str, Problem],
    settings: Settings,
    *,
    command: str,
    tags: Sequence[str] = (),
    job_id: str | None = None,
    facts: Mapping[str, JsonValue] | None = None,
    versions: Mapping[str, str] | None = None,
    resume: Path | None = None,
    service: str | None = None,
    project: str | None = None,
    out: Path | None = None,
    episode_seconds: float = 0.0,
    quality: QualityFilter | None = None,
    emit: Emit,
    interrupt: Interrupt,
) -> Iterator[JobRun]:
    """Connects to the runtime, opens the run, and creates its job; leaving the block ends them.

    Args:
        tags: Tags of every sandbox, besides those of the user and of the W&B run.
        facts: What is kept with the run besides the configuration.
        versions: Versions of what it works with, besides the usual.
        resume: The directory of the run to resume.
        service: The address of a service that scores: there is no job then.
        out: A file for the documents of results; it is opened once the options are known to be usable.
        episode_seconds: How long sandboxes live besides the time of judging.
        quality: What has left out problems; the run keeps the cards that it used.

    Raises:
        UsageError: If the run cannot be made.
        ServiceError: If the runtime, or the disk, fails.
    """
    job_id = checked_job_id(job_id) if job_id else new_job_id()
    if resume is None:
        # A run that is resumed was checked before, and has the image of its sandboxes as an option.
        check_use(config, problems.values())
    tasks = TaskHold.of(config.lock, problems, resume=resume)
    sandboxes = SandboxRequest.of(config, *tags)
    allowance = sandboxes.allowance(settings, run=resume)
    with ExitStack() as stack:
        results = None if out is None else stack.enter_context(_opened_out(out))
        connection = None
        if service is None:
            connection = sandboxes.connect(settings, needed=packages_of(problems.values()), emit=emit)
        found = {"service": service} if connection is None else connection.facts()
        plan = RunPlan(
            command=command,
            job_id=job_id,
            options={**config.document(), **found, **allowance.facts, **(facts or {})},
            changes={"budget": config.budget, **allowance.facts},
            versions={**(versions or {}), **({} if connection is None else {"judge": judge_version()})},
            runs_dir=config.runs_dir,
            name=config.run_name,
            resume=resume,
            report_to=config.report_to,
            project=project,
            log_level=config.log_level,
        )
        session = stack.enter_context(open_run(plan, settings, interrupt=interrupt, emit=emit))
        recorder = session.recorder()
        tell = session.told(recorder)
        if not isinstance(config, ValidateConfig | RedteamConfig):
            # These measure them.
            warn_of_weak_problems(problems.values(), settings.state_dir, tell, config.verifier_place)
        job = None
        if connection is not None:
            lifetime = episode_seconds + lifetime_seconds(problems, ScoreOptions.of(config).limits)
            job = session.own(
                sandboxes.tagged(*session.tags).job(
                    connection,
                    command=command,
                    max_lifetime_seconds=lifetime,
                    writer=session.writer,
                    allowance=allowance,
                    interrupt=interrupt,
                    emit=tell,
                )
            )
            job.expected_images = tasks.images
        if session.writer.rank == 0:
            if quality is not None:
                quality.keep(session.writer.path)
            stack.enter_context(tasks.kept(session.writer.path, {} if job is None else job.images))
        yield JobRun(session, recorder, tell, interrupt, connection, job, results)


def score_run(
    request: ScoredRunConfig,
    batches: Batches,
    problems: Mapping[str, Problem],
    settings: Settings,
    *,
    total: int,
    command: str,
    tags: Sequence[str] = (),
    job_id: str | None = None,
    facts: Mapping[str, JsonValue] | None = None,
    versions: Mapping[str, str] | None = None,
    least_concurrency: int = 1,
    prompting: Prompting | None = None,
    numbers: Mapping[str, int] | None = None,
    resumed: ResumedRun | None = None,
    quality: QualityFilter | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
) -> RewardRun:
    """Scores completions and leaves a run directory.

    Args:
        batches: What to score; of a resumed run, what has no result that stays.
        least_concurrency: How many sandboxes at once at least, where the user says nothing.
        prompting: How the model was asked; None if the run asks none.
        numbers: The place of each completion among all, by its id; that in which they come unless given.
        resumed: The run to go on with; its options stay as they are.
        quality: What has left out problems.

    Raises:
        UsageError: If the run cannot be made.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    interrupt = interrupt or Interrupt()
    wanted = ScoreOptions.of(request)
    with ExitStack() as stack:
        cache = VerdictCache(request.cache)
        client: ServiceClient | None = None
        if request.service is not None:
            # Few runs ask a service.
            from sandrl.remote.client import ServiceClient

            client = stack.enter_context(ServiceClient(request.service))
        run = stack.enter_context(
            open_job_run(
                request,
                problems,
                settings,
                command=command,
                tags=tags,
                job_id=job_id,
                facts=facts,
                versions=versions,
                resume=None if resumed is None else resumed.path,
                service=request.service,
                out=request.out,
                quality=quality,
                emit=emit,
                interrupt=interrupt,
            )
        )
        writer, tell = run.session.writer, run.tell
        where = Place(writer.job_id, attempt=run.session.attempt)
        scorer: _Scores
        if client is not None:
            from sandrl.remote.batch import request_options, score_with_service

            tell(ServiceAsked(client.url, total))
            scorer = partial(
                score_with_service,
                problems=problems,
                client=client,
                options=request_options(wanted, require_isolated=request.require_isolated),
                scoring=wanted,
                interrupt=interrupt,
            )
        else:
            assert run.connection is not None, "there is one or the other"
            assert run.job is not None, "it has the connection"
            concurrency = run.connection.concurrency(request.concurrency, least=least_concurrency)
            at_once = run.connection.at_once(concurrency)
            tell(JobStarted(writer.job_id, total, min(at_once, total, request.max_sandboxes or at_once)))
            judge = Judge.on(run.connection, require_isolated=request.require_isolated)
            scorer = partial(
                score_batch,
                problems=problems,
                job=run.job,
                context=ScoringContext.of(replace(wanted, concurrency=concurrency), judge, run.connection),
                cache=cache,
                interrupt=interrupt,
                opinions={},
                # It is in the run directory.
                keeps_output=False,
            )
        results = [] if resumed is None else list(resumed.results)
        kept = KeptProblems(writer, prompting)
        told: set[str] = set()
        no_code = no_code_warning(request.extract)

        def tell_and_keep(event: Event) -> None:
            if isinstance(event, OpinionFinished):
                writer.append(opinion_row(event, where))
            tell(event)

        for batch in batches(writer):
            place = BatchPlace(len(results), batch, numbers or {}, total, tell_and_keep, told, no_code)

            def keep(result: ScoredCompletion, place: BatchPlace = place, batch: Sequence[Completion] = batch) -> None:
                numbered = place.of(result)
                problem = kept.digest_of(problems[result.task_id])
                writer.append(trajectory_row(numbered, batch[result.index], where, problem=problem))
                if run.out is not None:
                    run.out.append(to_line(result_document(numbered)))

            report = scorer(batch, emit=place.tell, on_result=keep)
            results += [place.of(result) for result in report.results]
            if interrupt.level:
                break
        if no_code.message in told and all(result.status is Status.NO_CODE for result in results):
            tell(no_code)
        run.end(len(results), total, is_resumed=resumed is not None)
    hint = "generate these completions again with a higher token limit" if numbers is None else LONGER_ANSWERS
    return run.reported(request, results, total, hint=hint, can_resume=command in RESUMABLE, emit=emit)


class _Scores(Protocol):
    def __call__(self, completions: Sequence[Completion], *, emit: Emit, on_result: OnResult) -> ScoreReport: ...


class BatchPlace:
    """Where a batch stands among all completions: what is told of it has the numbers of the whole, and warns once."""

    def __init__(
        self,
        finished: int,
        batch: Sequence[Completion],
        numbers: Mapping[str, int],
        total: int,
        emit: Emit,
        told: set[str],
        no_code: Warned,
    ) -> None:
        self._finished = finished
        self._numbers: Sequence[int] = range(finished, finished + len(batch))
        if numbers:
            self._numbers = [numbers.get(each.id, finished + place) for place, each in enumerate(batch)]
        self._total = total
        self._emit = emit
        self._told = told
        self._no_code = no_code

    def of(self, result: ScoredCompletion) -> ScoredCompletion:
        number = self._numbers[result.index]
        return result if number == result.index else replace(result, index=number)

    def tell(self, event: Event) -> None:
        match event:
            case CompletionFinished(result, finished):
                event = CompletionFinished(self.of(result), finished + self._finished, self._total)
            case OpinionFinished(result, opinion):
                event = OpinionFinished(self.of(result), opinion)
            case CompletionStarted() | RetryScheduled() | CanaryFinished() if self._numbers[event.index] != event.index:
                event = replace(event, index=self._numbers[event.index])
            case ExecutionFinished(index=int() as index) if self._numbers[index] != index:
                event = replace(event, index=self._numbers[index])
            case OpinionsAwaited() if self._finished + len(self._numbers) < self._total:
                return
            case Warned(message) if message in self._told:
                return
            case Warned(message):
                self._told.add(message)
                if event == self._no_code:
                    # Whether there is code in none is a matter of all completions, not of a batch.
                    return
        self._emit(event)


@contextmanager
def _opened_out(path: Path) -> Iterator[RowAppender]:
    """The file of `out`, to which results are appended.

    Raises:
        InputError: If it cannot be written.
    """
    try:
        appender = RowAppender(path)
    except ServiceError as error:
        raise InputError(error.message, hint="choose another `out`", fields=("out",)) from error
    with appender:
        yield appender
