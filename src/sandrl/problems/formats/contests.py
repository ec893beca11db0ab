"""Rows of sets of programming contests and judge sites, with tests as inputs and outputs in several fields.

Outputs were made by different programs: some print one number in a line where others print all of them. So outputs are
compared word by word, as their own graders do. LiveCodeBench's graders give every solution the names of
`preludes.STANDARD`, and compare numbers as decimals: `1.0` is `1`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import type_name
from sandrl.problems.checkers import Checker
from sandrl.problems.formats.inputs_outputs import (
    Pair,
    by_words,
    checks_of_pairs,
    function_of,
    pairs_of,
    promised_names,
)
from sandrl.problems.formats.python_tests import with_test
from sandrl.problems.formats.row import Format, FormatRow, in_language, named_language
from sandrl.problems.formats.texts import check_timeout, is_packed, json_value, unpacked
from sandrl.problems.languages import PYTHON
from sandrl.problems.preludes import STANDARD
from sandrl.problems.problem import Case, Problem, Tolerance

DECIMALS = Tolerance(absolute=1e-12)
"""How graders of LiveCodeBench compare numbers: nothing but another spelling comes under it."""

_CONTEST_TESTS = ("public_tests", "private_tests", "generated_tests")
_CODEFORCES_TESTS = ("official_tests", "generated_tests")
_BENCH_TESTS = ("public_test_cases", "private_test_cases")
# The number is that of the tables of CodeContests, the word that of its protocol buffers.
_LANGUAGES = {PYTHON: (3, "PYTHON3"), "cpp": (2, "CPP"), "java": (4, "JAVA")}
_MOST_MEBIBYTES = 1 << 40
_FUSION_LANGUAGE = "labels.programming_language"
_FILES = "file"
_INPUT_FILE, _OUTPUT_FILE = "input.txt", "output.txt"
_IN_FILES = f"Read the input from the file {_INPUT_FILE}, and write the output to the file {_OUTPUT_FILE}."


# The tests of several fields, some of which may have none.
def _pairs(row: FormatRow, fields: tuple[str, ...], read: Callable[[Any, str], Any], function: str = "") -> list[Pair]:
    pairs: list[Pair] = []
    for field in fields:
        if tests := read(getattr(row, field), field):
            pairs += pairs_of(tests, field, function=function)
    if not pairs:
        raise InputError("has no tests", field=fields[0])
    return pairs


# A table has both columns in every row, perhaps without entries.
def _columns(value: Any, field: str) -> Any:
    tests = json_value(value, field)
    return None if isinstance(tests, dict) and not any(tests.values()) else tests


class CodeContestsRow(FormatRow):
    """Rows of CodeContests (arXiv:2203.07814)."""

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
        pairs = _pairs(self, _CONTEST_TESTS, _columns)
        return Problem(
            task_id=name,
            prompt="\n\n".join([self.description, *self._files()]),
            reference=_reference(self.solutions, named_language(self.language, "language") or PYTHON),
            prelude=self.prelude,
            check_timeout_seconds=check_timeout(self.time_limit, "time_limit"),
            input_file=self.input_file or None,
            output_file=self.output_file or None,
            **by_words(checks_of_pairs(pairs, _CONTEST_TESTS[0])),
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
    pairs = zip(languages, programs, strict=False)
    found = (program for each, program in pairs if each in _LANGUAGES.get(language, ()))
    return next((program for program in found if isinstance(program, str)), None)


CODE_CONTESTS = Format(
    "CodeContests",
    (("description",), _CONTEST_TESTS),
    CodeContestsRow,
    accepts=lambda value: "official_tests" not in value,
    has_solutions_by_language=True,
)


class CodeforcesRow(FormatRow):
    """Rows of open-r1/codeforces, many of them with a checker, because a case has several right outputs.

    Memory is limited as by its graders. Where `input_mode` is `file`, an answer reads `input.txt` and writes
    `output.txt`, or uses its streams: the graders give it those. A row with too few tests (`executable` is false), and
    one whose program talks with another, are refused.
    """

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
        checks = by_words(checks_of_pairs(_pairs(self, _CODEFORCES_TESTS, _tests), _CODEFORCES_TESTS[0]))
        if "cases" not in checks:
            raise InputError("has tests that are not runs of a program", field=_CODEFORCES_TESTS[0])
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
def _tests(value: Any, field: str) -> Any:
    return None if not value or isinstance(value, int | float) else json_value(value, field)


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


class LiveCodeBenchRow(FormatRow):
    """Rows of LiveCodeBench (arXiv:2403.07974): public tests as JSON text, private ones the same, or packed."""

    question_content: str
    starter_code: str | None = None
    public_test_cases: Any = None
    private_test_cases: Any = None
    metadata: Any = None

    def to_problem(self, name: str) -> Problem:
        pairs = _pairs(self, _BENCH_TESTS, _packed_or_json, function_of(self.metadata))
        return Problem(
            task_id=name,
            prompt=self.question_content,
            starter_code=self.starter_code or "",
            prelude=self.prelude or STANDARD,
            **_as_graded(checks_of_pairs(pairs, _BENCH_TESTS[0], code=self.starter_code or "")),
        )


LIVE_CODE_BENCH = Format("LiveCodeBench", (("question_content",), _BENCH_TESTS), LiveCodeBenchRow)


def _packed_or_json(value: Any, field: str) -> Any:
    return unpacked(value, field) if is_packed(value) else json_value(value or [], field)


def _as_graded(checks: dict[str, Any]) -> dict[str, Any]:
    return {**checks, "tolerance": DECIMALS} if "cases" in checks else checks


class SandboxFusionRow(FormatRow):
    """Rows as SandboxFusion has them in its own tests: `test` is in the form of the set.

    The form is found in the text: JSON of inputs and outputs (CodeContests), the packed tests of LiveCodeBench, a file
    of unittest with a solution that continues the prompt (BigCodeBench).
    """

    content: str
    test: str | list[Any] | dict[str, Any]
    labels: str | dict[str, Any] | None = None
    canonical_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        labels = json_value(self.labels or {}, "labels")
        if not isinstance(labels, dict):
            raise InputError("must be an object, or JSON text of one", field="labels")
        language = named_language(labels.get("programming_language"), _FUSION_LANGUAGE)
        if (entry_point := labels.get("entry_point")) is not None and isinstance(self.test, str):
            if not isinstance(entry_point, str) or not entry_point:
                raise InputError("must be the name of a function", field="labels.entry_point")
            solution = self.canonical_solution
            reference = None if solution is None else self.content + solution
            problem = with_test(name, self.content, self.test, entry_point, reference, prelude=self.prelude)
            return in_language(problem, language, _FUSION_LANGUAGE)
        is_of_live_code_bench = is_packed(self.test)
        tests = _packed_or_json(self.test, "test")
        if isinstance(tests, dict) and "code" in tests:
            raise InputError(
                "is a program into which the answer is inserted (aider's exercises), which is not supported",
                field="test",
            )
        checks = checks_of_pairs(pairs_of(tests, "test"), "test", code=self.content)
        problem = Problem(
            task_id=name,
            prompt=self.content,
            # Its `canonical_solution` is filled in with anything where the set has none.
            prelude=self.prelude or (STANDARD if is_of_live_code_bench else promised_names(checks, self.content)),
            **(_as_graded(checks) if is_of_live_code_bench else by_words(checks)),
        )
        return in_language(problem, language, _FUSION_LANGUAGE)


SANDBOX_FUSION = Format(
    "SandboxFusion",
    (("content",), ("test",)),
    SandboxFusionRow,
    language_path=("labels", "programming_language"),
)
