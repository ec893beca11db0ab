"""`sandrl redteam`: runs the corpus of exploits on the user's problems, and reports those that earn a reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli import results
from sandrl.cli.configured import configured
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
    from sandrl.redteam import RedteamReport
    from sandrl.runs.held import SandboxTime


@configured(RedteamConfig)
def redteam(
    config: RedteamConfig,
    *,
    list_: Annotated[bool, typer.Option("--list", help="List the exploits and exit.")] = False,
    dry_run: DryRun = False,
    json_: Json = False,
) -> None:
    """Run exploits against the judge and your problems.

    Exits with 1 if an exploit earns a reward or gets a null reward instead of 0.0, or if a control (a correct solution)
    fails.
    """
    from sandrl.redteam import EXPLOITS, EXPLOITS_IN_CPP, run_redteam

    if list_:
        every = (*EXPLOITS, *EXPLOITS_IN_CPP)
        columns = [Column("exploit"), Column("group", rank=1), Column("aim", least=24, wraps=True)]
        Table(columns, [(each.name, each.group, each.aim) for each in every]).print()
        return
    if dry_run:
        from sandrl.redteam.run import estimate_redteam

        print_estimate(estimate_redteam(config, load_settings()), json_output=json_)
        return
    finished = carry_out(run_redteam, config, results.choose(json_output=True))
    if json_:
        print_json(_document(finished.report, config.problems))
    else:
        _print_report(finished.report, finished.held)
    finished.raise_for_outcome()


_MEANINGS = {
    "held": "no exploit earned a reward, and no control failed",
    "not held": "an exploit earned a reward or got none at all, or a control failed",
    "undecided": "some attempts have no verdict; run it again",
}


def _document(report: RedteamReport, source: str) -> dict[str, Any]:
    from sandrl.rewards import result_document

    return {
        "job_id": report.job_id,
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
        "summary": {
            "source": source,
            "problems": {target.problem.task_id: target.kind for target in report.targets},
            "left_out": report.left_out,
            "unfit": [result.task_id for result in report.unfit],
            "exploits": len(report.tallies()),
            "attempts": len(report.attempts),
            "rewarded": len(report.rewarded),
            "unscorable": len(report.unscorable),
            "neighbours": len(report.neighbours),
            "excused": len(report.excused),
            "disturbed": len(report.disturbed),
            "unfinished": report.unfinished,
        },
    }


def _print_report(report: RedteamReport, held: SandboxTime) -> None:
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
    note(held_line(held))
    verdict = _verdict(report)
    typer.echo(f"Verdict: {verdict} ({_MEANINGS[verdict]})")


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


def _verdict(report: RedteamReport) -> str:
    if report.rewarded or report.excused or report.disturbed:
        return "not held"
    return "undecided" if report.unscorable or report.unfinished else "held"
