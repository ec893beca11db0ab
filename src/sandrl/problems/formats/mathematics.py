r"""Rows of sets of mathematical problems, whose answers are compared by math-verify.

The answer is a field of its own, or it stands in a worked solution: after `####` as in GSM8K, or in the last
`\boxed{}` as in MATH. Sets for training name it as a ground truth (`training_sets.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from sandrl.errors import InputError
from sandrl.problems.formats.row import Format, FormatRow, Prompt
from sandrl.problems.problem import Problem

_MARK = "####"
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_SETS = re.compile(r"(?<![a-z])(?:math|gsm8k|aime|amc|olympiad|numina|minerva)|(?<![a-z])dapo", re.IGNORECASE)


class Gsm8kRow(FormatRow):
    """Rows of GSM8K: the answer is a solution in words that ends with `#### NUMBER`."""

    question: str
    answer: str

    def to_problem(self, name: str) -> Problem:
        solution, _, answer = self.answer.rpartition(_MARK)
        if not answer.strip():
            raise InputError(f"has no answer after {_MARK}", field="answer")
        reference = f"{solution.rstrip()}\n\\boxed{{{answer.strip()}}}"
        return Problem(name, self.question, answer=answer.strip(), reference=reference)


GSM8K = Format(
    "GSM8K",
    (("question",), ("answer",)),
    Gsm8kRow,
    accepts=lambda value: isinstance(value["answer"], str) and _MARK in value["answer"],
    is_python=False,
)


class MathRow(FormatRow):
    r"""Rows of MATH and of sets like it: an `answer`, or a `solution` whose last `\boxed{}` is the answer."""

    problem: str
    solution: str | None = None
    answer: str | int | float | None = None

    def to_problem(self, name: str) -> Problem:
        answer = "" if self.answer is None else str(self.answer).strip()
        return Problem(name, self.problem, answer=answer or last_boxed(self.solution or "", "solution"))


def _has_answer(value: Mapping[str, Any]) -> bool:
    answer, solution = value.get("answer"), value.get("solution")
    is_text = isinstance(answer, str | int | float) and not isinstance(answer, bool)
    return is_text or (isinstance(solution, str) and _BOXED.search(solution) is not None)


MATH = Format("MATH", (("problem",), ("answer", "solution")), MathRow, accepts=_has_answer, is_python=False)


class AimeRow(FormatRow):
    """Rows of sets of the AIME whose fields have capital letters."""

    question: str = Field(alias="Problem")
    answer: str | int = Field(alias="Answer")

    def to_problem(self, name: str) -> Problem:
        return Problem(name, self.question, answer=str(self.answer).strip())


AIME = Format("AIME", (("Problem",), ("Answer",)), AimeRow, is_python=False)


def last_boxed(text: str, field: str) -> str:
    r"""The content of the last `\boxed{}` of a text.

    Raises:
        InputError: If there is none, or its braces do not match.
    """
    opening = next(reversed(list(_BOXED.finditer(text))), None)
    if opening is None:
        raise InputError("has no \\boxed{} with the answer, and the row has no `answer`", field=field)
    depth = 1
    for end in range(opening.end(), len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return text[opening.end() : end].strip()
    raise InputError("has a \\boxed{} that is not closed", field=field)


def is_mathematics(*names: object) -> bool:
    """Whether words of a row (its set, its ability) say that its ground truth is an answer, and no tests."""
    texts = [text for name in names for text in (name if isinstance(name, list) else [name]) if isinstance(text, str)]
    return any(_SETS.search(text) for text in texts)


def answered(name: str, prompt: Prompt, truth: object, field: str) -> Problem:
    """The problem of a prompt and of an answer.

    Raises:
        InputError: If the answer is no text and no number.
    """
    if isinstance(truth, list) and len(truth) == 1:
        truth = truth[0]
    if isinstance(truth, bool) or not isinstance(truth, str | int | float):
        raise InputError("must be an answer, as text or a number", field=field)
    text = str(truth).strip()
    return Problem(name, prompt, answer=last_boxed(text, field) if _BOXED.search(text) else text)
