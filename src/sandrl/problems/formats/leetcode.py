"""Rows of LeetCodeDataset (arXiv:2504.14655): `check(candidate)`, with imports and helpers as the prompt.

Its graders run prompt, completion and test as one program. The task in words is `query`.
"""

from __future__ import annotations

from sandrl.problems.fields import Identifier
from sandrl.problems.formats.humaneval import checked
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.problem import Problem


class LeetCodeRow(FormatRow):
    prompt: str
    test: str
    entry_point: Identifier
    query: str | None = None
    problem_description: str | None = None
    completion: str | None = None

    def to_problem(self, name: str) -> Problem:
        words = self.query or self.problem_description or ""
        return checked(
            name, self.prompt, self.test, self.entry_point, self.completion or None, prompt=words, prelude=self.prelude
        )


# The inputs and outputs are those of the test.
LEET_CODE = Format(
    "LeetCodeDataset",
    (("prompt",), ("test",), ("entry_point",), ("query", "problem_description")),
    LeetCodeRow,
    ignored=frozenset({"input_output"}),
)
