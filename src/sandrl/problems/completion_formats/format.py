"""A format of completions: how its rows are recognised, and the answers that a row has.

A row is an answer to one problem, or several: the samples of this problem. A format takes the answers from the row; how
a problem is named is the same in all of them, unless a format says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.completion import Completion
from sandrl.problems.known_names import KnownNames
from sandrl.problems.recognition import Recognition

TASK_FIELDS = (
    "task_id", "question_id", "problem_id", "instance_id", "custom_id", "example_id", "id", "name", "task",
)  # fmt: skip
"""Fields that name the problem of a row."""


def answer(
    text: str | None = None, code: str | None = None, loss: str = "", *, reasoning: str = "", tokens: int | None = None
) -> Completion:
    """A completion of a row, before it has a name and a problem."""
    return Completion("", "", text, code, loss, tokens=tokens, reasoning=reasoning)


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    field: str


@dataclass
class ReadContext:
    """What is known while the rows of a source are read.

    Attributes:
        names: The names of all problems; None accepts every name.
        positions: How many rows named their problems by their position alone.
        kept: What a format remembers from one row to the next, by a name of its own.
    """

    names: Collection[str] | None
    line: int = 0
    positions: int = 0
    kept: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def known(self) -> KnownNames | None:
        return None if self.names is None else KnownNames(self.names)

    @cached_property
    def by_position(self) -> tuple[str, ...]:
        return () if self.names is None else tuple(self.names)

    def at(self, position: int, place: str) -> Task:
        """The problem at a position, from 0."""
        if not 0 <= position < len(self.by_position):
            count = f"there are {len(self.by_position)}" if self.names is not None else "they are not known"
            raise InputError(f"is the answer to problem {position + 1} by its position, and {count}", field=place)
        return Task(self.by_position[position], place)


def named_task(value: Mapping[str, Any], reading: ReadContext) -> Task:
    """The problem that a row names: by the first field whose value is the name of a problem, or else the first."""
    found = [Task(str(name), each) for each in TASK_FIELDS if _is_name(name := value.get(each))]
    if not found:
        place = next((each for each in TASK_FIELDS if each in value), TASK_FIELDS[0])
        raise InputError("must be a string that is not empty, or an integer", field=place)
    if reading.known is None or "task_id" in value:
        return found[0]
    return next((each for each in found if each.name in reading.known), found[0])


def _is_name(value: object) -> bool:
    return (isinstance(value, str) and 0 < len(value) <= 1000) or (
        isinstance(value, int) and value is not True and value is not False
    )


@dataclass(frozen=True, slots=True)
class CompletionFormat(Recognition):
    """A format: the answers of a row, and the problem that it names."""

    answers: Callable[[Mapping[str, Any], ReadContext], list[Completion]]
    task: Callable[[Mapping[str, Any], ReadContext], Task] = named_task


_REASONS = ("finish_reason", "finish_reasons", "stop_reason", "stop_reasons")
# Where services and tools put the choices of an answer, from the outside in.
_AROUND_CHOICES = ("response", "result", "output", "body")


def finish_reasons(value: Mapping[str, Any], count: int) -> list[str | None]:
    """Why the answers of a row ended, as far as it says so."""
    at: object = value
    while isinstance(at, Mapping):
        choices = at.get("choices")
        told = choices if isinstance(choices, list) else [at]
        reasons = [_reason(each) for each in told]
        if len(reasons) == 1 and isinstance(reasons[0], list):
            reasons = reasons[0]
        if len(reasons) == count and any(reasons):
            return [each if isinstance(each, str) else None for each in reasons]
        at = next((at[name] for name in _AROUND_CHOICES if isinstance(at.get(name), Mapping)), None)
    return [None] * count


def _reason(value: object) -> Any:
    return next((found for name in _REASONS if isinstance(value, Mapping) and (found := value.get(name))), None)
