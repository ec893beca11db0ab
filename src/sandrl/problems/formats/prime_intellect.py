"""Rows of PrimeIntellect's verifiable coding problems and of SYNTHETIC: `verification_info` has the tests."""

from __future__ import annotations

from typing import Any

from sandrl.errors import InputError
from sandrl.problems.formats.inputs_outputs import problem_of_pairs
from sandrl.problems.formats.languages import in_language, named_language
from sandrl.problems.formats.messages import Prompt
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value, without_fence
from sandrl.problems.problem import Problem

_FIELD = "verification_info"


class PrimeIntellectRow(FormatRow):
    prompt: Prompt
    verification_info: str | dict[str, Any]
    gold_standard_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        info = json_value(self.verification_info, _FIELD)
        if not isinstance(info, dict) or "test_cases" not in info:
            raise InputError("must have `test_cases`: only problems with tests are supported", field=_FIELD)
        language = named_language(info.get("language"), f"{_FIELD}.language")
        reference = without_fence(self.gold_standard_solution)
        problem = problem_of_pairs(
            name,
            self.prompt,
            info["test_cases"],
            f"{_FIELD}.test_cases",
            reference=reference,
            code=f"{reference or ''}\n{self.prompt}",
            prelude=self.prelude,
        )
        return in_language(problem, language, f"{_FIELD}.language")


PRIME_INTELLECT = Format(
    "PrimeIntellect", (("prompt",), (_FIELD,)), PrimeIntellectRow, language_path=(_FIELD, "language")
)
