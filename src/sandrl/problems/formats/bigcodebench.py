"""Rows of BigCodeBench (arXiv:2406.15877): a prompt that the solution continues, and a `unittest.TestCase`."""

from __future__ import annotations

from sandrl.errors import InputError
from sandrl.problems.fields import Identifier
from sandrl.problems.formats.humaneval import preamble
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.imports import third_party_imports
from sandrl.problems.problem import Problem


class BigCodeBenchRow(FormatRow):
    complete_prompt: str
    test: str
    entry_point: Identifier
    canonical_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        return continued(
            name, self.complete_prompt, self.test, self.entry_point, self.canonical_solution, prelude=self.prelude
        )


def continued(
    name: str, prompt: str, test: str, entry_point: str, solution: str | None, *, prelude: str = ""
) -> Problem:
    """The problem of a prompt that is continued, with a file of tests that run where the solution does."""
    try:
        return Problem(
            task_id=name,
            prompt=prompt,
            tests=(test,),
            setup=preamble(prompt, entry_point),
            entry_point=entry_point,
            reference=None if solution is None else prompt + solution,
            prelude=prelude,
            packages=third_party_imports(prompt, test, prompt + (solution or "")),
        )
    except InputError as error:
        field = error.field and error.field.replace("tests[0]", "test", 1)
        raise InputError(error.reason, field=field, hint=error.hint) from None


BIGCODEBENCH = Format("BigCodeBench", (("complete_prompt",), ("test",), ("entry_point",)), BigCodeBenchRow)
