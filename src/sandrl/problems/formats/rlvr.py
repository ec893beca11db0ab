"""Rows of open-instruct's sets for code (RLVR): messages as the prompt, and tests as `ground_truth`."""

from __future__ import annotations

from typing import Any

from sandrl.problems.formats.messages import Prompt
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.verl import problem_of_truth
from sandrl.problems.problem import Problem

_FIELD = "ground_truth"


class RlvrRow(FormatRow):
    messages: Prompt | None = None
    prompt: Prompt | None = None
    ground_truth: Any

    def to_problem(self, name: str) -> Problem:
        truth = self.ground_truth
        # The set for several verifiers has one text for each of them.
        if isinstance(truth, list) and len(truth) == 1 and isinstance(truth[0], str) and truth[0].startswith("["):
            truth = truth[0]
        prompt = self.messages if self.messages is not None else self.prompt
        return problem_of_truth(name, prompt or "", truth, _FIELD, self.prelude)


RLVR = Format(
    "RLVR",
    (("messages", "prompt"), (_FIELD,)),
    RlvrRow,
    accepts=lambda value: value.keys().isdisjoint(("tests", "cases", "check")),
)
