"""Checks that are calls of a function: the arguments, and the value that the function must return.

A call is kept as the source of Python literals. So it is hashable like every other check, and it can hold values that
JSON has no form for (tuples, sets, complex numbers) and that some sets need. A call without an expected value must
return the same value as the problem's reference: sets for differential testing have inputs alone.
"""

from __future__ import annotations

import ast
import cmath
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sandrl.errors import InputError
from sandrl.syntax import parse_expression

SOLUTION = "Solution"
"""The class whose method is called where a completion defines no such function: the form of LeetCode's answers."""

_FUNCTION = re.compile(r"(?:(?P<owner>[^\W\d]\w*)(?:\(\))?\.)?(?P<name>[^\W\d]\w*)")
_MOST_NESTED = 100
# Lists of numbers are the same in Python and in JSON.
_NUMBERS = re.compile(r"[\[\]\d\s,.eE+-]*")
_SHOWN_AS_THEY_ARE = frozenset({int, bool, str})
_NAN = "nan"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function.

    Attributes:
        arguments: Its positional arguments, as the source of a list or tuple of literals.
        expected: The value that it must return, as the source of a literal; None for the value of the reference.
        name: Its name in results, for example `plus_input[3]`; empty for none.
    """

    arguments: str
    expected: str | None
    name: str = ""

    @classmethod
    def of(cls, arguments: Sequence[Any], expected: object) -> Call:
        if not isinstance(arguments, list | tuple):
            raise InputError("must be a list of arguments and the value to return", field="[0]")
        return cls(literal(list(arguments), "[0]", takes_nan=True), literal(expected, "[1]"))

    @classmethod
    def asking(cls, arguments: Sequence[Any], *, name: str = "") -> Call:
        """The call with these arguments, which must return what the problem's reference returns."""
        return cls(literal(list(arguments), "", takes_nan=True), None, name)

    @classmethod
    def read(cls, arguments: str, expected: str | None, *, name: str = "") -> Call:
        """The call with these values, each a text of Python literals."""
        values = _value_of(arguments, ".arguments")
        if not isinstance(values, list | tuple):
            raise InputError("must be a list of Python literals, as text", field=".arguments")
        known = None if expected is None else literal(_value_of(expected, ".expected"), ".expected")
        return cls(literal(list(values), ".arguments", takes_nan=True), known, name)

    @property
    def values(self) -> tuple[list[Any], Any]:
        """The arguments and the expected value, which is None where the problem's reference decides."""
        return _values(self)

    @property
    def part(self) -> str:
        """The part of its set that it belongs to: its name up to the bracket."""
        return self.name.partition("[")[0]

    def as_assert(self, function: str) -> str:
        """The call as an assert, for whoever reads it."""
        arguments = self.arguments[1:-1].removesuffix(",")
        expected = f"reference.{function}({arguments})" if self.expected is None else self.expected
        return f"assert {function}({arguments}) == {expected}"


@lru_cache(maxsize=65536)
def _values(call: Call) -> tuple[list[Any], Any]:
    return list(_read(call.arguments)), None if call.expected is None else _read(call.expected)


class _Numbers(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Constant(math.nan), node) if node.id == _NAN else node


def _read(source: str) -> Any:
    # Long lists of numbers are common, and a syntax tree of one takes 50 times as long.
    if _NUMBERS.fullmatch(source):
        with suppress(ValueError, RecursionError):
            return json.loads(source)
    return _evaluated(source)


def _evaluated(source: str) -> Any:
    tree = parse_expression(source.strip())
    return ast.literal_eval(_Numbers().visit(tree) if _NAN in source else tree)


def _value_of(source: str, field: str) -> Any:
    try:
        return _evaluated(source)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise InputError("must be Python literals, as text", field=field) from None


def function_of(fn: str) -> tuple[str, str]:
    """The class and the function in `name`, `Class.name` or `Class().name`; `Solution` where no class is named."""
    found = _FUNCTION.fullmatch(fn.strip())
    if found is None:
        raise InputError("must be the name of a function, or Class.method", field="fn")
    return found["owner"] or SOLUTION, found["name"]


def expression_of(fn: str) -> str:
    """What calls a function, in source: `name`, or `Class().name`."""
    owner, name = function_of(fn)
    return name if "." not in fn else f"{owner}().{name}"


def literal(value: object, field: str, depth: int = 0, *, takes_nan: bool = False) -> str:
    """The source of a plain value, which may hold NaN only with `takes_nan`."""
    if depth > _MOST_NESTED:
        raise InputError("is nested too deep", field=field)

    def inner(each: object) -> str:
        return literal(each, field, depth + 1, takes_nan=takes_nan)

    if value is None or isinstance(value, bool):
        return repr(value)
    for kind in (str, bytes, int):
        if isinstance(value, kind):
            return _written(kind, value, field)
    if isinstance(value, float):
        if math.isnan(value):
            if takes_nan:
                return _NAN
            raise InputError("holds NaN, which is not equal to any value", field=field)
        return float.__repr__(value) if math.isfinite(value) else ("1e999" if value > 0 else "-1e999")
    if isinstance(value, complex):
        if not cmath.isfinite(value):
            raise InputError("holds a complex number that is not finite", field=field)
        # A literal cannot hold each sign of a zero: `-5j` is read as -0.0-5j, which Python shows as `(-0-5j)`.
        shown = complex.__repr__(complex(value.real + 0.0, value.imag + 0.0))
        return f"(0{shown})" if shown.startswith("-") else shown
    if type(value) is list and _is_shown_as_it_is(value):
        return _written(list, value, field)
    if isinstance(value, list):
        return f"[{', '.join(map(inner, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(inner, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, set | frozenset):
        _refuse_sets_in(value, field)
        return f"{{{', '.join(sorted(map(inner, value)))}}}" if value else "set()"
    if isinstance(value, Mapping):
        _refuse_sets_in(value, field)
        return f"{{{', '.join(f'{inner(key)}: {inner(each)}' for key, each in value.items())}}}"
    raise InputError(f"holds a value of the type {type(value).__name__}, for which Python has no literal", field=field)


def _is_shown_as_it_is(values: list[Any]) -> bool:
    kinds = set(map(type, values))
    return kinds <= _SHOWN_AS_THEY_ARE or (kinds == {float} and all(map(math.isfinite, values)))


# The literal of a text, an integer or a list of them; of a subclass (an enumeration), that of the plain value.
def _written(kind: type[object], value: object, field: str) -> str:
    try:
        return kind.__repr__(value)
    except ValueError as error:
        raise InputError("holds an integer with too many digits", field=field) from error


def _refuse_sets_in(values: object, field: str) -> None:
    for each in values if isinstance(values, set | frozenset | tuple | Mapping) else ():
        if isinstance(each, frozenset):
            raise InputError("holds a set within a set, or as a key, which has no literal", field=field)
        if isinstance(each, tuple):
            _refuse_sets_in(each, field)


class Comparison(StrEnum):
    """How results of calls are compared.

    Those of EvalPlus compare with `==`, for which a tuple and a list are different. A result of the same type may also
    be near: `|result - expected| <= absolute + 1e-7 * |expected|` for each number in it. That holds for all calls if
    the problem has a tolerance, and else with 1e-6 from the first call of a part on that must return a float, or a list
    or tuple of floats.
    """

    PLAIN = "plain"
    """Equal, where a tuple counts as a list; numbers within the tolerance, if there is one."""
    EVALPLUS = "evalplus"
    """As above."""
    EVALPLUS_SET = "evalplus-set"
    """Equal as sets."""
    EVALPLUS_NOT_NONE = "evalplus-not-none"
    """A result that is not None where the reference's is not, and None where it is; True and False stand for these."""
    EVALPLUS_ANYTHING = "evalplus-anything"
    """Every value passes, if the call returns: its task has no right answer."""
    EVALPLUS_ZERO = "evalplus-zero"
    """Equal, or 0: its task may or may not count the number itself as a divisor."""
    EVALPLUS_SURFACE = "evalplus-surface"
    """Equal, or the surface of a pyramid with the two arguments as edge and perpendicular height, rounded."""
    EVALPLUS_DIGITS = "evalplus-digits"
    """Equal, or the sum of the differences of the digits of the two arguments, aligned at the right."""
    EVALPLUS_ROOT = "evalplus-root"
    """A root of the polynomial whose coefficients are the argument: its value there is 0 within the tolerance."""
