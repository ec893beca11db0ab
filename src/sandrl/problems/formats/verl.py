"""Rows of verl, Eurus and sets made for them: messages as the prompt, and tests as `reward_model.ground_truth`.

The tests are inputs and outputs, or Python code. Code is asserts (an array of them, or `assert_case`), a program that
follows the answer (`functional`, or `test_code` with `entry_point` and `import_prefix`), or a file of pytest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sandrl.errors import InputError
from sandrl.problems.fields import InputRow
from sandrl.problems.formats.inputs_outputs import function_name, problem_of_pairs, promised_names
from sandrl.problems.formats.kodcode import without_solution_import
from sandrl.problems.formats.messages import Prompt
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value
from sandrl.problems.problem import Problem

_FIELD = "reward_model.ground_truth"
_CODE = ("functional", "pytest", "test_code", "assert_case")
"""The fields that hold tests as Python code."""

_CHECKED = re.compile(r"^check\(([\w.()]+)\)\s*\Z", re.MULTILINE)
_ASSERTS = re.compile(r"^[ \t]*(?:assert\b|self\.assert)", re.MULTILINE)


class RewardModelRow(InputRow):
    ground_truth: Any


class VerlRow(FormatRow):
    prompt: Prompt
    reward_model: RewardModelRow

    def to_problem(self, name: str) -> Problem:
        return problem_of_truth(name, self.prompt, self.reward_model.ground_truth, _FIELD, self.prelude)


def problem_of_truth(name: str, prompt: str, truth: Any, field: str, prelude: str = "") -> Problem:
    """The problem of a prompt and a ground truth."""
    tests, place = _tests(truth, field)
    if isinstance(tests, dict | list):
        return problem_of_pairs(name, prompt, tests, field, code=prompt, prelude=prelude)
    return tests.problem(name, prompt, prelude, place)


class _Code(NamedTuple):
    tests: list[str]
    entry_point: str | None = None
    prelude: str = ""

    def problem(self, name: str, prompt: str, prelude: str, field: str) -> Problem:
        shown = "\n".join([prompt, *self.tests])
        try:
            return Problem(
                task_id=name,
                prompt=prompt,
                tests=tuple(self.tests),
                prelude=prelude or self.prelude or promised_names({"tests": self.tests}, shown),
                entry_point=self.entry_point,
            )
        except InputError as error:
            # A single text may stand in no array.
            place = (error.field or "").removeprefix("tests").removeprefix("[0]" if len(self.tests) == 1 else "")
            raise InputError(error.reason, field=field + place, hint=error.hint) from None


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


VERL = Format("verl", (("prompt",), ("reward_model",)), VerlRow)
