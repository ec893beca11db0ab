"""Rows of EvalPlus: HumanEval+ v0.1.10 and MBPP+ v0.2.0 (arXiv:2305.01210), inputs without expected values.

Each input is a call that must return what the reference returns, `base_input` first, compared as PyPI
`evalplus` 0.3.1 compares. The task id says what JSON has lost of an input (a tuple, a set, a complex number), and with
the entry point how results are compared. The tables hold facts about the tasks, read from that package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sandrl.errors import InputError
from sandrl.jsonl import type_name
from sandrl.problems.calls import Call, Comparison
from sandrl.problems.fields import Identifier, Margin
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.problem import Problem, Tolerance

TIMEOUT_SECONDS = 60.0
"""For all inputs of a problem, as EvalPlus allows for each of the two parts."""

_Rebuild: TypeAlias = Callable[[Any], Any]


class EvalPlusRow(FormatRow):
    task_id: Identifier
    prompt: str
    canonical_solution: str
    entry_point: Identifier
    base_input: list[Any]
    plus_input: list[Any]
    atol: Margin = 0.0

    def to_problem(self, name: str) -> Problem:
        if not (self.base_input or self.plus_input):
            raise InputError("has no inputs, and neither has plus_input", field="base_input")
        if not self.entry_point.isidentifier():
            raise InputError(f"must be the name of a function, not {self.entry_point!r:.40}", field="entry_point")
        comparisons = _COMPARISONS.get(_set_of(self.task_id), {})
        calls = [*self._calls("base_input", self.base_input), *self._calls("plus_input", self.plus_input)]
        return Problem(
            task_id=name,
            prompt=self.prompt,
            fn=self.entry_point,
            calls=tuple(calls),
            comparison=comparisons.get(self.entry_point, Comparison.EVALPLUS),
            tolerance=Tolerance(absolute=self.atol) if self.atol else None,
            reference=self.prompt + self.canonical_solution,
            timeout_seconds=TIMEOUT_SECONDS,
            prelude=self.prelude,
        )

    def _calls(self, field: str, inputs: Sequence[Any]) -> list[Call]:
        calls = []
        for position, given in enumerate(inputs):
            place = f"{field}[{position}]"
            if not isinstance(given, list | tuple):
                raise InputError(f"must be an array of arguments, not {type_name(given)}", field=place)
            try:
                calls.append(Call.asking(rebuilt(self.task_id, given), name=place))
            except RecursionError:
                raise InputError("is nested too deep", field=place) from None
            except (TypeError, ValueError):
                raise InputError(f"does not match the arguments of {self.task_id}", field=place) from None
            except InputError as error:
                raise InputError(error.reason, field=place) from None
        return calls


def rebuilt(task_id: str, arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a task with what JSON has lost; `TypeError` or `ValueError` if they are none of this task."""
    shapes = _SHAPES.get(_number_of(task_id), (_same,)) if _set_of(task_id) == _MBPP else (_same,)
    # The last shape is that of all arguments from there on.
    return [shapes[min(position, len(shapes) - 1)](argument) for position, argument in enumerate(arguments)]


def _set_of(task_id: str) -> str:
    return task_id.partition("/")[0]


def _number_of(task_id: str) -> int:
    number = task_id.rpartition("/")[2]
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def _same(value: Any) -> Any:
    return value


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _list_of_tuples(value: Any) -> Any:
    return list(map(_tuple, value)) if isinstance(value, list) else value


def _tuple_of_tuples(value: Any) -> Any:
    return _tuple(_list_of_tuples(value))


def _tuples_throughout(value: Any) -> Any:
    return tuple(map(_tuples_throughout, value)) if isinstance(value, list) else value


def _list_of_sets(value: Any) -> Any:
    # An empty one is written as `{}`, which is a dictionary, and that is what solutions are given.
    return [set(each) if isinstance(each, list) and each else {} for each in value]


def _values_as_tuples(value: Any) -> Any:
    return {key: _tuple(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def _shapes() -> dict[int, tuple[_Rebuild, ...]]:
    numbers: list[tuple[str, tuple[_Rebuild, ...]]] = [
        ("2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809", (_tuple,)),
        ("63 64 70 94 120 237 272 299 400 409 417 438 473 614 780", (_list_of_tuples,)),
        ("75 413 444 753", (_list_of_tuples, _same)),
        ("106 750", (_same, _tuple)),
        ("115", (_list_of_sets,)),
        ("124", (float, complex)),
        ("250 405 446 617 720 763 808 307", (_tuple, _same)),
        ("259 401 445 278", (_tuple_of_tuples,)),
        ("722", (_values_as_tuples, _same)),
        ("252", (complex,)),
        ("580 615 791", (_tuples_throughout,)),
    ]
    return {int(number): shapes for words, shapes in numbers for number in words.split()}


_MBPP = "Mbpp"
_SHAPES = _shapes()
_SETS = (
    "similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum", "intersection_array",
    "find_dissimilar", "Diff",
)  # fmt: skip
_COMPARISONS: dict[str, dict[str, Comparison]] = {
    "HumanEval": {"find_zero": Comparison.EVALPLUS_ROOT},
    _MBPP: {
        **dict.fromkeys(_SETS, Comparison.EVALPLUS_SET),
        **dict.fromkeys(("check_str", "text_match_three", "text_starta_endb"), Comparison.EVALPLUS_NOT_NONE),
        "are_equivalent": Comparison.EVALPLUS_ANYTHING,
        "sum_div": Comparison.EVALPLUS_ZERO,
        "surface_Area": Comparison.EVALPLUS_SURFACE,
        "digit_distance_nums": Comparison.EVALPLUS_DIGITS,
    },
}

# EvalPlus' own evaluation leaves the asserts of MBPP out, too.
EVALPLUS = Format("EvalPlus", (("base_input", "plus_input"),), EvalPlusRow, ignored=frozenset({"assertion"}))
