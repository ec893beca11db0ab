"""Rows of CodeContests (arXiv:2203.07814): programs, with public, private and generated tests.

Outputs were made by different programs: some print one number in a line where others print all of them. So outputs are
compared word by word, as its own graders do.
"""

from __future__ import annotations

from typing import Any

from sandrl.errors import InputError
from sandrl.problems.formats.inputs_outputs import Pair, by_words, checks_of_pairs, pairs_of
from sandrl.problems.formats.languages import named_language
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value
from sandrl.problems.formats.time_limits import check_timeout
from sandrl.problems.languages import PYTHON
from sandrl.problems.problem import Problem

# The number is that of its tables, the word that of its protocol buffers.
_LANGUAGES = {PYTHON: (3, "PYTHON3"), "cpp": (2, "CPP"), "java": (4, "JAVA")}
_TESTS = ("public_tests", "private_tests", "generated_tests")


class CodeContestsRow(FormatRow):
    description: str
    public_tests: Any = None
    private_tests: Any = None
    generated_tests: Any = None
    solutions: Any = None
    input_file: str | None = None
    output_file: str | None = None
    language: Any = None
    time_limit: Any = None

    def to_problem(self, name: str) -> Problem:
        pairs: list[Pair] = []
        for field in _TESTS:
            tests = json_value(getattr(self, field), field)
            # A table has both columns in every row, perhaps without entries.
            if tests and (not isinstance(tests, dict) or any(tests.values())):
                pairs += pairs_of(tests, field)
        if not pairs:
            raise InputError("has no tests", field=_TESTS[0])
        return Problem(
            task_id=name,
            prompt="\n\n".join([self.description, *self._files()]),
            reference=_reference(self.solutions, named_language(self.language, "language") or PYTHON),
            prelude=self.prelude,
            check_timeout_seconds=check_timeout(self.time_limit, "time_limit"),
            input_file=self.input_file or None,
            output_file=self.output_file or None,
            **by_words(checks_of_pairs(pairs, _TESTS[0])),
        )

    # Which files a program may use, where the description does not say so.
    def _files(self) -> list[str]:
        told = [
            (f"Read the input from the file {self.input_file}.", self.input_file),
            (f"Write the output to the file {self.output_file}.", self.output_file),
        ]
        said = [text for text, name in told if name and name not in self.description]
        return [" ".join(said)] if said else []


def _reference(solutions: Any, language: str) -> str | None:
    if not isinstance(solutions, dict):
        return None
    languages, programs = solutions.get("language"), solutions.get("solution")
    if not isinstance(languages, list) or not isinstance(programs, list):
        return None
    found = (
        program for each, program in zip(languages, programs, strict=False) if each in _LANGUAGES.get(language, ())
    )
    return next((program for program in found if isinstance(program, str)), None)


CODE_CONTESTS = Format(
    "CodeContests",
    (("description",), _TESTS),
    CodeContestsRow,
    accepts=lambda value: "official_tests" not in value,
    has_solutions_by_language=True,
)
