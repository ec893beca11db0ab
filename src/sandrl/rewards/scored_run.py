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
from typing import Protocol, TypeAlias

from pydantic import JsonValue

from sandrl.config.scoring import ScoredRunConfig
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
from sandrl.problems import Completion, Problem
from sandrl.problems.prompting import Prompting
from sandrl.rewards.batch import OnResult, no_code_warning
from sandrl.rewards.cache import VerdictCache
from sandrl.rewards.calibration import packages_of
from sandrl.rewards.document import result_document, to_line
from sandrl.rewards.judge import Judge, judge_version
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.problem_records import KeptProblems
from sandrl.rewards.records import Place, opinion_row, trajectory_row
from sandrl.rewards.request import RewardRun
from sandrl.rewards.scoring import lifetime_seconds, score
from sandrl.rewards.service import ServiceClient
from sandrl.rewards.service_batch import request_options, score_with_service
from sandrl.rewards.summary import LONGER_ANSWERS, ScoreReport, count_dependent, truncation_warning
from sandrl.rewards.weak_checks import warn_of_weak_checks
from sandrl.runs import RunReader, RunWriter, counted_rows
from sandrl.runs.session import RunPlan, open_run
from sandrl.runs.summary import summarise
from sandrl.sandboxes import Interrupt, SandboxRequest, checked_job_id, new_job_id
from sandrl.settings import Settings

RESUMABLE = frozenset({"eval"})
"""The commands whose runs of scored completions can be resumed."""

Batches: TypeAlias = Callable[[RunWriter], Iterable[Sequence[Completion]]]
"""Makes the batches of completions to score, given the run that keeps them."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that is gone on with."""

    path: Path
    results: tuple[ScoredCompletion, ...]


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
    resumed: Resumed | None = None,
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

    Raises:
        UsageError: If the run cannot be made.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    interrupt = interrupt or Interrupt()
    job_id = checked_job_id(job_id) if job_id else new_job_id()
    sandboxes = SandboxRequest.of(request, *tags)
    wanted = ScoreOptions.of(request)
    allowance = sandboxes.allowance(settings, run=None if resumed is None else resumed.path)
    with ExitStack() as stack:
        cache = VerdictCache(request.cache)
        out = None if request.out is None else stack.enter_context(opened_out(request.out))
        client = None if request.service is None else stack.enter_context(ServiceClient(request.service))
        connection = (
            None
            if client is not None
            else sandboxes.connect(settings, needed=packages_of(problems.values()), emit=emit)
        )
        found = {"service": request.service} if connection is None else connection.facts()
        plan = RunPlan(
            command=command,
            job_id=job_id,
            options={**request.document(), **found, **allowance.facts, **(facts or {})},
            changes={"budget": request.budget, **allowance.facts},
            versions={**(versions or {}), **({} if client is not None else {"judge": judge_version()})},
            runs_dir=request.runs_dir,
            name=request.run_name,
            resume=None if resumed is None else resumed.path,
            report_to=request.report_to,
            log_level=request.log_level,
        )
        session = stack.enter_context(open_run(plan, settings, interrupt=interrupt, emit=emit))
        writer, recorder = session.writer, session.recorder()
        tell = session.told(recorder, _opinions_kept(writer, session.attempt))
        warn_of_weak_checks(problems.values(), settings.state_dir, tell)
        scorer: _Scores
        job = None
        if client is not None:
            tell(ServiceAsked(client.url, total))
            scorer = _with_service(client, request, wanted, problems, interrupt)
        else:
            assert connection is not None, "there is one or the other"
            concurrency = connection.concurrency(request.concurrency, least=least_concurrency)
            at_once = connection.at_once(concurrency)
            job = session.own(
                sandboxes.tagged(*session.tags).job(
                    connection,
                    command=command,
                    max_lifetime_seconds=lifetime_seconds(problems, wanted.limits),
                    writer=writer,
                    allowance=allowance,
                    interrupt=interrupt,
                    emit=tell,
                )
            )
            tell(JobStarted(job_id, total, min(at_once, total, request.max_sandboxes or at_once)))
            scorer = partial(
                score,
                problems=problems,
                job=job,
                judge=Judge.on(connection, require_isolated=request.require_isolated),
                options=replace(wanted, concurrency=concurrency),
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
        for batch in batches(writer):
            place = _Place(len(results), batch, numbers or {}, total, tell, told, no_code)

            def keep(result: ScoredCompletion, place: _Place = place, batch: Sequence[Completion] = batch) -> None:
                numbered = place.of(result)
                where = Place(job_id, attempt=session.attempt)
                problem = kept.digest_of(problems[result.task_id])
                writer.write_trajectory(trajectory_row(numbered, batch[result.index], where, problem=problem))
                if out is not None:
                    out.append(to_line(result_document(numbered)))

            report = scorer(batch, emit=place.tell, on_result=keep)
            results += [place.of(result) for result in report.results]
            if interrupt.level:
                break
        if no_code.message in told and all(result.status is Status.NO_CODE for result in results):
            tell(no_code)
        if job is not None:
            # The sandbox time of the run is known when all of its sandboxes are gone.
            job.close()
        session.is_complete = interrupt.is_exhausted and len(results) == total
        # What earlier jobs of the run did counts, too, and is known from the rows they left.
        recorder.log(0, counted_rows(RunReader(writer.path))[0].metrics if resumed and results else None)
    results.sort(key=lambda result: result.index)
    summary = summarise(results, opinion_rate=request.second_opinion, hash_seed_dependent=count_dependent(results))
    hint = "generate these completions again with a higher token limit" if numbers is None else LONGER_ANSWERS
    if (warning := truncation_warning(summary, hint=hint)) is not None:
        emit(warning)
    held = None if job is None else session.held()
    report = ScoreReport(job_id, tuple(results), summary, total - len(results), interrupt.signal_number, held)
    return RewardRun(
        request,
        report,
        writer.path,
        session.cleanup_error(),
        exhausted=session.exhausted if interrupt.is_exhausted else "",
        can_resume=command in RESUMABLE,
    )


class _Scores(Protocol):
    def __call__(self, completions: Sequence[Completion], *, emit: Emit, on_result: OnResult) -> ScoreReport: ...


def _with_service(
    client: ServiceClient,
    request: ScoredRunConfig,
    wanted: ScoreOptions,
    problems: Mapping[str, Problem],
    interrupt: Interrupt,
) -> _Scores:
    return partial(
        score_with_service,
        problems=problems,
        client=client,
        options=request_options(wanted, require_isolated=request.require_isolated),
        scoring=wanted,
        interrupt=interrupt,
    )


def _opinions_kept(writer: RunWriter, attempt: int) -> Emit:
    def keep(event: Event) -> None:
        if isinstance(event, OpinionFinished):
            writer.write_opinion(opinion_row(event, Place(writer.job_id, attempt=attempt)))

    return keep


class _Place:
    # Where a batch stands among all completions: what is told of it has the numbers of the whole, and warns once.

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
def opened_out(path: Path) -> Iterator[RowAppender]:
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
