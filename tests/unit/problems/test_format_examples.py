"""The table of examples has every format."""

from __future__ import annotations

import pytest
from tests.support.format_examples import EXAMPLES, Example

from sandrl.jsonl import Row
from sandrl.problems.formats import FORMATS, parse_problem


def test_every_format_that_is_judged_has_an_example() -> None:
    judged = {each.name for each in FORMATS}
    assert {example.format for example in EXAMPLES} == judged


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.row["task_id"] for example in EXAMPLES])
def test_an_example_is_of_its_format_and_has_answers_in_three_styles_and_wrong_ones(example: Example) -> None:
    parsed = parse_problem(Row(1, dict(example.row)), "examples.jsonl")
    assert parsed.format.name == example.format
    assert len(example.right) >= 3
    assert len(example.wrong) >= 2
