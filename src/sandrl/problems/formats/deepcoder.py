"""Rows of DeepCoder-Preview: `problem`, and `tests` as an array, an object with inputs and outputs, or JSON text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sandrl.problems.formats.inputs_outputs import function_of, problem_of_pairs
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import first_solution, json_value, without_fence
from sandrl.problems.formats.verl import problem_of_truth
from sandrl.problems.problem import Problem


class DeepCoderRow(FormatRow):
    problem: str
    tests: str | list[Any] | dict[str, Any]
    starter_code: str | None = None
    solutions: str | list[str] | None = None
    metadata: Any = None

    def to_problem(self, name: str) -> Problem:
        function = function_of(self.metadata)
        starter = self.starter_code or ""
        reference = without_fence(first_solution(self.solutions, "solutions"))
        tests = json_value(self.tests, "tests") if self.tests else []
        if isinstance(tests, list) and tests and all(isinstance(each, str) for each in tests):
            problem = problem_of_truth(name, self.problem, tests, "tests", self.prelude)
            return replace(problem, starter_code=starter, reference=reference)
        return problem_of_pairs(
            name,
            self.problem,
            tests,
            "tests",
            function=function,
            starter=starter,
            reference=reference,
            prelude=self.prelude,
        )


DEEPCODER = Format("DeepCoder", (("problem",), ("tests",)), DeepCoderRow)
