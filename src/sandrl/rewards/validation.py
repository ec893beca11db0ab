"""Validates a set of problems: judges their own reference solutions like any completion, and answers that do nothing.

A reference gets the same limits, judge and sandboxes as a completion, so a problem that validates is also rewarded in
training. The reference of a task is its solution, and its stub is an agent that does nothing. Each of these runs
several times, because a verifier may flake. The card of a problem has what was measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sandrl.config.scoring import ValidateConfig
from sandrl.errors import GateError, InfrastructureError, InputError, UnmeasuredError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.judge.calibration import is_in_library, modules_of
from sandrl.judge.stubs import NOTHING, Stub, stubs_of
from sandrl.problems import Problem, load_problems
from sandrl.problems.completions import expected_answer
from sandrl.problems.languages import PYTHON
from sandrl.problems.loading import reading_of
from sandrl.problems.store import joined, select
from sandrl.rewards.cards import NOP, ORACLE, STUB
from sandrl.rewards.estimate import SandboxEstimate
from sandrl.rewards.measuring import (
    Measuring,
    MeasuringEnd,
    MeasuringRequest,
    Run,
    estimate_measuring,
    measuring_request,
    opened_measuring,
    whole_results,
)
from sandrl.runs.cards import Card
from sandrl.sandboxes import Interrupt
from sandrl.scoring.options import ScoreOptions, SecondOpinion
from sandrl.scoring.summary import ScoreReport
from sandrl.settings import Settings
from sandrl.trials.answers import Nothing, Oracle

COMMAND = "problems validate"
TASK_REPEATS = 3
"""How often solutions of tasks run, and nothing does, unless said otherwise."""

_FIXED = ("skip_bad_rows", "repeats")


@dataclass(frozen=True)
class Validation:
    """A finished validation.

    Attributes:
        results: Of all runs, by id (`TASK#LABEL`), without code, output and single checks.
        cards: What is known of each problem that was measured, by `task_id`.
        without_reference: Number of problems without a reference, which were left out.
        without_solution: The tasks without a solution.
        seconds: Wall time of judging.
    """

    request: ValidateConfig
    results: dict[str, ScoredCompletion]
    cards: dict[str, Card]
    without_reference: int
    without_solution: tuple[str, ...]
    seconds: float
    end: MeasuringEnd

    @cached_property
    def report(self) -> ScoreReport:
        """The results of the references."""
        end, rate = self.end, self.request.second_opinion
        results = tuple(map(self._named, self._of(ORACLE)))
        return ScoreReport(end.job_id, results, end.unfinished, end.signal_number, end.held, rate)

    @property
    def nothing(self) -> tuple[ScoredCompletion, ...]:
        """The results of agents that do nothing on tasks."""
        return tuple(self._of(NOP))

    @property
    def failed(self) -> tuple[ScoredCompletion, ...]:
        return tuple(result for result in self.report.results if not result.is_pass)

    @property
    def accepted_stubs(self) -> dict[str, tuple[str, ...]]:
        """The stubs that pass the checks, by `task_id`; only problems with such stubs are in it."""
        return {name: _stubs(card) for name, card in self.cards.items() if _stubs(card)}

    @cached_property
    def invalid(self) -> dict[str, str]:
        """Why problems without a reference, and tasks on which nothing is done, cannot be judged, by `task_id`."""
        found = {result.task_id: result.detail for result in self.nothing if result.reward is None}
        known = {result.task_id for result in self.report.results}
        for result in self._of(STUB):
            if result.status is Status.INVALID_PROBLEM and result.task_id not in known:
                found[result.task_id] = result.detail
        return found

    @property
    def in_process(self) -> tuple[str, ...]:
        """The problems whose checks could not be kept out of the solution's process."""
        return tuple(result.task_id for result in self.report.results if result.trust is Trust.IN_PROCESS)

    @property
    def in_process_reasons(self) -> dict[str, str]:
        """How references failed apart from their checks that passed in one process only, by `task_id`."""
        return {result.task_id: result.why_in_process for result in self.report.results if result.why_in_process}

    @property
    def task_cards(self) -> tuple[Card, ...]:
        """The cards of tasks."""
        return tuple(card for card in self.cards.values() if card.is_task)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many references ended with each status, and how far their verdicts can be trusted."""
        statuses = Counter(result.status.value for result in self.report.results)
        trusts = Counter(result.trust.value for result in self.report.results if result.trust is not None)
        return {"statuses": dict(statuses.most_common()), "trust": dict(trusts.most_common())}

    def with_checks(self) -> Validation:
        """The same, and its results have their single checks, as the run keeps them."""
        whole = whole_results(self.end.path, self.results)
        known = self.results.items()
        return replace(self, results={name: replace(each, checks=whole.get(name, each).checks) for name, each in known})

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If something has no reward because its sandboxes, or its verifier, failed.
            GateError: If something that was measured is wrong, or cannot be judged the way that was asked for.
            UnmeasuredError: If nothing is wrong, but a task has no solution.
        """
        self.end.raise_for_stop()
        self._raise_for_infrastructure()
        complaints = [*self._complaints()]
        if complaints:
            raise GateError("; ".join(complaints))
        if without := self.without_solution:
            raise UnmeasuredError(
                f"{len(without)} tasks have no solution, so it is unknown whether they can be solved"
                f" (first: {without[0]})",
                hint="add their solutions, or accept exit code 5",
            )

    def _raise_for_infrastructure(self) -> None:
        lost = [result for result in self.results.values() if result.status is Status.INFRASTRUCTURE]
        lost = [result for result in lost if not _label(result).startswith(STUB)]
        if lost:
            first = lost[0]
            also = "correct the task, or " if _label(first).startswith(NOP) or first.task_id in self.invalid else ""
            raise InfrastructureError(
                f"{len(lost)} of {len(self.results)} runs have no reward: {first.id}: {first.detail}",
                hint=f"{also}check the runtime (sandrl runtime status), and judge these again: {self.end.next_command}",
            )

    def _complaints(self) -> Iterator[str]:
        cards = self.task_cards
        tasks = {card.task_id for card in cards}
        references = [result for result in self.report.results if result.task_id not in tasks]
        # Each may have run several times.
        names = {result.task_id for result in references}
        unsplittable = {result.task_id for result in references if result.status is Status.NOT_ISOLATED}
        if failing := {result.task_id for result in references if not result.is_pass} - unsplittable:
            yield f"{len(failing)} of {len(names)} reference solutions fail their own checks"
        if unsplittable:
            yield f"the checks of {len(unsplittable)} of {len(names)} problems cannot be isolated"
        if failed := [card for card in cards if card.oracle_passes < card.oracle_runs]:
            first = failed[0]
            of = f"{first.task_id}: {first.oracle_passes} of {first.oracle_runs} runs earn 1"
            yield f"the solutions of {len(failed)} of {len(cards)} tasks do not always earn 1 (first: {of})"
        if idle := [card for card in cards if (card.nop or 0.0) > 0]:
            of = f"{idle[0].task_id}: {idle[0].nop:g}"
            yield f"{len(idle)} of {len(cards)} tasks reward an agent that does nothing (first: {of})"
        if flaky := [card for card in self.cards.values() if card.flake_rate]:
            first = flaky[0]
            of = f"{first.task_id}: {first.flake_rate:.1%} of {first.flake_runs} runs"
            yield f"the verifiers of {len(flaky)} problems flake (first: {of})"
        if self.invalid:
            task_id, why = next(iter(self.invalid.items()))
            yield f"{len(self.invalid)} problems are invalid without an answer (first: {task_id}: {why})"

    def _named(self, result: ScoredCompletion) -> ScoredCompletion:
        # A reference that runs once has the name of its problem.
        is_single = f"{result.task_id}#{ORACLE}2" not in self.results
        return replace(result, id=result.task_id) if is_single else result

    def _of(self, kind: str) -> Iterator[ScoredCompletion]:
        return (result for result in self.results.values() if _label(result).startswith(kind))


class _Cards:
    # Makes the card of each problem when the last of its runs has a result.

    def __init__(self, measuring: Measuring, runs: Sequence[Run]) -> None:
        self._measuring = measuring
        self._labels: dict[str, list[str]] = {}
        for run in runs:
            self._labels.setdefault(run.task_id, []).append(run.label)
        self._left = {name: len(labels) for name, labels in self._labels.items()}
        self.found: dict[str, Card] = {}

    def add(self, result: ScoredCompletion) -> None:
        name = result.task_id
        self._left[name] -= 1
        if self._left[name]:
            return
        runs = {label: self._measuring.results[f"{name}#{label}"] for label in self._labels[name]}
        self.found[name] = self._measuring.card_of(name, runs)
        self._measuring.keep(self.found[name])


def validate(
    request: ValidateConfig,
    settings: Settings,
    *,
    resume: Path | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
) -> Validation:
    """Judges the reference solutions of a set of problems, and answers that do nothing and must fail; leaves a run.

    Args:
        resume: The directory of a run that is resumed: what has no result in it is judged.

    Raises:
        UsageError: If the input cannot be used; `InputError` if no problem has a reference.
        ServiceError: If the runtime, or the disk, fails.
    """
    interrupt = interrupt or Interrupt()
    problems = _problems(request, emit)
    plan = _plan(request, problems)
    if not plan.solutions and not plan.stubs:
        raise InputError("no problem has a reference solution", path=request.source, field="reference")
    if plan.without_reference:
        emit(Warned(f"{plan.without_reference} problems have no reference solution and are left out"))
    with opened_measuring(
        MeasuringRequest(request, resume),
        problems,
        settings,
        command=COMMAND,
        source=request.source,
        emit=emit,
        interrupt=interrupt,
    ) as measuring:
        began = time.monotonic()
        cards = _Cards(measuring, [*plan.solutions, *plan.stubs])
        measuring.expect(len(plan.solutions) + len(plan.stubs))
        options = measuring.context.options
        # Identical code would have the verdict of its first run.
        caching = options.caching and (request.repeats or 1) == 1
        context = replace(measuring.context, options=replace(options, caching=caching))
        results = measuring.judge(plan.solutions, context=context, problems=plan.judged, on_result=cards.add)
        # None is asked for a second opinion: most of them are to fail.
        context = replace(measuring.context, options=replace(options, second_opinion=SecondOpinion()))
        results |= measuring.judge(plan.stubs, context=context, on_result=cards.add)
        results = {name: measuring.results[name] for name in results}
        seconds = time.monotonic() - began
    known = {name: cards.found[name] for name in problems if name in cards.found}
    return Validation(request, results, known, plan.without_reference, plan.without_solution, seconds, measuring.end())


def validation_request(
    given: Mapping[str, Any], settings: Settings, *, file: Mapping[str, Any], resume: str | None
) -> MeasuringRequest[ValidateConfig]:
    """The request of a command, or the one of the run that it resumes; see `measuring_request`."""
    return measuring_request(
        ValidateConfig, COMMAND, _with_source(given), settings, file=_with_source(file), resume=resume, fixed=_FIXED
    )


def _with_source(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    # The argument is another word for the option, and a run keeps one of them.
    source, other = layer.get("given"), layer.get("problems")
    if source is not None and other not in (None, source):
        message = f"two sets of problems are named, {source!r} and {other!r}, and one is validated"
        raise UsageError(message, hint="leave one out", fields=("problems",))
    return layer if source is None else {**layer, "given": None, "problems": source}


def estimate_validation(request: MeasuringRequest[ValidateConfig], settings: Settings) -> SandboxEstimate:
    """What validating a set of problems would take; nothing is started.

    Raises:
        UsageError: If the input cannot be used.
    """
    plan = _plan(request.config, _problems(request.config))
    counts = Counter(each.task_id for each in chain(plan.solutions, plan.stubs))
    runs = ((plan.judged[name], count) for name, count in counts.items())
    return estimate_measuring(request, settings, runs, command=COMMAND)


@dataclass(frozen=True, slots=True)
class _Plan:
    # What is judged: of tasks also the agents that do nothing, which need no context of their own.
    solutions: Sequence[Run]
    stubs: Sequence[Run]
    judged: Mapping[str, Problem]
    without_reference: int
    without_solution: tuple[str, ...]


def _plan(request: ValidateConfig, problems: Mapping[str, Problem]) -> _Plan:
    # A checker of a problem without a reference must accept the expected outputs.
    variables = ScoreOptions.of(request).trial.passed_variables
    solutions: list[Run] = []
    stubs: list[Run] = []
    others: dict[str, Problem] = {}
    without_solution = []
    without_reference = 0
    for name, problem in problems.items():
        task, code = problem.task, problem.reference
        numbers = range(1, (request.repeats or (1 if task is None else TASK_REPEATS)) + 1)
        if task is not None:
            if not task.has_solution:
                without_solution.append(name)
            for number in numbers:
                if task.has_solution:
                    solutions.append(Run(name, f"{ORACLE}{number}", Oracle(task, variables)))
                solutions.append(Run(name, f"{NOP}{number}", Nothing()))
            continue
        if code is None and problem.checker is not None:
            code = expected_answer(problem)
            if not problem.is_python:
                others[name] = replace(problem, language=PYTHON)
        if code is None:
            without_reference += 1
        else:
            solutions += [Run(name, f"{ORACLE}{number}", code=code) for number in numbers]
        stubs += [Run(name, f"{STUB}{stub.label}", code=stub.code) for stub in _stubs_of(problem)]
    if not solutions:
        stubs = []
    # Problems stay where they are: there may be more than fit into memory.
    return _Plan(solutions, stubs, joined(problems, others), without_reference, tuple(without_solution))


def _stubs_of(problem: Problem) -> Sequence[Stub]:
    # Those that may pass, and one for each problem without a reference that imports something.
    stubs = stubs_of(problem)
    if not stubs and problem.reference is None and not all(map(is_in_library, modules_of(problem))):
        return (Stub(NOTHING, "pass"),)
    return stubs


def _problems(request: ValidateConfig, emit: Emit = ignore) -> Mapping[str, Problem]:
    loaded = load_problems(request.source, skip_bad_rows=request.skip_bad_rows, **reading_of(request))
    if loaded.note:
        emit(Warned(loaded.note))
    return select(loaded.problems, islice(loaded.problems, request.num_problems))


def _label(result: ScoredCompletion) -> str:
    return result.id.removeprefix(f"{result.task_id}#")


def _stubs(card: Card) -> tuple[str, ...]:
    if not card.is_task:
        return card.stubs or ()
    # As much as the solution earns.
    return (NOTHING,) if card.nop and card.nop >= min(card.oracle or 1.0, 1.0) else ()
