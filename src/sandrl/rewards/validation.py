"""Validates a set of problems: judges their own reference solutions like any completion.

A reference gets the same limits, judge and sandboxes as a completion, so a problem that validates is also rewarded in
training. The reference of a task is its solution, and its stub is an agent that does nothing, which must earn less.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from sandrl.config.scoring import ValidateConfig
from sandrl.errors import CleanupError, GateError, InfrastructureError, InputError, raise_for_end
from sandrl.events import Emit, Warned, ignore
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.judge.calibration import is_in_library, modules_of
from sandrl.judge.stubs import NOTHING, Stub, stubs_of
from sandrl.problems import Completion, Problem, load_problems, reference_completions
from sandrl.problems.completions import expected_answer
from sandrl.problems.languages import PYTHON
from sandrl.problems.loading import reading_of
from sandrl.problems.quality import card_digest
from sandrl.problems.store import joined, select
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rewards.scoring import opened_job, score_batch
from sandrl.runs.card_record import CardRecord
from sandrl.runs.cards import Card
from sandrl.sandboxes import Interrupt, Job
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.options import ScoreOptions, SecondOpinion
from sandrl.scoring.summary import ScoreReport
from sandrl.settings import Settings
from sandrl.trials.answers import Nothing, Oracle
from sandrl.trials.trial import Agent


@dataclass(frozen=True, slots=True)
class Validation:
    """A finished validation.

    Attributes:
        report: The results of the references.
        without_reference: Number of problems without a reference, which were left out.
        seconds: Wall time of judging.
        accepted_stubs: The stubs that pass the checks, by `task_id`; only problems with such stubs are in it.
        invalid: Why problems without a reference, and tasks without an answer, cannot be judged, by `task_id`.
        nothing: What tasks give for nothing, by `task_id`.
        cleanup_error: Set if sandboxes were left behind.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    request: ValidateConfig
    report: ScoreReport
    without_reference: int
    seconds: float
    accepted_stubs: dict[str, tuple[str, ...]]
    invalid: dict[str, str]
    nothing: dict[str, ScoredCompletion] = field(default_factory=dict)
    cleanup_error: CleanupError | None = None
    exhausted: str = ""

    @property
    def failed(self) -> tuple[ScoredCompletion, ...]:
        return tuple(result for result in self.report.results if not result.is_pass)

    @property
    def in_process(self) -> tuple[str, ...]:
        """The problems whose checks could not be kept out of the solution's process."""
        return tuple(result.task_id for result in self.report.results if result.trust is Trust.IN_PROCESS)

    @property
    def in_process_reasons(self) -> dict[str, str]:
        """How references failed apart from their checks that passed in one process only, by `task_id`."""
        return {result.task_id: result.why_in_process for result in self.report.results if result.why_in_process}

    def counts(self) -> dict[str, dict[str, int]]:
        """How many references ended with each status, and how far their verdicts can be trusted."""
        statuses = Counter(result.status.value for result in self.report.results)
        trusts = Counter(result.trust.value for result in self.report.results if result.trust is not None)
        return {"statuses": dict(statuses.most_common()), "trust": dict(trusts.most_common())}

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If references are unscorable because their sandboxes failed.
            GateError: If a reference fails, or cannot be judged the way that was asked for.
        """
        results = self.report.results
        message = f"interrupted: {len(results)} of {len(results) + self.report.unfinished} references were judged"
        raise_for_end(
            message,
            signal_number=self.report.signal_number,
            cleanup_error=self.cleanup_error,
            exhausted=self.exhausted,
            budget_hint="use a larger `budget`; `cache` DIR keeps verdicts from one call to the next",
        )
        unjudged = [result for result in results if result.status is Status.INFRASTRUCTURE]
        if unjudged:
            first = unjudged[0]
            message = (
                f"{len(unjudged)} of {len(results)} references could not be judged: {first.task_id}: {first.detail}"
            )
            also = "correct the task, or " if first.task_id in self.nothing else ""
            hint = f"{also}check the runtime, and validate again: sandrl runtime status"
            raise InfrastructureError(message, hint=hint)
        unsplittable = sum(result.status is Status.NOT_ISOLATED for result in results)
        complaints = []
        if failing := len(self.failed) - unsplittable:
            complaints.append(f"{failing} of {len(results)} reference solutions fail their own checks")
        if unsplittable:
            complaints.append(f"the checks of {unsplittable} of {len(results)} problems cannot be isolated")
        if weak := [task_id for task_id in self.nothing if task_id in self.accepted_stubs]:
            complaints.append(
                f"{len(weak)} tasks reward an agent that does nothing as their solution (first: {weak[0]})"
            )
        if self.invalid:
            task_id, why = next(iter(self.invalid.items()))
            complaints.append(f"{len(self.invalid)} problems are invalid without an answer (first: {task_id}: {why})")
        if complaints:
            raise GateError("; ".join(complaints))


def validate(
    request: ValidateConfig, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> Validation:
    """Judges the reference solutions of a set of problems, and stubs that must fail.

    Raises:
        UsageError: If the input cannot be used; `InputError` if no problem has a reference.
        ServiceError: If the runtime fails.
    """
    interrupt = interrupt or Interrupt()
    cache = VerdictCache(request.cache)
    problems = _problems(request, emit)
    references, judged = _references(problems)
    without_reference = len(problems) - len(references)
    tasks = {name: problem for name, problem in problems.items() if problem.task is not None}
    if not references and not tasks:
        raise InputError("no problem has a reference solution", path=request.source, field="reference")
    if without_reference:
        emit(Warned(f"{without_reference} problems have no reference solution and are left out"))
    with opened_job(
        request,
        problems,
        settings,
        command="problems validate",
        tag="problems-validate",
        total=len(references),
        emit=emit,
        interrupt=interrupt,
    ) as (job, context):
        began = time.monotonic()
        agents = [_oracle(judged[each.task_id], context) for each in references] if tasks else ()
        report = score_batch(
            references, judged, job, context, cache=cache, emit=emit, interrupt=interrupt, agents=agents
        )
        found = [] if interrupt.level else _judged_stubs(problems, job, context, cache, interrupt)
        nothing = {} if interrupt.level or not tasks else _nothing(tasks, job, context, cache, interrupt)
        seconds = time.monotonic() - began
    stubs: dict[str, tuple[str, ...]] = {}
    invalid: dict[str, str] = {}
    oracles = {result.task_id: result.reward for result in report.results}
    for name, result in nothing.items():
        if result.reward is None:
            invalid[name] = result.detail
        elif result.is_pass or result.reward >= (oracles.get(name) or 1.0):
            stubs[name] = (NOTHING,)
    for result, label in found:
        if result.is_pass:
            stubs[result.task_id] = (*stubs.get(result.task_id, ()), label)
        elif result.status is Status.INVALID_PROBLEM and problems[result.task_id].reference is None:
            invalid[result.task_id] = result.detail
    if not interrupt.level:
        measured = ((problem, stubs.get(name, ())) for name, problem in problems.items())
        CardRecord(settings.state_dir).add(
            Card(
                task_id=problem.task_id,
                kind=problem.kind,
                digest=card_digest(problem),
                nop=1.0 if accepted else 0.0,
                stubs=accepted,
            )
            for problem, accepted in measured
        )
    report = replace(report, held=job.spending.held)
    return Validation(
        request, report, without_reference, seconds, stubs, invalid, nothing, job.cleanup_error(), job.exhausted
    )


def estimate_validation(request: ValidateConfig, settings: Settings) -> SandboxEstimate:
    """What validating a set of problems would take; nothing is started.

    Raises:
        UsageError: If the input cannot be used.
    """
    problems = _problems(request)
    references, judged = _references(problems)
    stubs = ((problem, 1 if problem.task else len(stubs_of(problem))) for problem in problems.values())
    counts = chain(((judged[each.task_id], 1) for each in references), stubs)
    limits = ScoreOptions.of(request).limits
    return estimate_sandboxes(request, limits, settings, command="problems validate", counts=counts)


def _problems(request: ValidateConfig, emit: Emit = ignore) -> Mapping[str, Problem]:
    loaded = load_problems(request.source, skip_bad_rows=request.skip_bad_rows, **reading_of(request))
    if loaded.note:
        emit(Warned(loaded.note))
    return select(loaded.problems, islice(loaded.problems, request.num_problems))


def _references(problems: Mapping[str, Problem]) -> tuple[tuple[Completion, ...], Mapping[str, Problem]]:
    # The answers that must pass, and the problems that they are judged as answers to. A checker of a problem without a
    # reference must accept the expected outputs.
    answers = {each.task_id: each for each in reference_completions(problems.values())}
    others: dict[str, Problem] = {}
    for name, problem in problems.items():
        if problem.task is not None and problem.task.has_solution:
            answers[name] = Completion(id=name, task_id=name, code="")
        if problem.checker is not None and name not in answers:
            answers[name] = Completion(id=name, task_id=name, code=expected_answer(problem))
            if not problem.is_python:
                others[name] = replace(problem, language=PYTHON)
    # Problems stay where they are: there may be more than fit into memory.
    return tuple(answers[name] for name in problems if name in answers), joined(problems, others)


def _oracle(problem: Problem, context: ScoringContext) -> Agent | None:
    return None if problem.task is None else Oracle(problem.task, context.options.trial.passed_variables)


def _nothing(
    tasks: Mapping[str, Problem],
    job: Job,
    context: ScoringContext,
    cache: VerdictCache,
    interrupt: Interrupt,
) -> dict[str, ScoredCompletion]:
    completions = [Completion(f"{name}#nothing", name, code="") for name in tasks]
    agents = [Nothing()] * len(completions)
    report = score_batch(completions, tasks, job, context, cache=cache, interrupt=interrupt, agents=agents)
    return {result.task_id: result for result in report.results}


def _judged_stubs(
    problems: Mapping[str, Problem],
    job: Job,
    context: ScoringContext,
    cache: VerdictCache,
    interrupt: Interrupt,
) -> list[tuple[ScoredCompletion, str]]:
    # Of those that may pass, and of one for each problem without a reference that imports something; with their labels.
    labels: list[str] = []
    completions: list[Completion] = []
    for problem in problems.values():
        if problem.task is not None:
            continue
        stubs = stubs_of(problem)
        if not stubs and problem.reference is None and not all(map(is_in_library, modules_of(problem))):
            stubs = (Stub(NOTHING, "pass"),)
        for stub in stubs:
            labels.append(stub.label)
            completions.append(Completion(f"{problem.task_id}#{len(labels)}", problem.task_id, code=stub.code))
    if not completions:
        return []
    # None is asked for a second opinion, and nothing of it is shown: most of them are to fail.
    context = replace(context, options=replace(context.options, second_opinion=SecondOpinion()))
    report = score_batch(completions, problems, job, context, cache=cache, interrupt=interrupt)
    return [(result, labels[result.index]) for result in report.results]
