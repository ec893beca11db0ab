"""Rows of MBPP, full and sanitized (arXiv:2108.07732), and of MBPP+ of the hub, whose `test` has more inputs."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from sandrl.errors import InputError
from sandrl.problems.formats.evalplus import TIMEOUT_SECONDS
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value
from sandrl.problems.imports import third_party_imports
from sandrl.problems.problem import Problem


# An array that is JSON text, as in tables without arrays.
def _array(value: object) -> object:
    try:
        return json_value(value, "") if isinstance(value, str) else value
    except InputError:
        return value


Texts = Annotated[list[str], BeforeValidator(_array)]
"""An array of strings, or JSON text of one."""


class MbppRow(FormatRow):
    text: str | None = None
    prompt: str | None = None
    test_list: Texts
    test_setup_code: str | None = None
    test_imports: Texts = Field(default_factory=list)
    code: str | None = None
    test: str | None = None

    def to_problem(self, name: str) -> Problem:
        text = self.text if self.text is not None else self.prompt
        if text is None:
            raise InputError("is missing", field="text")
        more = [self.test] if self.test else []
        setup = "\n".join(filter(None, [*self.test_imports, self.test_setup_code]))
        try:
            return Problem(
                task_id=name,
                prompt=text,
                tests=(*self.test_list, *more),
                setup=setup,
                entry_point=_called_name(self.test_list, self.code or ""),
                reference=self.code,
                prelude=self.prelude,
                timeout_seconds=TIMEOUT_SECONDS if more else None,
                packages=third_party_imports(setup, *self.test_list, *more),
            )
        except InputError as error:
            field = error.field and error.field.replace(f"tests[{len(self.test_list)}]", "test", 1)
            field = field and field.replace("tests", "test_list", 1)
            raise InputError(error.reason, field=field, hint=error.hint) from None


# The first name that the tests call and the solution defines: MBPP says nowhere else what it asks for.
def _called_name(tests: list[str], code: str) -> str | None:
    defined = set(re.findall(r"^(?:def|class)[ \t]+(\w+)", code, re.MULTILINE))
    return next((name for test in tests for name in re.findall(r"(\w+)\s*\(", test) if name in defined), None)


# MBPP's own evaluation leaves the challenge tests out, too.
MBPP = Format("MBPP", (("test_list",),), MbppRow, ignored=frozenset({"challenge_test_list"}))
