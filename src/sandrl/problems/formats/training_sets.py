"""Rows of sets made for training: a question, and its tests in one field, which may be JSON text.

The tests are inputs and outputs (`inputs_outputs.py`), or Python code. Code is asserts (an array of them, or
`assert_case`), a program that follows the answer (`functional`, or `test_code` with `entry_point` and `import_prefix`),
or a file of pytest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from sandrl.errors import InputError
from sandrl.problems.fields import InputRow
from sandrl.problems.formats.inputs_outputs import function_name, function_of, problem_of_pairs, promised_names
from sandrl.problems.formats.mathematics import answered, is_mathematics
from sandrl.problems.formats.python_tests import renamed, without_solution_import
from sandrl.problems.formats.row import Format, FormatRow, Prompt, in_language, named_language
from sandrl.problems.formats.texts import first_solution, json_value, without_fence
from sandrl.problems.problem import Problem

_CODE = ("functional", "pytest", "test_code", "assert_case")
"""The fields that hold tests as Python code."""

_CHECKED = re.compile(r"^check\(([\w.()]+)\)\s*\Z", re.MULTILINE)
_ASSERTS = re.compile(r"^[ \t]*(?:assert\b|self\.assert)", re.MULTILINE)
_INFO, _METADATA = "verification_info", "verifier_metadata"


class AppsRow(FormatRow):
    """Rows of APPS and TACO: `input_output` has inputs and outputs, and perhaps the name of a function."""

    question: str
    input_output: str | dict[str, object]
    starter_code: str | None = None
    solutions: str | list[str] | None = None
    time_limit: Any = None

    def to_problem(self, name: str) -> Problem:
        return problem_of_pairs(
            name,
            self.question,
            self.input_output,
            "input_output",
            starter=self.starter_code or "",
            reference=first_solution(self.solutions, "solutions"),
            prelude=self.prelude,
            time_limit=self.time_limit,
        )


APPS = Format("APPS/TACO", (("question",), ("input_output",)), AppsRow)


class PrimeIntellectRow(FormatRow):
    """Rows of PrimeIntellect's verifiable coding problems and of SYNTHETIC."""

    prompt: Prompt
    verification_info: str | dict[str, Any]
    gold_standard_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        info = json_value(self.verification_info, _INFO)
        if not isinstance(info, dict) or "test_cases" not in info:
            raise InputError("must have `test_cases`: only problems with tests are supported", field=_INFO)
        language = named_language(info.get("language"), f"{_INFO}.language")
        reference = without_fence(self.gold_standard_solution)
        problem = problem_of_pairs(
            name,
            self.prompt,
            info["test_cases"],
            f"{_INFO}.test_cases",
            reference=reference,
            code=f"{reference or ''}\n{self.prompt}",
            prelude=self.prelude,
        )
        return in_language(problem, language, f"{_INFO}.language")


PRIME_INTELLECT = Format(
    "PrimeIntellect", (("prompt",), (_INFO,)), PrimeIntellectRow, language_path=(_INFO, "language")
)


class NemoGymRequestRow(InputRow):
    input: Prompt


class NemoGymMetadataRow(InputRow):
    unit_tests: Any


class NemoGymRow(FormatRow):
    """Rows of NeMo-Gym for code: the request for a model, and `unit_tests` of its verifier."""

    responses_create_params: NemoGymRequestRow
    verifier_metadata: NemoGymMetadataRow

    def to_problem(self, name: str) -> Problem:
        prompt, tests = self.responses_create_params.input, self.verifier_metadata.unit_tests
        return problem_of_pairs(name, prompt, tests, f"{_METADATA}.unit_tests", code=prompt, prelude=self.prelude)


def _has_unit_tests(metadata: object) -> bool:
    return isinstance(metadata, Mapping) and "unit_tests" in metadata


NEMO_GYM = Format(
    "NeMo-Gym",
    (("responses_create_params",), (_METADATA,)),
    NemoGymRow,
    accepts=lambda value: _has_unit_tests(json_value(value[_METADATA], _METADATA)),
)


class DeepCoderRow(FormatRow):
    """Rows of DeepCoder-Preview."""

    problem: str
    tests: str | list[Any] | dict[str, Any]
    starter_code: str | None = None
    solutions: str | list[str] | None = None
    metadata: Any = None

    def to_problem(self, name: str) -> Problem:
        function = function_of(self.metadata)
        starter = self.starter_code or ""
        reference = without_fence(first_solution(self.solutions, "solutions"))
        tests = json_value(self.tests, "tests") if self.tests else []
        if isinstance(tests, list) and tests and all(isinstance(each, str) for each in tests):
            problem = problem_of_truth(name, self.problem, tests, "tests", self.prelude)
            return replace(problem, starter_code=starter, reference=reference)
        return problem_of_pairs(
            name,
            self.problem,
            tests,
            "tests",
            function=function,
            starter=starter,
            reference=reference,
            prelude=self.prelude,
        )


DEEPCODER = Format("DeepCoder", (("problem",), ("tests",)), DeepCoderRow)


class AceCodeRow(FormatRow):
    """Rows of AceCode (arXiv:2502.01718), and of sets like it."""

    question: Prompt
    test_cases: Any = None
    tests: Any = None

    def to_problem(self, name: str) -> Problem:
        field = "tests" if self.test_cases is None else "test_cases"
        return problem_of_truth(name, self.question, getattr(self, field), field, self.prelude)


ACE_CODE = Format("AceCode", (("question",), ("test_cases", "tests")), AceCodeRow)


class RlvrRow(FormatRow):
    """Rows of open-instruct's sets for code (RLVR)."""

    messages: Prompt | None = None
    prompt: Prompt | None = None
    ground_truth: Any
    dataset: Any = None

    def to_problem(self, name: str) -> Problem:
        truth = self.ground_truth
        if is_mathematics(self.dataset):
            return answered(name, self.messages or self.prompt or "", truth, "ground_truth")
        # The set for several verifiers has one text for each of them.
        if isinstance(truth, list) and len(truth) == 1 and isinstance(truth[0], str) and truth[0].startswith("["):
            truth = truth[0]
        prompt = self.messages if self.messages is not None else self.prompt
        return problem_of_truth(name, prompt or "", truth, "ground_truth", self.prelude)


RLVR = Format(
    "RLVR",
    (("messages", "prompt"), ("ground_truth",)),
    RlvrRow,
    accepts=lambda value: value.keys().isdisjoint(("tests", "cases", "check")),
)


class RewardModelRow(InputRow):
    ground_truth: Any
    style: Any = None


class VerlRow(FormatRow):
    """Rows of verl, Eurus and sets made for them."""

    prompt: Prompt
    reward_model: RewardModelRow
    data_source: Any = None
    ability: Any = None

    def to_problem(self, name: str) -> Problem:
        truth = self.reward_model.ground_truth
        if is_mathematics(self.ability, self.data_source, self.reward_model.style):
            return answered(name, self.prompt, truth, "reward_model.ground_truth")
        return problem_of_truth(name, self.prompt, truth, "reward_model.ground_truth", self.prelude)


VERL = Format("verl", (("prompt",), ("reward_model",)), VerlRow)


def problem_of_truth(name: str, prompt: str, truth: Any, field: str, prelude: str = "") -> Problem:
    """The problem of a prompt and a ground truth."""
    tests, place = _tests(truth, field)
    if isinstance(tests, dict | list):
        return problem_of_pairs(name, prompt, tests, field, code=prompt, prelude=prelude)
    shown = "\n".join([prompt, *tests.tests])
    # A single text may stand in no array.
    with renamed(*([("tests[0]", place)] if len(tests.tests) == 1 else []), ("tests", place), ("", place)):
        return Problem(
            task_id=name,
            prompt=prompt,
            tests=tuple(tests.tests),
            prelude=prelude or tests.prelude or promised_names({"tests": tests.tests}, shown),
            entry_point=tests.entry_point,
        )


class _Code(NamedTuple):
    tests: list[str]
    entry_point: str | None = None
    prelude: str = ""


def _tests(value: Any, field: str) -> tuple[_Code | dict[str, Any] | list[Any], str]:
    try:
        tests = json_value(value, field)
    except InputError as error:
        if isinstance(value, str) and _ASSERTS.search(value):
            return _code(value, "", field), field
        raise InputError("must be JSON text of tests: only problems of code are supported", field=field) from error
    if isinstance(tests, list) and tests and all(isinstance(each, str) for each in tests):
        return _Code(tests), field
    if not isinstance(tests, dict | list):
        raise InputError("must be tests: only problems of code are supported", field=field)
    kinds = [kind for kind in _CODE if isinstance(tests, Mapping) and _says_something(tests.get(kind))]
    if not kinds or not isinstance(tests, Mapping):
        return tests, field
    # Its graders pair each assert with an input and an output, which are empty where they say nothing.
    others = [kind for kind in ("inputs", "outputs") if _says_something(tests.get(kind))]
    if len(kinds) + bool(others) > 1:
        names = ", ".join([*kinds, *others])
        raise InputError(f"has tests of several kinds ({names}), and only one is allowed", field=field)
    return _code(tests[kinds[0]], kinds[0], field, tests), f"{field}.{kinds[0]}"


def _says_something(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_says_something, value))
    return value not in (None, "")


def _code(value: Any, kind: str, field: str, tests: Mapping[str, Any] | None = None) -> _Code:
    texts = [value] if isinstance(value, str) and kind != "assert_case" else value
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        kinds = "an array of strings" if kind == "assert_case" else "a string"
        raise InputError(f"must be {kinds}", field=f"{field}.{kind}")
    prefix, entry_point = (_text(tests or {}, name, field) for name in ("import_prefix", "entry_point"))
    if kind == "pytest":
        try:
            test, names = without_solution_import(texts[0])
        except InputError as error:
            raise InputError(error.reason, field=f"{field}.{kind}") from None
        return _Code([test], names[0] if len(names) == 1 else None, prefix)
    if kind == "assert_case":
        name = entry_point or function_name((tests or {}).get("fn_name"), f"{field}.fn_name")
        return _Code([text for text in texts if text], name or None, prefix)
    if entry_point and not _CHECKED.search(texts[0]):
        texts = [f"{texts[0].rstrip()}\n\ncheck({entry_point})\n"]
    found = _CHECKED.search(texts[0])
    return _Code(texts, entry_point or (found[1] if found else None), prefix)


def _text(tests: Mapping[str, Any], name: str, field: str) -> str:
    value = tests.get(name) or ""
    if not isinstance(value, str):
        raise InputError("must be a string", field=f"{field}.{name}")
    return value
