"""Rows whose tests are code: MBPP, HumanEval and sets like them, KodCode, BigCodeBench, and MultiPL-E.

Graders of HumanEval and most others run prompt, completion and test as one program, also where the prompt begins no
function: then it is imports and helpers, which the completion and the test may use.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from pydantic import BeforeValidator, Field

from sandrl.errors import InputError
from sandrl.problems.calls import SOLUTION
from sandrl.problems.fields import Identifier
from sandrl.problems.formats.evalplus import TIMEOUT_SECONDS
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value
from sandrl.problems.imports import third_party_imports
from sandrl.problems.languages import PYTHON, find_language, language_named
from sandrl.problems.problem import Problem
from sandrl.syntax import parse

_DEFINES = re.compile(r"^def[ \t]+check\b", re.MULTILINE)
_CALLS = re.compile(r"^check\(", re.MULTILINE)
_CODE = re.compile(r"^(?:import|from|def|class|async[ \t]+def)\b", re.MULTILINE)
_MODULE = "solution"
_JAVASCRIPT = "javascript"
# In JavaScript, a failed `console.assert` must end the program.
_STRICT = "console.assert = (holds, ...said) => { if (!holds) throw new Error(`assertion failed ${said.join(' ')}`); };"
_NEEDS = {"go": "the package testify", "rust": "cargo and crates"}


@contextmanager
def renamed(*names: tuple[str, str]) -> Iterator[None]:
    """Errors name the fields of a problem by the fields of its row; the first of the names that fits counts."""
    try:
        yield
    except InputError as error:
        place = error.field or ""
        old, new = next(((old, new) for old, new in names if place.startswith(old)), ("", ""))
        raise InputError(error.reason, field=new + place.removeprefix(old) or None, hint=error.hint) from None


# An array that is JSON text, as in tables without arrays.
def _array(value: object) -> object:
    try:
        return json_value(value, "") if isinstance(value, str) else value
    except InputError:
        return value


Texts = Annotated[list[str], BeforeValidator(_array)]
"""An array of strings, or JSON text of one."""


class MbppRow(FormatRow):
    """Rows of MBPP, full and sanitized (arXiv:2108.07732), and of MBPP+ of the hub, whose `test` has more inputs."""

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
        with renamed((f"tests[{len(self.test_list)}]", "test"), ("tests", "test_list")):
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


# The first name that the tests call and the solution defines: MBPP says nowhere else what it asks for.
def _called_name(tests: list[str], code: str) -> str | None:
    defined = set(re.findall(r"^(?:def|class)[ \t]+(\w+)", code, re.MULTILINE))
    return next((name for test in tests for name in re.findall(r"(\w+)\s*\(", test) if name in defined), None)


# MBPP's own evaluation leaves the challenge tests out, too.
MBPP = Format("MBPP", (("test_list",),), MbppRow, ignored=frozenset({"challenge_test_list"}))


def with_check(
    name: str, code: str, test: str, entry_point: str, reference: str | None, *, prompt: str = "", prelude: str = ""
) -> Problem:
    """The problem of `with_test`, whose test may be a function `check` of what it asks for, which is called."""
    is_called = _CALLS.search(test) is not None or _DEFINES.search(test) is None
    call = "" if is_called else f"\n\ncheck({entry_point})\n"
    return with_test(name, code, f"{test.rstrip()}{call}", entry_point, reference, prompt=prompt, prelude=prelude)


def with_test(
    name: str, code: str, test: str, entry_point: str, reference: str | None, *, prompt: str = "", prelude: str = ""
) -> Problem:
    """The problem of `code` before a completion, and a test that runs where both do."""
    with renamed(("tests[0]", "test")):
        return Problem(
            task_id=name,
            prompt=prompt or code,
            tests=(test,),
            setup=_preamble(code, entry_point),
            entry_point=entry_point,
            reference=reference,
            prelude=prelude,
            packages=third_party_imports(prelude, code, test, reference or ""),
        )


# What a prompt gives before what it asks for: checks that use its helpers mean these, not an answer's. That is all of a
# prompt of code that does not begin what it asks for.
def _preamble(prompt: str, entry_point: str) -> str:
    name = re.escape(re.split(r"\W", entry_point)[0] or SOLUTION)
    begins = re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b", prompt, re.MULTILINE)
    given = prompt if begins is None else prompt[: begins.start()]
    try:
        tree = parse(given)
    except SyntaxError:
        return ""
    return given.strip() if begins is not None or (tree.body and _CODE.search(given)) else ""


class HumanEvalRow(FormatRow):
    """Rows of HumanEval (arXiv:2107.03374), and of HumanEval+ of the hub and others with the same fields."""

    prompt: str
    test: str
    entry_point: Identifier
    canonical_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        solution = None if self.canonical_solution is None else self.prompt + self.canonical_solution
        return with_check(name, self.prompt, self.test, self.entry_point, solution, prelude=self.prelude)


HUMANEVAL = Format("HumanEval", (("prompt",), ("test",), ("entry_point",)), HumanEvalRow)


class LeetCodeRow(FormatRow):
    """Rows of LeetCodeDataset (arXiv:2504.14655): imports and helpers are the prompt, and the task in words `query`."""

    prompt: str
    test: str
    entry_point: Identifier
    query: str | None = None
    problem_description: str | None = None
    completion: str | None = None

    def to_problem(self, name: str) -> Problem:
        words = self.query or self.problem_description or ""
        solution = self.completion or None
        return with_check(name, self.prompt, self.test, self.entry_point, solution, prompt=words, prelude=self.prelude)


# The inputs and outputs are those of the test.
LEET_CODE = Format(
    "LeetCodeDataset",
    (("prompt",), ("test",), ("entry_point",), ("query", "problem_description")),
    LeetCodeRow,
    ignored=frozenset({"input_output"}),
)


class BigCodeBenchRow(FormatRow):
    """Rows of BigCodeBench (arXiv:2406.15877): a prompt that the solution continues, and a `unittest.TestCase`."""

    complete_prompt: str
    test: str
    entry_point: Identifier
    canonical_solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        prompt, solution = self.complete_prompt, self.canonical_solution
        reference = None if solution is None else prompt + solution
        return with_test(name, prompt, self.test, self.entry_point, reference, prelude=self.prelude)


BIGCODEBENCH = Format("BigCodeBench", (("complete_prompt",), ("test",), ("entry_point",)), BigCodeBenchRow)


class HumanEvalPackRow(FormatRow):
    """Rows of HumanEvalPack (arXiv:2308.07124): HumanEval in six languages, which the task id names (`CPP/0`)."""

    task_id: Identifier
    prompt: str
    declaration: str
    canonical_solution: str
    test: str
    entry_point: Identifier
    imports: str | None = Field(default=None, alias="import")
    test_setup: str | None = None

    def to_problem(self, name: str) -> Problem:
        found = find_language(self.task_id.partition("/")[0])
        language = PYTHON if found is None else found.name
        if language in _NEEDS:
            raise InputError(f"is {language}, whose tests need {_NEEDS[language]}: not supported", field="task_id")
        begin = f"{self.imports}\n" if self.imports else ""
        prompt, reference = begin + self.prompt, f"{begin}{self.declaration}{self.canonical_solution}"
        test = "\n".join(part for part in (self.test_setup, self.test) if part and part.strip())
        if language == PYTHON:
            return with_check(name, prompt, test, self.entry_point, reference, prelude=self.prelude)
        tests = (f"{_STRICT}\n{test}" if language == _JAVASCRIPT else test,)
        with renamed(("tests[0]", "test")):
            return Problem(name, prompt, tests, entry_point=self.entry_point, reference=reference, language=language)


HUMANEVAL_PACK = Format(
    "HumanEvalPack",
    (("declaration",), ("prompt",), ("canonical_solution",), ("test",), ("entry_point",)),
    HumanEvalPackRow,
    ignored=frozenset({"example_test"}),
)


class KodCodeRow(FormatRow):
    """Rows of KodCode (arXiv:2503.02951): a file of pytest that imports the answer from a module `solution`."""

    question: str
    test: str
    solution: str | None = None

    def to_problem(self, name: str) -> Problem:
        with renamed(("tests[0]", "test")):
            test, names = without_solution_import(self.test)
            return Problem(
                task_id=name,
                prompt=self.question,
                tests=(test,),
                entry_point=names[0] if len(names) == 1 else None,
                reference=self.solution,
                prelude=self.prelude,
            )


def without_solution_import(test: str) -> tuple[str, list[str]]:
    """Tests without their imports from the answer's module, and the names that they imported, defined already."""
    try:
        tree = parse(test)
    except SyntaxError as error:
        raise InputError(f"must be Python: {error.msg}", field="test") from error
    names: list[str] = []

    class Rewriting(ast.NodeTransformer):
        def visit_Import(self, node: ast.Import) -> ast.stmt:
            if any(alias.name.partition(".")[0] == _MODULE for alias in node.names):
                raise InputError("imports the module of the answer itself, not names from it", field="test")
            return node

        def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
            if node.module != _MODULE:
                return node
            imported = [alias for alias in node.names if alias.name != "*"]
            names.extend(alias.name for alias in imported if alias.name not in names)
            aliases = [f"{alias.asname} = {alias.name}" for alias in imported if alias.asname not in (None, alias.name)]
            return parse("\n".join(aliases) or "pass").body

    rewritten = ast.fix_missing_locations(Rewriting().visit(tree))
    if not names and _MODULE not in test:
        return test, names
    return ast.unparse(rewritten) + "\n", names


KODCODE = Format(
    "KodCode",
    (("question",), ("test",), ("solution",)),
    KodCodeRow,
    ignored=frozenset({"test_info"}),
    accepts=lambda value: "entry_point" not in value,
)


class MultiPlERow(FormatRow):
    """Rows of MultiPL-E (arXiv:2208.08227): a function begun in some language, and tests that are appended to its body.

    The tests of some languages begin with the end of the function, and may end with that of its class, so an answer is
    joined to both (`answers/assembly.py`). An answer's body ends where its function does, which is what `stop_tokens`
    stand for: they are checked, and nothing else is needed of them.
    """

    language: str
    prompt: str
    tests: str
    stop_tokens: list[str]

    def to_problem(self, name: str) -> Problem:
        language = language_named(self.language)
        if not self.tests.strip("} \n"):
            raise InputError("checks nothing", field="tests")
        return Problem(name, self.prompt, (self.tests,), language=language.name)


MULTIPL_E = Format(
    "MultiPL-E", (("prompt",), ("tests",), ("language",), ("stop_tokens",)), MultiPlERow, is_python=False
)
