"""Rows of open-r1/codeforces: programs, many of them with a checker, because a case has several right outputs.

Memory is limited as by its graders, and time as in other sets (`time_limits.py`). A checker prints 1 or 0. Without one,
outputs are compared word by word. Where `input_mode` is `file`, an answer reads `input.txt` and writes `output.txt`, or
uses its streams: the graders give it those. A row with too few tests (`executable` is false), and one whose program
talks with another, are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import type_name
from sandrl.problems.checkers import Checker
from sandrl.problems.formats.inputs_outputs import Pair, by_words, checks_of_pairs, pairs_of
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value
from sandrl.problems.formats.time_limits import check_timeout
from sandrl.problems.problem import Case, Problem

_FILES = "file"
_TESTS = ("official_tests", "generated_tests")
_MOST_MEBIBYTES = 1 << 40
_INPUT_FILE, _OUTPUT_FILE = "input.txt", "output.txt"
_IN_FILES = f"Read the input from the file {_INPUT_FILE}, and write the output to the file {_OUTPUT_FILE}."


class CodeforcesRow(FormatRow):
    title: str | None = None
    description: str | None = None
    input_format: str | None = None
    output_format: str | None = None
    interaction_format: str | None = None
    note: str | None = None
    examples: Any = None
    prompt: str | None = None
    official_tests: Any = None
    generated_tests: Any = None
    generated_checker: str | None = None
    input_mode: str | None = None
    executable: bool | None = None
    time_limit: Any = None
    memory_limit: float | None = None

    def to_problem(self, name: str) -> Problem:
        self._refuse_what_cannot_be_judged()
        pairs = [pair for field in _TESTS for pair in _tests(getattr(self, field), field)]
        if not pairs:
            raise InputError("has no tests", field=_TESTS[0])
        checks = by_words(checks_of_pairs(pairs, _TESTS[0]))
        if "cases" not in checks:
            raise InputError("has tests that are not runs of a program", field=_TESTS[0])
        checks["cases"] = tuple(Case(_lines(case.stdin), _lines(case.stdout)) for case in checks["cases"])
        if self.generated_checker:
            checks |= {"checker": Checker.of(self.generated_checker, "generated_checker"), "tolerance": None}
        has_files = self.input_mode == _FILES
        return Problem(
            task_id=name,
            prompt=self._task(has_files),
            prelude=self.prelude,
            check_timeout_seconds=check_timeout(self.time_limit, "time_limit"),
            memory_bytes=_mebibytes(self.memory_limit),
            input_file=_INPUT_FILE if has_files else None,
            output_file=_OUTPUT_FILE if has_files else None,
            **checks,
        )

    def _refuse_what_cannot_be_judged(self) -> None:
        if self.interaction_format:
            raise InputError(
                "its program exchanges messages with another program, which is not supported",
                field="interaction_format",
            )
        if self.executable is False:
            reason = "the row is marked as having too few tests to judge a solution"
            raise InputError(reason, field="executable", hint="leave out such rows with `skip_bad_rows`")
        if self.input_mode not in (None, "", "stdio", "stdin", _FILES):
            raise InputError(f"is {self.input_mode!r:.40}, neither 'stdio' nor 'file'", field="input_mode")

    def _task(self, has_files: bool) -> str:
        if self.prompt:
            return self.prompt
        if not self.description:
            raise InputError("is missing", field="description")
        parts = [("", self.title), ("", self.description), ("Input", self.input_format), ("Output", self.output_format)]
        parts += [("", _IN_FILES if has_files else None), *_examples(self.examples), ("Note", self.note)]
        return "\n\n".join(f"{heading}\n{text.strip()}".strip() for heading, text in parts if text and text.strip())


# The tests of a field; the number of those that are kept elsewhere is none.
def _tests(value: Any, field: str) -> list[Pair]:
    if isinstance(value, int | float) or not value:
        return []
    return pairs_of(value, field) if json_value(value, field) else []


def _examples(value: Any) -> Iterator[tuple[str, str]]:
    found = json_value(value or [], "examples")
    if not isinstance(found, list):
        raise InputError(f"must be an array, not {type_name(found)}", field="examples")
    for number, example in enumerate(found, 1):
        for part in ("input", "output"):
            text = example.get(part) if isinstance(example, dict) else None
            if not isinstance(text, str):
                raise InputError("must be a string", field=f"examples[{number - 1}].{part}")
            yield f"Example {number}, {part}", _lines(text)


# A text with the line ends of Linux, as its graders have it.
def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _mebibytes(number: float | None) -> int | None:
    if number is None:
        return None
    if not (math.isfinite(number) and 0 < number < _MOST_MEBIBYTES):
        raise InputError("must be a number above 0", field="memory_limit")
    return max(int(number * (1 << 20)), 1)


CODEFORCES = Format(
    "open-r1/codeforces", (("official_tests", "generated_checker"),), CodeforcesRow, ignored=frozenset({"testset_size"})
)
