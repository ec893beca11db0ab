"""Warns the commands that reward answers of problems that are known to reward other things than a solution.

The record of cards (`sandrl.runs.card_record`) says which: a warning follows the problem wherever its file is, and ends
when its content changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sandrl.config.words import VerifierPlace
from sandrl.errors import InputError
from sandrl.events import Emit, Warned
from sandrl.judge.stubs import stub_words
from sandrl.problems import Problem
from sandrl.problems.quality import card_for
from sandrl.runs.card_record import CardRecord
from sandrl.runs.cards import Card

_MOST_WARNINGS = 10


def warn_of_weak_problems(problems: Iterable[Problem], state_dir: Path, emit: Emit, place: VerifierPlace) -> None:
    """Warns of each problem with a known weakness, up to ten of them, and of the number of others.

    Args:
        place: Where shared verifiers run: a cheat that this stops is none.
    """
    record = CardRecord(state_dir)
    if record.is_empty:
        return  # before the problems are read, which may be many
    try:
        known = record.read()
    except InputError:
        return
    if not any(any(_faults(card)) for card in known.values()):
        return
    more = 0
    for number, (problem, card) in enumerate(_weak(problems, known, place)):
        if number < _MOST_WARNINGS:
            what = "verifier" if problem.task is not None else "checks"
            emit(Warned(f"the {what} of {problem.task_id} {'; '.join(_faults(card))}"))
        else:
            more += 1
    if more:
        message = f"the checks or verifiers of {more} more problems are also known to be weak"
        emit(Warned(message, "list them: sandrl problems cards"))


def _weak(
    problems: Iterable[Problem], known: Mapping[str, Card], place: VerifierPlace
) -> Iterator[tuple[Problem, Card]]:
    for problem in problems:
        card = card_for(problem, known, place)
        if card is not None and any(_faults(card)):
            yield problem, card


def _faults(card: Card) -> Iterator[str]:
    if card.stubs:
        yield f"accepted an answer that does no work: {stub_words(card.stubs)}"
    elif card.nop is not None and card.nop > 0:
        yield f"rewarded an agent that does nothing with {card.nop:g}"
    if card.cheats:
        best = max(card.cheats, key=lambda each: each.reward)
        more = f", and {len(card.cheats) - 1} more" if len(card.cheats) > 1 else ""
        yield f"rewarded the cheat {best.name} with {best.reward:g}{more}"
    if card.flake_rate:
        yield f"ended otherwise than usual in {card.flake_rate:.0%} of {card.flake_runs} runs"
    if failures := card.oracle_runs - card.oracle_passes:
        yield f"gave its own solution less than 1 in {failures} of {card.oracle_runs} runs"
