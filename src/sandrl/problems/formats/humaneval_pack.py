"""Rows of HumanEvalPack (arXiv:2308.07124): HumanEval in six languages, which the task id names (`CPP/0`).

Its graders run solution and test as one program. In JavaScript, a failed `console.assert` must end it.
"""

from __future__ import annotations

from pydantic import Field

from sandrl.errors import InputError
from sandrl.problems.fields import Identifier
from sandrl.problems.formats.humaneval import checked
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.languages import PYTHON, find_language
from sandrl.problems.problem import Problem

_JAVASCRIPT = "javascript"
_STRICT = "console.assert = (holds, ...said) => { if (!holds) throw new Error(`assertion failed ${said.join(' ')}`); };"
_NEEDS = {"go": "the package testify", "rust": "cargo and crates"}


class HumanEvalPackRow(FormatRow):
    task_id: Identifier
    prompt: str
    declaration: str
    canonical_solution: str
    test: str
    entry_point: Identifier
    imports: str | None = Field(default=None, alias="import")
    test_setup: str | None = None

    def to_problem(self, name: str) -> Problem:
        found = find_language(self.task_id.partition("/")[0])
        language = PYTHON if found is None else found.name
        if language in _NEEDS:
            raise InputError(f"is {language}, whose tests need {_NEEDS[language]}: not supported", field="task_id")
        begin = f"{self.imports}\n" if self.imports else ""
        reference = f"{begin}{self.declaration}{self.canonical_solution}"
        test = "\n".join(part for part in (self.test_setup, self.test) if part and part.strip())
        if language == PYTHON:
            return checked(name, begin + self.prompt, test, self.entry_point, reference, prelude=self.prelude)
        if language == _JAVASCRIPT:
            test = f"{_STRICT}\n{test}"
        return Problem(
            task_id=name,
            prompt=begin + self.prompt,
            tests=(test,),
            entry_point=self.entry_point,
            reference=reference,
            language=language,
        )


HUMANEVAL_PACK = Format(
    "HumanEvalPack",
    (("declaration",), ("prompt",), ("canonical_solution",), ("test",), ("entry_point",)),
    HumanEvalPackRow,
    ignored=frozenset({"example_test"}),
)
