"""`sandrl redteam`: runs exploits on the user's problems and cheats on tasks, and reports those that earn a reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli import results
from sandrl.cli.cards import ResumeMeasuring, cards_table
from sandrl.cli.configured import CommandInput, given_to
from sandrl.cli.estimate import DryRun, print_estimate
from sandrl.cli.output import Json, print_json
from sandrl.cli.scores import held_line
from sandrl.cli.tables import Column, Table
from sandrl.cli.text import visible
from sandrl.cli.verbosity import is_verbose, note, print_first
from sandrl.cli.work import carry_out
from sandrl.config.scoring import RedteamConfig
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from sandrl.redteam import CheatAttempt, RedteamReport, RedteamRun, TaskAttack
    from sandrl.redteam.judges import JudgeAttempt


@given_to(RedteamConfig)
def redteam(
    given: CommandInput[RedteamConfig],
    *,
    list_: Annotated[bool, typer.Option("--list", help="List the exploits and the cheats, and exit.")] = False,
    resume: ResumeMeasuring = None,
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """Run exploits against the judge and your problems, and cheats against the verifiers of tasks.

    Exits with 1 if an exploit or a cheat earns a reward, if an exploit gets a null reward instead of 0.0, if an attack
    raises the grade of a model that grades answers, or if a control fails: a correct solution, or an agent that does
    nothing.
    """
    from sandrl.redteam.run import estimate_redteam, redteam_request, run_redteam

    if list_:
        _print_corpus()
        return
    request = redteam_request(given.command_line, load_settings(), file=given.file, resume=resume)
    if given.prints(request.config):
        return
    if dry_run:
        print_estimate(estimate_redteam(request, load_settings()), json_output=json_)
        return
    work = partial(run_redteam, resume=request.resume)
    finished = carry_out(work, request.config, results.choose(json_output=True))
    if json_:
        print_json(_document(finished, request.config.problems))
    else:
        if finished.tasks:
            _print_tasks(finished.tasks)
        if finished.report.targets:
            _print_report(finished.report)
        if finished.judged:
            _print_judged(finished.judged)
        note(held_line(finished.end.held))
        verdict = _verdict(finished)
        typer.echo(f"Verdict: {verdict} ({_MEANINGS[verdict]})")
    note(f"Run: {finished.end.path}")
    finished.raise_for_outcome()


def _print_corpus() -> None:
    from sandrl.redteam import CHEATS, EXPLOITS, EXPLOITS_IN_CPP
    from sandrl.redteam.judges import JUDGE_ATTACKS

    exploits = [(each.name, each.group, each.aim) for each in (*EXPLOITS, *EXPLOITS_IN_CPP)]
    cheats = [(each.name, each.group, each.aim) for each in CHEATS]
    attacks = [(each.name, "judge", each.aim) for each in JUDGE_ATTACKS]
    for title, rows in (("exploit", exploits), ("cheat of tasks", cheats), ("attack on a judge", attacks)):
        Table([Column(title), Column("group", rank=1), Column("aim", least=24, wraps=True)], [*rows]).print()


_MEANINGS = {
    "held": "no exploit or cheat earned a reward, and no control failed",
    "not held": "an exploit or cheat earned a reward or got none at all, or a control failed",
    "undecided": "some attempts have no verdict; run it again",
}


def _document(finished: RedteamRun, source: str) -> dict[str, Any]:
    from sandrl.rewards import result_document
    from sandrl.runs.cards import card_document

    report = finished.report
    return {
        "job_id": finished.end.job_id,
        "run": str(finished.end.path),
        "tasks": [_task_document(task) for task in finished.tasks],
        "cards": [card_document(card) for card in finished.cards],
        "exploits": [
            {
                "name": tally.exploit.name,
                "group": tally.exploit.group,
                "aim": tally.exploit.aim,
                "attempts": tally.attempts,
                "rewarded": tally.rewarded,
                "partly": tally.partly,
                "statuses": tally.statuses,
            }
            for tally in report.tallies()
        ],
        "rewarded": [
            {"exploit": attempt.exploit.name, **result_document(attempt.result)} for attempt in report.rewarded
        ],
        "excused": [{"exploit": attempt.exploit.name, **result_document(attempt.result)} for attempt in report.excused],
        "disturbed": [result_document(result) for result in report.disturbed],
        "judge_attacks": [
            {
                "attack": each.attack.name,
                "task_id": each.task_id,
                "control": each.control,
                "grade": each.grade,
                "rewarded": each.is_rewarded,
            }
            for each in finished.judged
        ],
        "summary": {
            "source": source,
            "problems": {target.problem.task_id: target.kind for target in report.targets},
            "left_out": report.left_out,
            "unfit": [result.task_id for result in report.unfit],
            "exploits": len(report.tallies()),
            "attempts": len(report.attempts),
            "rewarded": len(report.rewarded),
            "tasks": len(finished.tasks),
            "cheats": len({each.cheat.name for task in finished.tasks for each in task.attempts}),
            "cheated": [task.task_id for task in finished.tasks if task.earned],
            "unscorable": len(finished.unscorable),
            "neighbours": len(report.neighbours),
            "excused": len(report.excused),
            "disturbed": len(report.disturbed),
            "unfinished": finished.end.unfinished,
        },
    }


def _task_document(task: TaskAttack) -> dict[str, Any]:
    from sandrl.runs.cards import card_document

    return {
        "task_id": task.task_id,
        **({} if task.card is None else card_document(task.card)),
        "attempts": [
            {
                "cheat": each.cheat.name,
                "group": each.cheat.group,
                "reward": each.result.reward,
                "applies": each.applies,
                "earned": each.earned,
                "stopped_by": list(each.stopped_by),
                "status": each.result.status,
                "detail": each.result.detail,
            }
            for each in task.attempts
        ],
    }


def _print_tasks(tasks: Sequence[TaskAttack]) -> None:
    table = cards_table(task.card for task in tasks if task.card is not None)
    if table.rows:
        table.print()
    print_first([line for task in tasks for line in _cheat_lines(task)])
    attempts = [attempt for task in tasks for attempt in task.attempts]
    tried = sum(each.is_scored for each in attempts)
    idle = sum(not each.applies for each in attempts)
    typer.echo(f"Cheats that earned a reward: {sum(each.earned for each in attempts)} of {tried}")
    note(f"Cheats that found nothing to do in a machine: {idle}")


def _cheat_lines(task: TaskAttack) -> Iterator[str]:
    # One for each way to stop them, so that a hundred cheats of one kind are one line.
    found: dict[tuple[str, ...], list[CheatAttempt]] = {}
    for attempt in task.earned:
        found.setdefault(attempt.stopped_by, []).append(attempt)
    for settings, attempts in found.items():
        names = ", ".join(each.cheat.name for each in attempts)
        advice = "; ".join(dict.fromkeys(each.cheat.advice for each in attempts))
        stopped = f"stopped by {', '.join(settings)}" if settings else f"stopped by no setting; advice: {advice}"
        yield f"{visible(task.task_id)}: {names} earned a reward, {stopped}"


def _print_judged(attempts: Sequence[JudgeAttempt]) -> None:
    deceived = [each for each in attempts if each.is_rewarded]
    print_first(
        [
            f"Raised grade: {each.attack.name} on {visible(each.task_id)}: {each.control:.1f} to {each.grade:.1f}"
            for each in deceived
        ]
    )
    lost = sum(each.grade is None or each.control is None for each in attempts)
    typer.echo(f"Attacks on the judge that raised a grade: {len(deceived)} of {len(attempts)} ({lost} without a grade)")


def _print_report(report: RedteamReport) -> None:
    titles, *rows = _exploit_rows(report) if is_verbose() else _group_rows(report)
    Table([Column(title, least=16 if title == "statuses" else None, wraps=True) for title in titles], [*rows]).print()
    rewarded = [(attempt.exploit.name, attempt.result) for attempt in report.rewarded]
    print_first([f"Rewarded: {name} on {visible(each.task_id)} (trust: {each.trust})" for name, each in rewarded])
    print_first(
        [
            f"Failed control: {visible(each.task_id)}: {each.status}: {visible(each.detail, 200)}"
            for each in report.disturbed
        ]
    )
    results = [attempt.result for attempt in report.attempts]
    typer.echo("Statuses of the attempts: " + _counted(result.status for result in results))
    typer.echo("Trust of the verdicts: " + _counted(result.trust or "nothing ran" for result in results))
    typer.echo(
        f"Rewarded: {len(report.rewarded)} of {len(report.attempts)} attempts ({len(report.tallies())} exploits)"
    )
    if report.excused:
        typer.echo(f"Exploits without a reward (null) instead of 0.0: {len(report.excused)}")
    controls = len(report.neighbours)
    typer.echo(
        f"Failed controls: {len(report.disturbed)} of {controls} (correct solutions that run beside the exploits)"
    )
    if report.unscorable:
        typer.echo(f"Unscorable: {len(report.unscorable)} (their sandboxes failed)")
    if report.unfit:
        typer.echo(
            "References that fail without exploits: " + ", ".join(visible(each.task_id) for each in report.unfit)
        )


def _group_rows(report: RedteamReport) -> list[tuple[str, ...]]:
    groups: dict[str, list[int]] = {}
    for tally in report.tallies():
        groups.setdefault(tally.exploit.group, []).append(tally.rewarded)
    rows = [(name, str(len(rewarded)), str(sum(rewarded))) for name, rewarded in groups.items()]
    return [("group", "exploits", "rewarded"), *rows]


def _exploit_rows(report: RedteamReport) -> list[tuple[str, ...]]:
    rows = [
        (
            tally.exploit.name,
            str(tally.attempts),
            str(tally.rewarded),
            ", ".join(f"{count} {status}" for status, count in tally.statuses.items()),
        )
        for tally in report.tallies()
    ]
    return [("exploit", "attempts", "rewarded", "statuses"), *rows]


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common()) or "none"


def _verdict(finished: RedteamRun) -> str:
    report = finished.report
    if (
        report.rewarded
        or report.excused
        or report.disturbed
        or any(task.earned or task.fault for task in finished.tasks)
        or any(each.is_rewarded for each in finished.judged)
    ):
        return "not held"
    return "undecided" if finished.unscorable or finished.end.unfinished else "held"
