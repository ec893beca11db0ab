"""Rows of MultiPL-E (arXiv:2208.08227): a function begun in some language, and tests that are appended to its body.

The tests of some languages begin with the end of the function, and may end with that of its class, so an answer is
joined to both (`answers/assembly.py`). An answer's body ends where its function does, which is what `stop_tokens` stand
for: they are checked, and nothing else is needed of them.
"""

from __future__ import annotations

from sandrl.errors import InputError
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.languages import language_named
from sandrl.problems.problem import Problem


class MultiPlERow(FormatRow):
    language: str
    prompt: str
    tests: str
    stop_tokens: list[str]

    def to_problem(self, name: str) -> Problem:
        language = language_named(self.language)
        if not self.tests.strip("} \n"):
            raise InputError("checks nothing", field="tests")
        return Problem(task_id=name, prompt=self.prompt, tests=(self.tests,), language=language.name)


MULTIPL_E = Format(
    "MultiPL-E", (("prompt",), ("tests",), ("language",), ("stop_tokens",)), MultiPlERow, is_python=False
)
