"""Rows of AceCode (arXiv:2502.01718), and of sets like it: a question, and asserts or inputs and outputs."""

from __future__ import annotations

from typing import Any

from sandrl.problems.formats.messages import Prompt
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.verl import problem_of_truth
from sandrl.problems.problem import Problem


class AceCodeRow(FormatRow):
    question: Prompt
    test_cases: Any = None
    tests: Any = None

    def to_problem(self, name: str) -> Problem:
        field = "tests" if self.test_cases is None else "test_cases"
        return problem_of_truth(name, self.question, getattr(self, field), field, self.prelude)


ACE_CODE = Format("AceCode", (("question",), ("test_cases", "tests")), AceCodeRow)
