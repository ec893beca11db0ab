"""Runs one `sandrl redteam`, from its request to its report, without its presentation.

A campaign is a run: a row for each program and agent, and a card for each problem. So it can be resumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sandrl.answers.builds import has_tools, language_of
from sandrl.config.scoring import RedteamConfig
from sandrl.config.words import BUNDLED
from sandrl.errors import GateError, InfrastructureError, InputError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Problem, load_problems
from sandrl.problems.loading import reading_of
from sandrl.redteam.campaign import RedteamReport, attack_by, count_runs
from sandrl.redteam.cheat import Cheat
from sandrl.redteam.cheats import CHEATS
from sandrl.redteam.corpus import EXPLOITS, EXPLOITS_IN_CPP
from sandrl.redteam.corpus.compiled import PRIMES
from sandrl.redteam.exploit import COMPILED, Exploit, ExploitKind, aim_at
from sandrl.redteam.judges import JudgeAttempt, attack_judge
from sandrl.redteam.tasks import TaskAttack, attack_tasks
from sandrl.redteam.tasks import count_runs as count_trials
from sandrl.rewards.cards import card_of
from sandrl.rewards.estimate import SandboxEstimate
from sandrl.rewards.measuring import (
    MeasuringEnd,
    MeasuringRequest,
    estimate_measuring,
    measuring_request,
    opened_measuring,
    whole_results,
)
from sandrl.runs.cards import Card
from sandrl.runs.cards import Cheat as EarningCheat
from sandrl.sandboxes import Interrupt, SandboxRequest
from sandrl.scoring.grading import Grading, judge_of
from sandrl.settings import Settings

COMMAND = "redteam"
_Named = TypeVar("_Named", Exploit, Cheat)
_OF_EACH_KIND = 2
_EVERY_EXPLOIT = (*EXPLOITS, *EXPLOITS_IN_CPP)


@dataclass(frozen=True, slots=True)
class RedteamRun:
    """A finished campaign.

    Attributes:
        report: What came of exploits, on problems that are no tasks.
        cards: The cards of these problems.
        tasks: What came of cheats, on tasks.
        judged: What came of attacks on the model that grades answers; empty without one.
        end: How its run ended.
    """

    report: RedteamReport
    cards: tuple[Card, ...]
    tasks: tuple[TaskAttack, ...]
    end: MeasuringEnd
    judged: tuple[JudgeAttempt, ...] = ()

    @property
    def unscorable(self) -> tuple[ScoredCompletion, ...]:
        """Runs that could not be judged because their sandboxes, or a verifier on its own, failed."""
        of_tasks = (
            result
            for task in self.tasks
            for result in (task.nop, task.oracle, *(each.result for each in task.attempts))
            if result is not None and result.reward is None
        )
        return (*self.report.unscorable, *of_tasks)

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If something could not be judged because its sandboxes failed.
            GateError: If an exploit or a cheat was rewarded, or has no reward, or a control failed.
        """
        self.end.raise_for_stop()
        report = self.report
        if failed := self.unscorable:
            message = f"{len(failed)} runs could not be judged: {failed[0].id}: {failed[0].detail}"
            also = "correct the task, or " if any(failed[0].id == task.nop.id for task in self.tasks) else ""
            hint = f"{also}check the runtime (sandrl runtime status), and judge these again: {self.end.next_command}"
            raise InfrastructureError(message, hint=hint)
        complaints = []
        for found, what in (
            (report.rewarded, f"of {len(report.attempts)} exploits were rewarded"),
            (report.excused, "exploits got a null reward instead of 0.0"),
        ):
            if found:
                first = f"{found[0].exploit.name} on {found[0].target.problem.task_id}"
                complaints.append(f"{len(found)} {what} (first: {first})")
        if cheated := [task for task in self.tasks if task.earned]:
            first = f"{cheated[0].earned[0].cheat.name} on {cheated[0].task_id}"
            complaints.append(f"{len(cheated)} of {len(self.tasks)} tasks reward a cheat (first: {first})")
        if faulty := [task for task in self.tasks if task.fault]:
            first = f"{faulty[0].task_id}: {faulty[0].fault}"
            complaints.append(f"the controls of {len(faulty)} of {len(self.tasks)} tasks failed (first: {first})")
        if disturbed := report.disturbed:
            first = f"{disturbed[0].task_id}: {disturbed[0].detail or disturbed[0].status}"
            complaints.append(f"{len(disturbed)} of {len(report.neighbours)} controls failed (first: {first})")
        if deceived := [each for each in self.judged if each.is_rewarded]:
            first = f"{deceived[0].attack.name} on {deceived[0].task_id}"
            complaints.append(f"{len(deceived)} of {len(self.judged)} attacks raised a grade (first: {first})")
        if complaints:
            raise GateError(
                "; ".join(complaints),
                hint="list the exploits and what each one does with `sandrl redteam --list`",
            )


def redteam_request(
    given: Mapping[str, Any], settings: Settings, *, file: Mapping[str, Any] | None = None, resume: str | None = None
) -> MeasuringRequest[RedteamConfig]:
    """Makes a request of what was given; `resume` is a run's name, its directory, or `latest`.

    Raises:
        UsageError: If a value is impossible, or is another one than that of the run; or if there is no such run.
    """
    return measuring_request(
        RedteamConfig, COMMAND, given, settings, file=file, resume=resume, fixed=("exploits", "mutants")
    )


def run_redteam(
    request: RedteamConfig,
    settings: Settings,
    *,
    resume: Path | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
) -> RedteamRun:
    """Tries the corpus on problems, and leaves a run.

    Args:
        resume: The directory of a run that is resumed: what has no result in it is judged.

    Raises:
        UsageError: If the input cannot be used.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    interrupt = interrupt or Interrupt()
    aims = _aims(request)
    programs, tasks = list(aims.programs), aims.tasks
    judge = None if (grading := Grading.of(request)) is None else judge_of(grading)
    if not programs and not tasks:
        raise InputError(
            "no problem can be attacked: exploits are code, for problems that check what code returns or prints, and"
            " cheats are for tasks",
            path=request.problems,
            hint="name another set, or other exploits; problems that reward every program that ends with status 0 are"
            " left out",
        )
    if _needs_compiled(request, aims.exploits):
        connection = SandboxRequest.of(request, COMMAND).connect(settings, emit=emit)
        if connection.is_local and not has_tools(language_of(PRIMES)):
            packages = ", ".join(language_of(PRIMES).forms[-1].packages)
            emit(
                Warned(
                    "exploits in C++ are skipped, because there is no compiler",
                    f"install the Debian package {packages}",
                )
            )
        else:
            programs.append(PRIMES)
    with opened_measuring(
        MeasuringRequest(request, resume),
        {problem.task_id: problem for problem in (*programs, *tasks)},
        settings,
        command=COMMAND,
        source=request.problems,
        emit=emit,
        interrupt=interrupt,
    ) as measuring:
        if judge is not None:
            judge.check(measuring.run.tell)
        measuring.expect(
            sum(count for _, count in count_runs(programs, aims.exploits))
            + sum(count_trials(task, aims.cheats) for task in tasks)
        )
        uncached = replace(measuring.context, options=replace(measuring.context.options, caching=False))
        report = attack_by(
            partial(measuring.judge, context=uncached),
            programs,
            aims.exploits,
            emit=measuring.run.tell,
            interrupt=interrupt,
        )
        cards = () if report.unfinished else _cards(report, len(_EVERY_EXPLOIT) - len(aims.exploits))
        for card in cards:
            measuring.keep(card)
        found: tuple[TaskAttack, ...] = ()
        if tasks and not interrupt.level:
            found = attack_tasks(
                measuring, {task.task_id: task for task in tasks}, aims.cheats, mutants=request.mutants
            )
        judged: tuple[JudgeAttempt, ...] = ()
        if judge is not None and not interrupt.level:
            judged = attack_judge(judge, aims.programs)
    end = measuring.end()
    return RedteamRun(_with_texts(report, end.path), cards, found, end, judged)


def _cards(report: RedteamReport, left_out: int) -> tuple[Card, ...]:
    # Exploits that passed, and what is known of the references; what their stubs earn is known to validations alone.
    cards = []
    unfit = {result.task_id for result in report.unfit}
    for target in report.targets:
        problem = target.problem
        every = [each for each in report.attempts if each.target is target]
        attempts = [each for each in every if each.result.reward is not None]
        earned = {each.exploit.name: each for each in attempts if each.is_rewarded}
        found = {
            "cheats_tried": len(attempts) or None,
            "cheats_unscored": len(every) - len(attempts),
            "cheats_left_out": left_out,
            "cheats": tuple(
                EarningCheat(name=name, group=each.exploit.group, reward=each.result.reward or 0.0, advice=_ADVICE)
                for name, each in earned.items()
            ),
            "nop": None,
            "stubs": None,
        }
        controls = [each for each in (*report.unfit, *report.neighbours) if each.task_id == problem.task_id]
        runs = {"oracle.1": controls[0]} if controls and (problem.task_id in unfit or controls[0].is_pass) else {}
        cards.append(card_of(problem, runs).model_copy(update=found))
    return tuple(cards)


_ADVICE = "add a check that rejects such answers, or a reference with which checks can be isolated"


def _with_texts(report: RedteamReport, run: Path) -> RedteamReport:
    # What is shown of results in detail is in the rows of the run.
    shown = {each.result.id for each in (*report.rewarded, *report.excused)} | {each.id for each in report.disturbed}
    if not shown:
        return report
    whole = whole_results(run, shown)
    attempts = [replace(each, result=whole.get(each.result.id, each.result)) for each in report.attempts]
    neighbours = [whole.get(each.id, each) for each in report.neighbours]
    return replace(report, attempts=tuple(attempts), neighbours=tuple(neighbours))


def estimate_redteam(request: MeasuringRequest[RedteamConfig], settings: Settings) -> SandboxEstimate:
    """What a campaign would take; nothing is started, and exploits in C++ count where there is a compiler here.

    Cheats that earn something are tried again, which nobody knows before.

    Raises:
        UsageError: If the input cannot be used.
    """
    aims = _aims(request.config)
    programs = [*aims.programs]
    if _needs_compiled(request.config, aims.exploits) and has_tools(language_of(PRIMES)):
        programs.append(PRIMES)
    counts = count_runs(programs, aims.exploits)
    counts += [(task, count_trials(task, aims.cheats, request.config.mutants)) for task in aims.tasks]
    return estimate_measuring(request, settings, counts, command=COMMAND)


@dataclass(frozen=True, slots=True)
class _Aims:
    # What is tried, and on which problems.
    exploits: tuple[Exploit, ...]
    cheats: tuple[Cheat, ...]
    programs: tuple[Problem, ...]
    tasks: tuple[Problem, ...]


def _aims(request: RedteamConfig) -> _Aims:
    names = request.exploits
    exploits, cheats = _chosen(_EVERY_EXPLOIT, names), _chosen(CHEATS, names)
    found: tuple[Exploit | Cheat, ...] = (*exploits, *cheats)
    for name in sorted({*names} - {word for each in found for word in (each.name, each.group)}):
        message = f"no exploit, cheat or group of them is called {name!r}"
        raise UsageError(message, hint="list them: sandrl redteam --list")
    loaded = load_problems(request.problems, **reading_of(request))
    limit = request.num_problems
    tasks = [problem for problem in loaded.problems.values() if problem.task is not None] if cheats else []
    programs = _first_of_each_kind(loaded.problems.values(), _OF_EACH_KIND if limit is None else limit or None)
    if request.problems == BUNDLED:
        programs += dict.fromkeys(problem for exploit in exploits for problem in exploit.problems)
    return _Aims(exploits, cheats, tuple(programs if exploits else ()), tuple(tasks[: limit or None]))


# No bundled problem is in C++.
def _needs_compiled(request: RedteamConfig, exploits: Iterable[Exploit]) -> bool:
    return request.problems == BUNDLED and any(exploit.kinds >= COMPILED for exploit in exploits)


def _chosen(every: Iterable[_Named], names: Collection[str]) -> tuple[_Named, ...]:
    # Those with these names, or of these groups; all of them if there are no names.
    return tuple(each for each in every if not names or not {each.name, each.group}.isdisjoint(names))


def _first_of_each_kind(problems: Iterable[Problem], limit: int | None) -> list[Problem]:
    """The first problems of each kind; without those that reward whatever ends well."""
    seen: Counter[ExploitKind] = Counter()
    kept = []
    for problem in problems:
        target = aim_at(problem)
        if target is None or (limit is not None and seen[target.kind] >= limit):
            continue
        seen[target.kind] += 1
        kept.append(problem)
    return kept
