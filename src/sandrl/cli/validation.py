"""Shows what a validation has found: the references that fail, the cards of tasks, and what is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from sandrl.cli.cards import cards_table, set_lines, weakest_first
from sandrl.cli.scores import (
    disagreement_lines,
    held_line,
    names_line,
    opinions_line,
    reason_lines,
    result_line,
)
from sandrl.cli.tables import print_wrapped
from sandrl.cli.text import visible
from sandrl.cli.verbosity import first, note, print_first

if TYPE_CHECKING:
    from sandrl.rewards import Validation

_COUNTS = {"statuses": "Statuses of the references", "trust": "Trust of the verdicts"}


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
    from sandrl.judge.stubs import stub_words

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
    if finished.task_cards:
        _print_cards(finished)
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


def _print_cards(finished: Validation) -> None:
    from sandrl.runs.cards import CardSet

    cards = weakest_first(finished.task_cards)
    for line in set_lines(CardSet.of(cards)):
        typer.echo(line)
    shown = first(cards)
    cards_table(shown).print()
    if len(shown) < len(cards):
        typer.echo(f"  … and {len(cards) - len(shown)} more of at least this quality: --verbose shows all")
    if finished.without_solution:
        typer.echo(names_line("Without a solution, so unknown whether they can be solved", finished.without_solution))
    print_wrapped("Cheats and mutants are measured by sandrl redteam")
