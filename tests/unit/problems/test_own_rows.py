"""A problem is the same once it was written as a row of sandrl's own format and read again."""

from __future__ import annotations

import ast
import enum
import gzip
import json
import math
import tempfile
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.format_examples import EXAMPLES as FORMAT_EXAMPLES
from tests.support.format_examples import Example
from tests.support.task_directories import write_task

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems import Call, Case, Comparison, Problem, Tolerance, load_problems, own_row, write_problems
from sandrl.problems.checkers import Checker
from sandrl.problems.formats import parse_problem
from sandrl.problems.tasks.sources import read_task

ASSERT = ("assert f(1) == 2",)
CASE = (Case("1", "2"),)
CALLS = (Call.of([1], 2),)
_PLACE = tempfile.TemporaryDirectory(prefix="task-")
CHECKER = Checker("def check(a, b, c): return 1")

# A problem for each field, in which the field says something.
EXAMPLES: dict[str, Problem] = {
    "task_id": Problem("a/1 \u2028é\x00", "?", tests=ASSERT),
    "prompt": Problem("p", " \ud800\r\n\x00é", tests=ASSERT),
    "tests": Problem("p", "?", tests=("import math", "assert f(1) == math.pi", "def test_f():\n    assert f() == 'é'")),
    "cases": Problem("p", "?", cases=(Case("", "\x00\ud800\r\n"), Case("1", ""))),
    "calls": Problem("p", "?", fn="f", calls=(Call.of([(1,), {2}, {3: 1j}], {"a": [math.inf, b"x"]}), *CALLS)),
    "fn": Problem("p", "?", fn="Stack.size", calls=CALLS),
    "tolerance": Problem("p", "?", cases=CASE, tolerance=Tolerance(1e-9, 0.1)),
    "check": Problem("p", "?", check="exit_status"),
    "setup": Problem("p", "?", tests=ASSERT, setup="import math\n"),
    "entry_point": Problem("p", "?", tests=ASSERT, entry_point="f"),
    "reference": Problem("p", "?", tests=ASSERT, reference=""),
    "timeout_seconds": Problem("p", "?", tests=ASSERT, timeout_seconds=2),
    "check_timeout_seconds": Problem("p", "?", tests=ASSERT, check_timeout_seconds=0.25),
    "prelude": Problem("p", "?", tests=ASSERT, prelude="import math\n"),
    "starter_code": Problem("p", "?", tests=ASSERT, starter_code="def f(n):\n"),
    "language": Problem("p", "?", cases=CASE, language="c++"),
    "packages": Problem("p", "?", tests=ASSERT, packages=("numpy", "torch")),
    "comparison": Problem(
        "p", "?", fn="f", calls=(Call.asking([(1,)], name="a[7]"),), reference="", comparison=Comparison.EVALPLUS_SET
    ),
    "checker": Problem("p", "?", cases=CASE, checker=Checker("import sys\ndef check(a, b, c): return 1", "function")),
    "checker_timeout_seconds": Problem("p", "?", cases=CASE, checker=CHECKER, checker_timeout_seconds=0.5),
    "files": Problem("p", "?", tests=ASSERT, files=(("a.txt", "é".encode()), ("b/c", b"\xff\x00"))),
    "input_file": Problem("p", "?", cases=CASE, input_file="in.txt"),
    "output_file": Problem("p", "?", cases=CASE, output_file="out.txt"),
    "memory_bytes": Problem("p", "?", check="exit_status", memory_bytes=1 << 28),
    "image": Problem("p", "?", check="exit_status", image="python:3.13-slim"),
    "answer": Problem("p", "?", answer="\\frac{1}{2}"),
    "task": Problem("p", "Do it.\n", task=read_task(write_task(Path(_PLACE.name) / "task"))),
}


def again(problem: Problem) -> Problem:
    """The problem of the row of a problem."""
    line = json.dumps(own_row(problem))
    return parse_problem(Row(1, json.loads(line)), "own.jsonl").problem


def test_there_is_an_example_of_every_field_of_a_problem() -> None:
    assert EXAMPLES.keys() == {field.name for field in fields(Problem)}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_field_of_a_problem_is_written_and_read(name: str) -> None:
    problem = EXAMPLES[name]
    default = next(field.default for field in fields(Problem) if field.name == name)
    assert default is MISSING or getattr(problem, name) != default
    assert again(problem) == problem


@pytest.mark.parametrize("example", FORMAT_EXAMPLES, ids=[example.row["task_id"] for example in FORMAT_EXAMPLES])
def test_a_row_of_every_format_is_the_same_problem_once_converted(example: Example) -> None:
    assert again(example.problem) == example.problem


TEXTS = st.text(max_size=30)
KEYS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.binary(max_size=5)
SCALARS = KEYS | st.complex_numbers(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.frozensets(KEYS, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS | st.tuples(KEYS, KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)
SECONDS = st.none() | st.integers(1, 10_000) | st.floats(0.01, 10_000)
MARGINS = st.floats(0, allow_infinity=False, allow_nan=False)
TOLERANCES = st.builds(Tolerance, MARGINS, MARGINS, st.booleans())
CASES = st.lists(st.builds(Case, TEXTS, TEXTS), min_size=1, max_size=3).map(tuple)
CALLED = st.lists(st.builds(Call.of, st.lists(VALUES, max_size=3), VALUES), min_size=1, max_size=3).map(tuple)
TESTED = st.lists(
    st.sampled_from(
        [
            *("assert f(1) == 2", "import math", "assert not f(2)", "x = 3", "assert f('é\\ud800') == x", "(("),
            *("def test_a():\n    assert f(1)", "def helper():\n    return 4", "f(5)", "# comment\nassert f(6)"),
            "import unittest\nclass TestF(unittest.TestCase):\n    def test_b(self):\n        self.assertTrue(f(1))",
        ]
    ),
    min_size=1,
    max_size=4,
)


@st.composite
def problems(draw: st.DrawFn) -> Problem | None:
    """A problem with any fields; None where they make none."""
    kinds: list[dict[str, st.SearchStrategy[Any]]] = [
        {"tests": TESTED, "setup": st.sampled_from(["", "import math", "def helper():\n    return 1\n"])},
        {"cases": CASES, "tolerance": st.none() | TOLERANCES},
        {"calls": CALLED, "fn": st.sampled_from(["f", "A.b", "A().b"]), "tolerance": st.none() | TOLERANCES},
        {"check": st.just("exit_status")},
    ]
    chosen = draw(st.sampled_from(kinds)) | {
        "task_id": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
        "prompt": TEXTS,
        "entry_point": st.none() | TEXTS,
        "reference": st.none() | TEXTS,
        "timeout_seconds": SECONDS,
        "check_timeout_seconds": SECONDS,
        "prelude": st.sampled_from(["", "import math\n", "x = 'é'"]),
        "starter_code": TEXTS,
        "packages": st.lists(st.sampled_from(["numpy", "yaml", "é"]), max_size=2).map(tuple),
    }
    try:
        return Problem(**{name: draw(strategy) for name, strategy in chosen.items()})
    except InputError:
        return None


@pytest.mark.parametrize("value", [complex(0.0, -0.0), complex(-0.0, -0.0), -5j, complex(0.0, -5.0), complex(-2, -0.0)])
def test_the_signs_of_zeros_in_complex_numbers_change_no_literal(value: complex) -> None:
    problem = replace(EXAMPLES["calls"], calls=(Call.of([value], value),))
    assert again(problem) == problem
    assert ast.literal_eval(problem.calls[0].expected or "") == value


@given(problems())
@settings(max_examples=100, deadline=None)
def test_whatever_a_problem_has_it_is_the_same_once_converted(problem: Problem | None) -> None:
    if problem is not None:
        assert again(problem) == problem


@given(st.lists(VALUES, max_size=3), VALUES)
@settings(max_examples=100, deadline=None)
def test_a_call_has_the_very_values_that_it_was_made_with(arguments: list[Any], expected: Any) -> None:
    def typed(value: Any) -> Any:
        if isinstance(value, set | frozenset):
            return ("set", sorted(map(repr, value)))
        if isinstance(value, dict):
            return ("dict", [(repr(key), typed(each)) for key, each in value.items()])
        if isinstance(value, list | tuple):
            return (type(value).__name__, [typed(each) for each in value])
        return (type(value).__name__, value)

    assert typed(list(Call.of(arguments, expected).values)) == typed([arguments, expected])


class Color(enum.IntEnum):
    RED = 1


class Name(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "Name()"


class Ratio(float):
    def __repr__(self) -> str:
        return "Ratio()"


def test_values_of_subclasses_are_plain_values() -> None:
    assert Call.of([Color.RED, Name("a"), Ratio(0.5)], {Name("b"): Color.RED}) == Call.of([1, "a", 0.5], {"b": 1})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({frozenset({1})}, "holds a set within a set, or as a key, which has no literal"),
        ({(1, frozenset({1})): 2}, "holds a set within a set, or as a key, which has no literal"),
        (math.nan, "holds NaN, which is not equal to any value"),
        (10**5000, "holds an integer with too many digits"),
        (complex(0, math.inf), "holds a complex number that is not finite"),
        (object(), "holds a value of the type object, for which Python has no literal"),
    ],
    ids=["set", "key", "nan", "digits", "complex", "object"],
)
def test_a_value_without_a_literal_is_refused(value: object, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        Call.of([math.nan], value)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"arguments": "[f()]", "expected": "2"}, "field 'cases[0].arguments': must be Python literals, as text"),
        ({"arguments": "1", "expected": "2"}, "field 'cases[0].arguments': must be a list of Python literals, as text"),
        ({"arguments": "[]", "expected": "{{}}"}, "field 'cases[0].expected': must be Python literals, as text"),
        ({"arguments": "[]", "expected": 2}, "field 'cases[0].expected': must be a string, not an integer"),
        ({"arguments": "[" * 9999, "expected": "2"}, "field 'cases[0].arguments': must be Python literals, as text"),
        (
            {"arguments": "[1]"},
            "field 'reference': is missing: calls without an expected value",
        ),
    ],
    ids=range(6),
)
def test_a_call_as_text_that_is_none_is_refused_by_its_field(case: dict[str, Any], message: str) -> None:
    row = Row(1, {"task_id": "a", "prompt": "?", "fn": "f", "cases": [case]})
    with pytest.raises(InputError) as caught:
        parse_problem(row, "p.jsonl")
    assert caught.value.message.startswith(f"p.jsonl:1: {message}")


def test_rows_are_written_as_lines_of_json_compressed_where_the_name_says_so(tmp_path: Path) -> None:
    made = [problem for name, problem in EXAMPLES.items() if name in ("task_id", "calls")]
    for name in ("own.jsonl", "own.jsonl.gz"):
        write_problems(made, tmp_path / name)
        assert list(load_problems(tmp_path / name).problems.values()) == made
    assert gzip.decompress((tmp_path / "own.jsonl.gz").read_bytes()) == (tmp_path / "own.jsonl").read_bytes()
    write_problems(made, tmp_path / "again.jsonl.gz")
    assert (tmp_path / "again.jsonl.gz").read_bytes() == (tmp_path / "own.jsonl.gz").read_bytes()
    for name in ("own.parquet", "own.csv", "own.json"):
        with pytest.raises(InputError, match="rows are written as JSON lines"):
            write_problems(made, tmp_path / name)
        assert not (tmp_path / name).exists()
