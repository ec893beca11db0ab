"""How far a judge agrees with people: its grades of answers whose grades are known."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandrl.errors import InputError
from sandrl.jsonl import BadRow, read_rows

_AT_ONCE = 16


class Grader(Protocol):
    """Who grades answers."""

    def score(self, task: str, answer: str) -> float | None:
        """The grade of an answer, from 0.0 to 1.0; `None` if there is none."""
        ...


_GOOD = 0.5
"""From this grade on an answer counts as good."""


@dataclass(frozen=True, slots=True)
class Label:
    """An answer with a known grade, from 0.0 to 1.0."""

    task: str
    answer: str
    score: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the grades of a judge agree with those that are known; an answer is good from 0.5 on.

    Attributes:
        labels: How many answers have a known grade.
        graded: How many of these the judge has graded.
        accuracy: The share of these that both call good, or both do not; `None` if none was graded.
        kappa: Cohen's kappa of the same (doi:10.1177/001316446002000104): 0 for the agreement of chance, 1 for all;
            `None` if it is not defined, because both call all of them the same.
        mean_difference: The mean of the judge's grades less the known ones.
    """

    labels: int
    graded: int
    accuracy: float | None
    kappa: float | None
    mean_difference: float | None

    @property
    def text(self) -> str:
        """The same, as a line."""
        if self.accuracy is None:
            return f"it has graded none of {self.labels} labelled answers"
        kappa = "not defined" if self.kappa is None else f"{self.kappa:.2f}"
        return (
            f"it agrees with {self.accuracy:.0%} of {self.graded} labelled answers (kappa {kappa}; mean difference of"
            f" the grades {self.mean_difference:+.2f}), and gave no grade to {self.labels - self.graded}"
        )


def read_labels(path: Path) -> list[Label]:
    """Reads labelled answers: rows with `prompt`, `completion` and `score`, a number from 0 to 1 or a boolean.

    Raises:
        InputError: If a row is not one, or there is none.
    """
    found = []
    for row in read_rows(path):
        if isinstance(row, BadRow):
            raise row.error
        task, answer, score = (row.value.get(name) for name in ("prompt", "completion", "score"))
        if not isinstance(task, str) or not isinstance(answer, str):
            raise InputError("must have `prompt` and `completion`, both texts", path=path, line=row.line)
        if not isinstance(score, int | float) or not 0 <= score <= 1:
            raise InputError("must be a number from 0 to 1, or true or false", path=path, line=row.line, field="score")
        found.append(Label(task, answer, float(score)))
    if not found:
        raise InputError("has no labelled answer", path=path)
    return found


def agreement(judge: Grader, labels: Sequence[Label]) -> Agreement:
    """Has a judge grade labelled answers, and compares.

    Raises:
        AuthenticationError: If the judge's endpoint refuses the key.
        UsageError: If it has no such model.
    """
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sandrl-judge") as threads:
        grades = list(threads.map(lambda label: judge.score(label.task, label.answer), labels))
    pairs = [(grade, label.score) for grade, label in zip(grades, labels, strict=True) if grade is not None]
    if not pairs:
        return Agreement(len(labels), 0, None, None, None)
    count = len(pairs)
    agreed = sum((own >= _GOOD) == (known >= _GOOD) for own, known in pairs) / count
    own_good, known_good = (sum(pair[side] >= _GOOD for pair in pairs) / count for side in (0, 1))
    chance = own_good * known_good + (1 - own_good) * (1 - known_good)
    kappa = None if chance == 1 else (agreed - chance) / (1 - chance)
    difference = sum(own - known for own, known in pairs) / count
    return Agreement(len(labels), count, agreed, kappa, difference)
