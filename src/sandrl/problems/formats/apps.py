"""Rows of APPS and TACO: `input_output` is JSON text with inputs and outputs, and perhaps the name of a function."""

from __future__ import annotations

from typing import Any

from sandrl.problems.formats.inputs_outputs import checks_of_pairs, pairs_of, promised_names
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import first_solution
from sandrl.problems.formats.time_limits import check_timeout
from sandrl.problems.problem import Problem


class AppsRow(FormatRow):
    question: str
    input_output: str | dict[str, object]
    starter_code: str | None = None
    solutions: str | list[str] | None = None
    time_limit: Any = None

    def to_problem(self, name: str) -> Problem:
        reference = first_solution(self.solutions, "solutions")
        starter = self.starter_code or ""
        pairs = pairs_of(self.input_output, "input_output")
        checks = checks_of_pairs(pairs, "input_output", code=starter or reference or "")
        return Problem(
            task_id=name,
            prompt=self.question,
            starter_code=starter,
            reference=reference,
            prelude=self.prelude or promised_names(checks, starter or self.question),
            **checks,
            check_timeout_seconds=check_timeout(self.time_limit, "time_limit"),
        )


APPS = Format("APPS/TACO", (("question",), ("input_output",)), AppsRow)
