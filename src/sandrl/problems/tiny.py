"""The problems of the tiny policy: generated, and few enough for a model of a third of a million parameters.

A problem is a combination of a kind of task, a function name and a number. The held-out ones are combinations that
training never shows, made of parts that it does show. The checks of a kind distinguish it from every other kind with
every other number, because a policy that is rewarded for the wrong function learns that function.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sandrl.problems.problem import Problem

SPLITS = ("train", "test")
"""One problem in five of each kind is held out for `test`."""

NUMBERS = range(2, 10)
FUNCTION_NAMES = ("solve", "compute", "work", "step", "make", "task")

_HELD_OUT = 5
_FEWEST_CHECKS = 2
_NO_NUMBER = 0

Function: TypeAlias = Callable[[Any, int], Any]


@dataclass(frozen=True, slots=True)
class TinyKind:
    """A kind of task.

    Attributes:
        argument: What the function takes: `n`, `text` or `items`.
        asked: What the function returns, in words; `{k}` stands for the number.
        function: What is right, computed; of the argument and the number.
    """

    name: str
    argument: str
    asked: str
    body: str
    mistake: str
    function: Function

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers it comes with; 0 stands for none."""
        return NUMBERS if "{k}" in self.asked else (_NO_NUMBER,)


KINDS = (
    TinyKind("plus", "n", "n plus {k}", "n + {k}", "n - {k}", lambda x, k: x + k),
    TinyKind("minus", "n", "n minus {k}", "n - {k}", "{k} - n", lambda x, k: x - k),
    TinyKind("times", "n", "n times {k}", "n * {k}", "n + {k}", lambda x, k: x * k),
    TinyKind("remainder", "n", "the remainder of n divided by {k}", "n % {k}", "n // {k}", lambda x, k: x % k),
    TinyKind("quotient", "n", "n divided by {k}, rounded down", "n // {k}", "n / {k}", lambda x, k: x // k),
    TinyKind("power", "n", "n to the power of {k}", "n ** {k}", "n * {k}", lambda x, k: x**k),
    TinyKind("at-least", "n", "n, but at least {k}", "max(n, {k})", "min(n, {k})", lambda x, k: max(x, k)),
    TinyKind("at-most", "n", "n, but at most {k}", "min(n, {k})", "max(n, {k})", lambda x, k: min(x, k)),
    TinyKind("above", "n", "whether n is greater than {k}", "n > {k}", "n < {k}", lambda x, k: x > k),
    TinyKind("below", "n", "whether n is less than {k}", "n < {k}", "n > {k}", lambda x, k: x < k),
    TinyKind("multiple", "n", "whether n is a multiple of {k}", "n % {k} == 0", "n % {k} > 0", lambda x, k: x % k == 0),
    TinyKind("distance", "n", "how far n is from {k}", "abs(n - {k})", "n - {k}", lambda x, k: abs(x - k)),
    TinyKind("repeat", "text", "text repeated {k} times", "text * {k}", "text[:{k}]", lambda x, k: x * k),
    TinyKind("first", "text", "the first {k} letters of text", "text[:{k}]", "text[{k}:]", lambda x, k: x[:k]),
    TinyKind("last", "text", "the last {k} letters of text", "text[-{k}:]", "text[:-{k}]", lambda x, k: x[-k:]),
    TinyKind("reverse", "text", "text backwards", "text[::-1]", "text[1:]", lambda x, _: x[::-1]),
    TinyKind("upper", "text", "text in upper case", "text.upper()", "text.lower()", lambda x, _: x.upper()),
    TinyKind("count", "items", "how often {k} is in items", "items.count({k})", "len(items)", lambda x, k: x.count(k)),
    TinyKind("contains", "items", "whether {k} is in items", "{k} in items", "{k} not in items", lambda x, k: k in x),
    TinyKind("append", "items", "items with {k} at the end", "items + [{k}]", "[{k}] + items", lambda x, k: [*x, k]),
    TinyKind("total", "items", "the sum of items", "sum(items)", "len(items)", lambda x, _: sum(x)),
    TinyKind("length", "items", "the length of items", "len(items)", "sum(items)", lambda x, _: len(x)),
    TinyKind("sort", "items", "items in ascending order", "sorted(items)", "items[::-1]", lambda x, _: sorted(x)),
)

_INPUTS: dict[str, tuple[Any, ...]] = {
    "n": (*range(1, 13), 20, 27, 31, 54),
    "text": ("pineapples", "sandboxing", "grapefruit", "blackberry", "watermelon", "clementine"),
    "items": (
        *([2, 5, 2, 8, 2], [3, 9, 3, 1], [4, 7, 4, 0, 6], [5, 1, 5, 9], [6, 2, 6, 3, 6], [7, 4, 0, 7]),
        *([8, 3, 8, 5], [9, 6, 1, 9, 9], [1, 0], [4, 3, 2], [9, 8, 7, 6], [5]),
    ),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A combination: a kind of task with a function name and a number, 0 where the kind has none."""

    kind: TinyKind
    function_name: str
    number: int

    @property
    def task_id(self) -> str:
        """For example `plus-7-solve`, or `sort-solve`."""
        return "-".join(str(part) for part in (self.kind.name, self.number, self.function_name) if part)

    @property
    def right(self) -> str:
        return self._code(self.kind.body)

    @property
    def wrong(self) -> str:
        return self._code(self.kind.mistake)

    def to_problem(self) -> Problem:
        kind, name = self.kind, self.function_name
        return Problem(
            task_id=self.task_id,
            prompt=f"Write `{name}({kind.argument})`: it returns {kind.asked.format(k=self.number)}.",
            tests=tuple(
                f"assert {name}({given!r}) == {kind.function(given, self.number)!r}"
                for given in _telling_inputs(kind, self.number)
            ),
            entry_point=name,
            reference=self.right,
        )

    def _code(self, body: str) -> str:
        return f"def {self.function_name}({self.kind.argument}):\n    return {body.format(k=self.number)}\n"


@functools.cache
def tasks(split: str | None = None) -> tuple[Task, ...]:
    """All tasks, or those of a split (one of `SPLITS`), mixed but always in the same order."""
    chosen = [task for kind in KINDS for task in _of_split(kind, split)]
    return tuple(sorted(chosen, key=_position))


def _of_split(kind: TinyKind, split: str | None) -> list[Task]:
    combinations = [Task(kind, name, number) for name in FUNCTION_NAMES for number in kind.numbers]
    combinations.sort(key=_position)
    if split is None:
        return combinations
    return [task for place, task in enumerate(combinations) if (place % _HELD_OUT == 0) == (split == "test")]


def _position(task: Task) -> bytes:
    return hashlib.sha256(task.task_id.encode()).digest()


# The fewest inputs, found greedily, on which no other function of the set and no constant is right.
@functools.cache
def _telling_inputs(kind: TinyKind, number: int) -> tuple[Any, ...]:
    inputs = _INPUTS[kind.argument]
    answers = [kind.function(given, number) for given in inputs]
    # What each rival answers to each input.
    rivals: list[Sequence[Any]] = [inputs, *([answer] * len(inputs) for answer in answers)]
    others = [(other, each) for other in KINDS if other.argument == kind.argument for each in other.numbers]
    others.remove((kind, number))
    rivals += [[other.function(given, each) for given in inputs] for other, each in others]
    chosen: list[int] = []
    while rivals or len(chosen) < _FEWEST_CHECKS:
        left = (position for position in range(len(inputs)) if position not in chosen)
        refuted = {place: sum(rival[place] != answers[place] for rival in rivals) for place in left}
        best = max(refuted, key=refuted.__getitem__)
        rivals = [rival for rival in rivals if rival[best] == answers[best]]
        chosen.append(best)
    return tuple(inputs[position] for position in chosen)
