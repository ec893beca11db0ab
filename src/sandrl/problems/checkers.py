"""Checkers: programs of problems that decide whether an output is right, for cases that have several right outputs.

One field holds two forms, and the source shows which. A program is called with three files, input, expected output and
the answer's output, in the order of open-r1/codeforces, and prints a score; it has to read its arguments. A function
`check(input, expected, output)` is called with three texts. Source that has neither form, or could have either, is
refused: a checker that is called in the wrong way would decide nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.languages import PYTHON, language_named
from sandrl.syntax import parse

FUNCTION = "function"
PROGRAM = "program"
FORMS = (FUNCTION, PROGRAM)
CHECKER_SECONDS = 10.0
"""Wall time in seconds that a checker has for one case, unless its problem sets another limit."""

CHECK = "check"
_ARGUMENTS = 3
# No comment of Python begins so.
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]", re.MULTILINE)
_READS_ARGUMENTS = frozenset({"argv", "argparse", "fileinput", "click"})


@dataclass(frozen=True, slots=True)
class Checker:
    """A program of a problem that judges what a completion prints.

    Attributes:
        form: `function`: it defines `check(input, expected, output)`, which returns whether the output is right, or a
            score from 0 to 1. `program`: its arguments are the paths of three files, with the input, the expected
            output and the answer's output; it prints a score and nothing else, and exits with 0. Found in the source
            unless given.

    Raises:
        InputError: If it is no Python, or has neither form.
    """

    code: str
    form: str = ""
    language: str = PYTHON

    def __post_init__(self) -> None:
        for name in ("code", "form", "language"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise InputError(f"must be a string, not {value!r:.40}", field=name)
        object.__setattr__(self, "language", language_named(self.language, "language").name)
        if self.language != PYTHON:
            raise InputError(f"is {self.language!r}: only checkers in Python are supported", field="language")
        if self.form and self.form not in FORMS:
            raise InputError(f"must be one of {', '.join(FORMS)}, not {self.form!r:.40}", field="form")
        object.__setattr__(self, "form", _form_of(self.code, self.form))

    @property
    def is_program(self) -> bool:
        return self.form == PROGRAM

    @classmethod
    def of(cls, given: object, field: str = "checker") -> Checker:
        """The checker that a field holds: its source, or an object with `code` and perhaps `form` and `language`."""
        try:
            if isinstance(given, Checker):
                return given
            if isinstance(given, str):
                return cls(given)
            if isinstance(given, Mapping):
                return cls._of_mapping(given)
        except InputError as error:
            place = f"{field}.{error.field}" if error.field else field
            raise InputError(error.reason, field=place, hint=error.hint) from error.__cause__
        raise InputError(f"must be Python code, or an object with `code`, not {given!r:.40}", field=field)

    @classmethod
    def _of_mapping(cls, given: Mapping[Any, Any]) -> Checker:
        unknown = [str(name) for name in given if name not in ("code", "form", "language")]
        if unknown:
            raise InputError(
                "is not a field of a checker; the fields are code, form and language", field=f"{unknown[0]:.40}"
            )
        if "code" not in given:
            raise InputError("is missing", field="code")
        return cls(given["code"], given.get("form") or "", given.get("language") or PYTHON)

    @property
    def row(self) -> str | dict[str, str]:
        return self.code if _found_form(parse(self.code)) == self.form else {"code": self.code, "form": self.form}


def _form_of(code: str, given: str) -> str:
    if not code.strip():
        raise InputError("is empty")
    if _INCLUDE.search(code):
        raise InputError("is not Python: checkers in C++, for example with testlib, are not supported")
    try:
        tree = parse(code)
    except SyntaxError as error:
        place = f" (line {error.lineno})" if error.lineno else ""
        raise InputError(f"is not valid Python: {error.msg}{place}") from error
    if given == FUNCTION and not any(map(_is_check, tree.body)):
        raise InputError("defines no function check(input, expected, output)")
    form = given or _found_form(tree)
    if not form:
        raise InputError(
            "is neither a function check(input, expected, output) nor a program that reads its arguments (sys.argv)",
            hint='a program that reads them in another way must be an object: {"code": …, "form": "program"}',
        )
    return form


def _found_form(tree: ast.Module) -> str:
    if any(map(_reads_arguments, ast.walk(tree))):
        return PROGRAM
    return FUNCTION if any(map(_is_check, tree.body)) else ""


def _is_check(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != CHECK:
        return False
    arguments = node.args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    required = positional - len(arguments.defaults)
    is_enough = positional >= _ARGUMENTS or arguments.vararg is not None
    return required <= _ARGUMENTS and is_enough and all(default is not None for default in arguments.kw_defaults)


def _reads_arguments(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="argv") | ast.Name(id="argv"):
            return True
        case ast.Import(names=names):
            return any(alias.name in _READS_ARGUMENTS for alias in names)
        case ast.ImportFrom(module=module, names=names):
            return module in _READS_ARGUMENTS or any(alias.name == "argv" for alias in names)
        case _:
            return False
