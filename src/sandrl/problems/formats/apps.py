"""Rows of APPS and TACO: `input_output` is JSON text with inputs and outputs, and perhaps the name of a function."""

from __future__ import annotations

from typing import Any

from sandrl.problems.formats.inputs_outputs import problem_of_pairs
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import first_solution
from sandrl.problems.problem import Problem


class AppsRow(FormatRow):
    question: str
    input_output: str | dict[str, object]
    starter_code: str | None = None
    solutions: str | list[str] | None = None
    time_limit: Any = None

    def to_problem(self, name: str) -> Problem:
        return problem_of_pairs(
            name,
            self.question,
            self.input_output,
            "input_output",
            starter=self.starter_code or "",
            reference=first_solution(self.solutions, "solutions"),
            prelude=self.prelude,
            time_limit=self.time_limit,
        )


APPS = Format("APPS/TACO", (("question",), ("input_output",)), AppsRow)
