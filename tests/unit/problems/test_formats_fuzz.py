"""Rows with fields dropped, of other types, nested wrongly and truncated: each is a problem, or one clear error."""

from __future__ import annotations

import base64
import contextlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.format_examples import EXAMPLES, Example
from tests.support.math_rows import MATH_ROWS
from tests.support.repository_rows import REPOSITORY_ROWS

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems import load_problems
from sandrl.problems.formats import FORMATS, parse_problem
from sandrl.problems.formats.texts import unpacked

_TEXTS = st.text(max_size=20) | st.sampled_from(
    ["", " ", "{", "[]", "[1]", "null", '{"inputs": 1}', '[{"input": "1"}]', "eJxrYJnqwcgABrVTengy", "def f(", "\0"]
)
_NAMES = (
    *("input", "output", "inputs", "outputs", "fn_name", "type", "testtype", "stdin", "stdout", "language"),
    *("test_cases", "ground_truth", "role", "content", "func_name", "code", "entry_point", "solution"),
)
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3),
    max_leaves=6,
)


def _damaged(draw: st.DrawFn, value: Any) -> Any:
    """A value with one place in it dropped, replaced, nested or truncated; of JSON text, the JSON in it, too."""
    if isinstance(value, str) and value[:1] in ("{", "[") and draw(st.booleans()):
        try:
            return json.dumps(_damaged(draw, json.loads(value)))
        except ValueError:
            return value  # cut off before
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 3)) == 0:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: _damaged(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        position = draw(st.integers(0, len(value) - 1))
        changed = [] if draw(st.integers(0, 3)) == 0 else [_damaged(draw, value[position])]
        return [*value[:position], *changed, *value[position + 1 :]]
    if isinstance(value, str) and draw(st.booleans()):
        return value[: draw(st.integers(0, len(value)))]
    return draw(st.sampled_from([[value], {"a": value}])) if draw(st.integers(0, 3)) == 0 else draw(_VALUES)


@st.composite
def _rows(draw: st.DrawFn) -> dict[str, Any]:
    rows = [*MATH_ROWS.values(), *REPOSITORY_ROWS.values(), *(each.row for each in EXAMPLES)]
    row: dict[str, Any] = dict(draw(st.sampled_from(rows)))
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(row)))
        damaged = {} if draw(st.integers(0, 3)) == 0 else {name: _damaged(draw, row[name])}
        row = {key: value for key, value in row.items() if key != name} | damaged
        if not row:
            break
    return row


def test_every_format_has_an_example() -> None:
    assert {each.format for each in EXAMPLES} | MATH_ROWS.keys() | REPOSITORY_ROWS.keys() == {
        each.name for each in FORMATS
    }


@pytest.mark.parametrize("name", REPOSITORY_ROWS)
def test_a_row_about_a_repository_is_of_its_format(name: str) -> None:
    assert parse_problem(Row(1, dict(REPOSITORY_ROWS[name])), "rows.jsonl").format.name == name


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.row["task_id"] for example in EXAMPLES])
def test_an_example_is_of_its_format_and_has_answers_in_three_styles_and_wrong_ones(example: Example) -> None:
    assert parse_problem(Row(1, dict(example.row)), "examples.jsonl").format.name == example.format
    assert (len(example.right) >= 3, len(example.wrong) >= 2) == (True, True)


@given(_rows())
@example({"task_id": "a", "responses_create_params": {"input": []}, "verifier_metadata": 1})
@settings(max_examples=400, deadline=None)
def test_a_damaged_row_is_a_problem_or_one_error_that_names_file_and_line(row: dict[str, Any]) -> None:
    with contextlib.suppress(InputError):
        problem = parse_problem(Row(3, row), "rows.jsonl", "rows").problem
        assert (problem.check_count > 0, bool(problem.task_id)) == (True, True)
        return
    with pytest.raises(InputError, match=r"^rows\.jsonl:3: .{,1000}$"):
        parse_problem(Row(3, row), "rows.jsonl", "rows")


@pytest.mark.parametrize("position", range(len(EXAMPLES)))
def test_a_line_that_is_cut_off_anywhere_is_refused_by_its_line(tmp_path: Path, position: int) -> None:
    path = tmp_path / "p.jsonl"
    text = json.dumps(EXAMPLES[position].row)
    for end in range(1, len(text), max(len(text) // 20, 1)):
        path.write_text(text[:end])
        with pytest.raises(InputError) as caught:
            load_problems(path)
        assert caught.value.message.startswith(f"{path}:1: broken JSON")


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x80\x04", b"\x80\x04\x8c"]))
@settings(max_examples=500, deadline=None)
def test_whatever_is_packed_is_read_or_refused(data: bytes, begin: bytes) -> None:
    # Nothing else may be raised.
    with contextlib.suppress(InputError):
        unpacked(base64.b64encode(zlib.compress(begin + data)).decode(), "tests")
