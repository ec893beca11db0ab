"""`sandrl problems cards`, and the table of cards that other commands also print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.completion import values
from sandrl.cli.output import Json, print_json
from sandrl.cli.tables import Column, Table, print_wrapped
from sandrl.cli.text import counted, share_text, visible
from sandrl.config.parts import LANGUAGE_HELP, MAP_HELP
from sandrl.config.words import VerifierPlace
from sandrl.settings import Settings, load_settings

if TYPE_CHECKING:
    from sandrl.runs.cards import Card, CardSet

ResumeMeasuring = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Resume this run: judge what has no result in it.",
        autocompletion=values.run_names,
    ),
]
"""The option of commands that measure problems."""


def cards(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SET|FILE|RUN]",
            help="The problems, a run that has measured some, or a file of cards; default: all that was ever measured.",
            autocompletion=values.problem_sets,
        ),
    ] = None,
    place: Annotated[
        str | None,
        typer.Option(
            "--cards",
            metavar="RUN|FILE|DIR",
            help="Show the measurements of this run, or in this file or directory. Default: the user's record.",
            autocompletion=values.run_names,
        ),
    ] = None,
    verifier: Annotated[
        VerifierPlace | None,
        typer.Option(
            "--verifier",
            help="Show what is known for runs with this option: a cheat that it stops does not count, and the solution"
            " must earn 1 there. Default: `task` for a set, and all cards of a run or a file as they were measured.",
        ),
    ] = None,
    fields: Annotated[str | None, typer.Option("--map", metavar="FIELD=PATH,…", help=MAP_HELP)] = None,
    language: Annotated[str | None, typer.Option("--language", metavar="NAME", help=LANGUAGE_HELP)] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Skip and count unusable rows instead of stopping.")
    ] = False,
    json_: Json = False,
) -> None:
    """Show the measured quality of problems, weakest first."""
    from sandrl.runs.cards import CardSet, card_document

    pairs = tuple(fields.split(",")) if fields else ()
    found = _found(source, place, load_settings(), pairs, language, verifier, skip_bad_rows=skip_bad_rows)
    if found.note:
        typer.echo(f"warning: {visible(found.note)}", err=True)
    of_set = CardSet.of(found.cards, found.names)
    have = {card.task_id for card in found.cards}
    without = [name for name in found.names if name not in have]
    if json_:
        tasks = [card_document(card) for card in weakest_first(found.cards)]
        print_json({"source": source, "set": of_set.document(), "tasks": tasks, "without_card": without})
        return
    for line in set_lines(of_set):
        typer.echo(line)
    table = cards_table(found.cards)
    for name in without:
        table.add(visible(name), *["-"] * (len(table.columns) - 1))
    if table.rows:
        table.print()
    failed = [card for card in found.cards if card.quality is None and card.null_reason]
    for card in failed:
        typer.echo(f"No reward: {visible(card.task_id)}: {visible(card.null_reason)}")
    if of_set.measured + len(failed) < of_set.problems and source is not None:
        message = f"Measure the others: sandrl problems validate {source}, then sandrl redteam --problems {source}"
        print_wrapped(message, err=True)


def weakest_first(cards: Iterable[Card]) -> list[Card]:
    """Cards in the order of their quality; those without any come last."""
    return sorted(cards, key=lambda each: (each.quality is None, each.quality, each.task_id))


def quality_text(card: Card) -> str:
    """The quality of a problem, with a sign that it is an upper bound as long as a part is unknown."""
    if card.quality is None:
        return "-"
    return f"{'≤ ' if card.unknown else ''}{card.quality:.2f}"


def cards_table(cards: Iterable[Card]) -> Table:
    """A row for each problem, the weakest first: its quality, and what is known of each part."""
    cards = weakest_first(cards)
    has_settings = any(card.verifier != VerifierPlace.TASK for card in cards)
    table = Table(
        [
            Column("id"),
            *([Column("verifier")] if has_settings else []),
            Column("quality", is_number=True),
            Column("weakest"),
            Column("oracle", rank=2, is_number=True),
            Column("nop", rank=2, is_number=True),
            Column("flake", rank=4),
            Column("cheats", rank=1, is_number=True),
            Column("mutants", rank=3, is_number=True),
            Column("seconds", rank=6, is_number=True),
            Column("unknown", rank=5),
        ]
    )
    for card in cards:
        flake = "-" if card.flake_rate is None else share_text(card.flake_rate, card.flake_low, card.flake_high)
        table.add(
            visible(card.task_id),
            *([visible(card.verifier)] if has_settings else []),
            quality_text(card),
            card.weakest or "-",
            f"{card.oracle_passes}/{card.oracle_runs}" if card.oracle_runs else "-",
            "-" if card.nop is None else f"{card.nop:g}",
            flake,
            f"{len(card.cheats)}/{card.cheats_tried}" if card.cheats_tried else "-",
            "-" if card.mutation_score is None else f"{card.mutation_score:.0%}",
            f"{sum(card.seconds.values()):.1f}" if card.seconds else "-",
            ", ".join(card.unknown) or "-",
        )
    return table


def set_lines(of_set: CardSet) -> list[str]:
    """The card of a set, for people."""
    lines = [f"Problems: {of_set.problems} ({of_set.measured} measured)"]
    if of_set.mean is None or of_set.least is None:
        return lines
    lines.append(f"Quality: at most {of_set.mean:.2f} on average")
    lines.append(f"Lowest: {of_set.least:.2f} ({visible(of_set.least_of or '')})")
    counts = (
        ("Reward an answer that does nothing", of_set.idle),
        ("Reward a cheat", of_set.cheated),
        ("Do not always reward their solution", of_set.unsolvable),
        ("Differ for the same agent", of_set.flaky),
    )
    lines += [f"{words}: {counted(count, 'problem')}" for words, count in counts if count]
    for words, parts in (("Weakest part", of_set.weakest), ("Unknown part", of_set.unknown)):
        if parts:
            lines.append(f"{words}: " + ", ".join(f"{name} {count}" for name, count in parts.items()))
    for place, mean in of_set.under.items():
        stopped = f"{of_set.stopped.get(place, 0)} of {counted(of_set.earning, 'cheat')} stopped"
        lines.append(f"With --verifier {place}: at most {mean:.2f} on average, {stopped}")
    return lines


@dataclass(frozen=True, slots=True)
class _Found:
    cards: Sequence[Card]
    names: Sequence[str]
    note: str = ""


def _found(
    source: str | None,
    place: str | None,
    settings: Settings,
    fields: Sequence[str],
    language: str | None,
    verifier: VerifierPlace | None,
    *,
    skip_bad_rows: bool,
) -> _Found:
    from sandrl.problems import Problem, load_problems
    from sandrl.problems.quality import card_for
    from sandrl.runs.card_record import CardRecord, cards_at
    from sandrl.runs.cards import card_under

    if place is None and source is not None and _names_run(source, settings):
        source, place = None, source
    known = (
        CardRecord(settings.state_dir).read()
        if place is None
        else cards_at(place, settings.state_dir, settings.runs_dir)
    )
    if source is None:
        cards = [*known.values()]
        if verifier is not None:
            digests = dict.fromkeys(card.digest for card in cards)
            cards = [card for digest in digests if (card := card_under(known, digest, verifier)) is not None]
        return _Found(cards, [card.task_id for card in cards])
    names: list[str] = []
    cards = []

    def add(problem: Problem) -> None:
        names.append(problem.task_id)
        card = card_for(problem, known, verifier or VerifierPlace.TASK)
        if card is not None:
            # The same content may have another name elsewhere.
            cards.append(card.model_copy(update={"task_id": problem.task_id}))

    loaded = load_problems(
        source, fields=fields, language=language, skip_bad_rows=skip_bad_rows, only=(), on_problem=add
    )
    return _Found(cards, names, loaded.note)


def _names_run(source: str, settings: Settings) -> bool:
    # A set, a file or a directory of problems comes first; other words may be the name of a run.
    from sandrl.errors import InputError
    from sandrl.problems.sources import named_set
    from sandrl.runs import find_run
    from sandrl.runs.card_record import FILE, begins_with_a_card
    from sandrl.runs.config import CONFIG_FILE

    path = Path(source)
    if path.exists():
        is_lines = path.suffix == ".jsonl" and path.is_file()
        return path.name == FILE or (path / CONFIG_FILE).is_file() or (is_lines and begins_with_a_card(path))
    if named_set(source.partition(":")[0]) is not None:
        return False
    try:
        find_run(source, settings.state_dir, settings.runs_dir)
    except InputError:
        return False
    return True
