"""Shows what a validation has found: the references that fail, the cards of tasks, and what is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from sandrl.cli.scores import (
    disagreement_lines,
    held_line,
    names_line,
    opinions_line,
    reason_lines,
    result_line,
)
from sandrl.cli.tables import Cell, Column, Table, print_wrapped
from sandrl.cli.text import share_text, visible
from sandrl.cli.verbosity import first, note, print_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandrl.rewards import Validation
    from sandrl.runs.cards import Card

_COUNTS = {"statuses": "Statuses of the references", "trust": "Trust of the verdicts"}
_WRONG = "red"


def validation_document(finished: Validation) -> dict[str, Any]:
    """What `--json` prints."""
    from sandrl.rewards import report_document, result_document
    from sandrl.runs.cards import card_document
    from sandrl.scoring.document import opinions_document

    finished = finished.with_checks()
    opinions = opinions_document(finished.report.summary)
    if opinions:
        opinions["in_process_reasons"] = finished.in_process_reasons
    document = report_document(finished.report)
    summary = finished.report.summary
    document["summary"] = {
        "source": finished.request.source,
        "n": summary.n,
        "passed": summary.passed,
        "unscorable": summary.unscorable,
        "without_reference": finished.without_reference,
        "without_solution": list(finished.without_solution),
        "pass_rate": summary.pass_rate,
        **finished.counts(),
        "failed": [result.task_id for result in finished.failed],
        "in_process": list(finished.in_process),
        "invalid": finished.invalid,
        "accepted_stubs": {task_id: list(stubs) for task_id, stubs in finished.accepted_stubs.items()},
        **opinions,
        "seconds": round(finished.seconds, 3),
    }
    if finished.nothing:
        document["nothing"] = [result_document(result) for result in finished.nothing]
    document["tasks"] = [card_document(card) for card in finished.cards.values()]
    document["run"] = str(finished.end.path)
    return document


def print_validation(finished: Validation) -> None:
    """Prints what was found on standard output."""
    from sandrl.judge.weak_checks import stub_words

    # Runs of one reference that fail alike are one line.
    failed = {(result.task_id, result.status, result.detail): result for result in reversed(finished.failed)}
    print_first([result_line(result) for result in reversed(failed.values())])
    summary = finished.report.summary
    if summary.n:
        rate = "" if summary.pass_rate is None else f" ({summary.pass_rate:.1%})"
        typer.echo(f"References that pass: {summary.passed}/{summary.scored}{rate}, in {finished.seconds:.1f} s")
    if finished.report.held is not None:
        note(held_line(finished.report.held))
    for name, counts in finished.counts().items():
        if counts:
            typer.echo(f"{_COUNTS[name]}: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    if finished.in_process:
        typer.echo(
            names_line("Judged in one process (their checks cannot run apart from the code)", finished.in_process)
        )
    if cards := finished.task_cards:
        _print_cards(cards, frozenset(finished.without_solution))
    print_first([f"Invalid: {visible(task_id)}: {visible(why)}" for task_id, why in finished.invalid.items()])
    if finished.accepted_stubs:
        typer.echo(names_line("Checks that accept an answer that does no work", tuple(finished.accepted_stubs)))
        accepted = finished.accepted_stubs.items()
        print_first([f"  {visible(task_id)}: {visible(stub_words(stubs))}" for task_id, stubs in accepted])
    if summary.second_opinion is not None:
        for line in reason_lines(finished.in_process_reasons):
            typer.echo(line)
        typer.echo(opinions_line(summary.second_opinion, "references that fail isolated"))
        for line in disagreement_lines(finished.report.results, hint="--json"):
            typer.echo(line)


def _print_cards(cards: Sequence[Card], without_solution: frozenset[str]) -> None:
    table = Table(
        [
            Column("task"),
            Column("oracle"),
            Column("nop"),
            Column("flakes"),
            Column("seconds", rank=1, is_number=True),
            Column("unknown", rank=2, least=16, wraps=True),
        ]
    )
    shown = first(cards)
    for card in shown:
        flakes = "unknown"
        if card.flake_rate is not None:
            flakes = share_text(card.flake_rate, card.flake_low, card.flake_high)
        no_oracle = "no solution" if card.task_id in without_solution else "no reward"
        oracle = f"{card.oracle_passes}/{card.oracle_runs}" if card.oracle_runs else no_oracle
        table.add(
            visible(card.task_id),
            Cell(oracle, _WRONG if card.oracle_passes < card.oracle_runs else ""),
            Cell("no reward" if card.nop is None else f"{card.nop:g}", _WRONG if card.nop else ""),
            Cell(flakes, _WRONG if card.flake_rate else ""),
            f"{sum(card.seconds.values()):.1f}",
            ", ".join(card.unknown),
        )
    table.print()
    if len(shown) < len(cards):
        typer.echo(f"  … and {len(cards) - len(shown)} more of at least this quality: --verbose shows all")
    print_wrapped("Not measured by a validation: cheats and mutants; sandrl redteam tries them")
