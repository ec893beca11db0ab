"""Chooses the problems of a run by their quality, which was measured before: `sandrl.runs.cards`.

A quality is an upper bound, since a part that was not measured can only lower it. A problem without a card is left out.
A card that lacks parts is enough: a warning says how many tasks were never tried with cheats. A run keeps the cards
that it has used, so it has the same problems when it is resumed, also if the record has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from sandrl.config.words import VerifierPlace
from sandrl.errors import InputError, ServiceError
from sandrl.events import Emit, Warned
from sandrl.files import write_whole
from sandrl.problems.problem import Problem
from sandrl.runs.card_record import FILE, CardRecord, cards_at, cards_of_run
from sandrl.runs.cards import Card, card_under
from sandrl.runs.resumption import content_digest
from sandrl.settings import Settings

_SHOWN = 3


def card_digest(problem: Problem) -> str:
    """Stands for the content that the card of a problem is about: of a task all its files, else its checks."""
    return content_digest(problem.check_content) if problem.task is None else problem.task.digest


def setting_of(problem: Problem, place: VerifierPlace) -> VerifierPlace:
    """Where the verifiers of a problem run if a run says `place`: where its task says, unless they are shared."""
    is_shared = problem.task is not None and problem.task.has_shared_verifier
    return place if is_shared else VerifierPlace.TASK


def card_for(problem: Problem, cards: Mapping[str, Card], place: VerifierPlace) -> Card | None:
    """What is known about a problem in a run whose shared verifiers run at `place`.

    Args:
        cards: By their `key`.
    """
    return card_under(cards, card_digest(problem), setting_of(problem, place))


class _Configuration(Protocol):
    @property
    def min_quality(self) -> float | None: ...

    @property
    def cards(self) -> str | None: ...

    @property
    def verifier_place(self) -> VerifierPlace: ...


@dataclass(slots=True)
class QualityFilter:
    """Accepts the problems whose quality is not too low, and remembers the others.

    Attributes:
        least: The lowest quality that is accepted.
        cards: What is known, by `key`.
        place: Where shared verifiers run: a cheat that this stops does not count.
        used: The cards of the problems that it was asked about, by `key`.
        names: The `task_id`s that it was asked about, in their order.
        low: The `task_id`s of problems with a lower quality; `unmeasured` those of problems without any.
        untried: How many accepted tasks were never tried with cheats.
    """

    least: float
    cards: Mapping[str, Card]
    place: VerifierPlace = VerifierPlace.TASK
    used: dict[str, Card] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    accepted: int = 0
    low: dict[str, float] = field(default_factory=dict)
    unmeasured: dict[str, None] = field(default_factory=dict)
    untried: int = 0

    @classmethod
    def of(cls, config: _Configuration, settings: Settings, *, resume: Path | None = None) -> Self | None:
        """The filter that a configuration asks for; None if it asks for none.

        Args:
            resume: The directory of the run to resume, whose cards are used.

        Raises:
            InputError: If there are no cards where they should be.
        """
        if config.min_quality is None:
            return None
        cards = {} if resume is None else cards_of_run(resume)
        if not cards and config.cards is not None:
            cards = cards_at(config.cards, settings.state_dir, settings.runs_dir)
        elif not cards:
            cards = CardRecord(settings.state_dir).read()
        return cls(config.min_quality, cards, config.verifier_place)

    def accepts(self, problem: Problem) -> bool:
        self.names[problem.task_id] = None
        card = card_for(problem, self.cards, self.place)
        quality = None if card is None else card.quality
        if card is None or quality is None:
            self.unmeasured[problem.task_id] = None
            return False
        self.used[card.key] = card
        if quality < self.least:
            self.low[problem.task_id] = quality
            return False
        self.accepted += 1
        self.untried += problem.task is not None and card.parts["cheats"] is None
        return True

    def why_left_out(self, task_id: str) -> str | None:
        """Why a problem is none of the run, in a few words; None if it was not left out."""
        if task_id in self.low:
            return f"its quality is {self.low[task_id]:.2f}, lower than min_quality {self.least:g}"
        return "its quality was not measured" if task_id in self.unmeasured else None

    @property
    def left_out(self) -> int:
        """How many problems it has not accepted."""
        return len(self.low) + len(self.unmeasured)

    @property
    def summary(self) -> str:
        """How many problems were left out, and the first ones; empty if none was."""
        left_out = self.left_out
        if not left_out:
            return ""
        kinds = ((f"quality lower than {self.least:g}", self.low), ("not measured", self.unmeasured))
        parts = [f"{words}: {len(names)} ({_first(names)})" for words, names in kinds if names]
        return f"{left_out} of {self.accepted + left_out} problems are left out; {'; '.join(parts)}"

    def check_some_left(self, source: str | Path) -> None:
        """Makes sure that it is not the reason why nothing of a source is left.

        Raises:
            InputError: If it has left out a problem.
        """
        if self.summary:
            raise InputError(
                f"no problem is left by min_quality: {self.summary}",
                path=source,
                hint=_next_command(source),
                fields=("min_quality",),
            )

    def tell(self, source: str | Path, emit: Emit) -> None:
        """Warns of the problems that were left out, and of those whose quality says little."""
        if self.summary:
            emit(Warned(self.summary, _next_command(source)))
        if self.untried:
            message = (
                f"{self.untried} of {self.accepted} problems were never tried with cheats: their quality is unsure"
            )
            emit(Warned(message, f"try them: sandrl redteam --problems {source}"))

    def keep(self, run: Path) -> None:
        """Keeps the cards in a run directory, unless it has some.

        Raises:
            ServiceError: If they cannot be written.
        """
        path = run / FILE
        try:
            if not path.exists():
                write_whole(path, (card.to_json() + b"\n" for card in self.used.values()))
        except OSError as error:
            raise ServiceError(f"{path}: cannot be written: {error.strerror}") from error


def _first(names: Mapping[str, object]) -> str:
    shown = ", ".join([*names][:_SHOWN])
    return f"{shown}, …" if len(names) > _SHOWN else shown


def _next_command(source: str | Path) -> str:
    return (
        f"measure them: sandrl problems validate {source}, then sandrl redteam --problems {source}; show what is known:"
        f" sandrl problems cards {source}"
    )
