"""Rows of LiveCodeBench (arXiv:2403.07974): public tests as JSON text, private ones the same, or packed.

Its graders give every solution the names of `preludes.STANDARD`, and compare numbers in outputs as decimals: `1.0` is
`1`. So rows of it have that prelude and a tolerance that nothing but another spelling comes under.
"""

from __future__ import annotations

from typing import Any

from sandrl.errors import InputError
from sandrl.problems.formats.inputs_outputs import Pair, checks_of_pairs, function_of, pairs_of
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import is_packed, json_value, unpacked
from sandrl.problems.preludes import STANDARD
from sandrl.problems.problem import Problem, Tolerance

DECIMALS = Tolerance(absolute=1e-12)
"""How its graders compare numbers."""

_TESTS = ("public_test_cases", "private_test_cases")


class LiveCodeBenchRow(FormatRow):
    question_content: str
    starter_code: str | None = None
    public_test_cases: Any = None
    private_test_cases: Any = None
    metadata: Any = None

    def to_problem(self, name: str) -> Problem:
        function = function_of(self.metadata)
        pairs: list[Pair] = []
        for field in _TESTS:
            if tests := packed_or_json(getattr(self, field), field):
                pairs += pairs_of(tests, field, function=function)
        if not pairs:
            raise InputError("has no tests", field=_TESTS[0])
        return Problem(
            task_id=name,
            prompt=self.question_content,
            starter_code=self.starter_code or "",
            prelude=self.prelude or STANDARD,
            **as_graded(checks_of_pairs(pairs, _TESTS[0], code=self.starter_code or "")),
        )


def packed_or_json(value: Any, field: str) -> Any:
    """The tests in a field: JSON, JSON text or packed."""
    return unpacked(value, field) if is_packed(value) else json_value(value or [], field)


def as_graded(checks: dict[str, Any]) -> dict[str, Any]:
    """Checks with the comparison of numbers that LiveCodeBench's graders have."""
    return {**checks, "tolerance": DECIMALS} if "cases" in checks else checks


LIVE_CODE_BENCH = Format("LiveCodeBench", (("question_content",), _TESTS), LiveCodeBenchRow)
