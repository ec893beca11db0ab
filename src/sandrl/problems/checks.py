"""Splits the tests of a row into single checks: each is a text of Python that raises an error unless the code is right.

Tests are asserts, pytest's functions and classes, or `unittest.TestCase`. Each test function becomes a check of its
own, with its name, made of that function and of the code of its file that is not a test. So a verdict says which test
failed, and no test depends on another. The name is in the first line of the check, so that a check stays a plain text
everywhere. A test that cannot fail is refused (`vacuity.py`).
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Sequence
from functools import lru_cache

from sandrl.errors import InputError
from sandrl.problems.test_functions import TestFile, read_test_file, without_main_guard
from sandrl.problems.vacuity import calls_something, can_fail, complaint, uses_something
from sandrl.syntax import compiling, parse

_NAME = "# test: "
_OWN_RUN = "__main__"
# By far the most tests: these need no syntax tree to be seen to check something.
_PLAIN_ASSERT = re.compile(r"assert (?:not )?([A-Za-z_]\w*)\(")


def name_of(check: str) -> str:
    """The name of a check that is a test function; empty where it is none."""
    first = check.partition("\n")[0]
    return first.removeprefix(_NAME) if first.startswith(_NAME) else ""


def checks_of(tests: Sequence[str], *, setup: str = "", entry_point: str | None = None) -> tuple[str, ...]:
    """The checks that tests consist of; a test that is no Python stays as it is.

    The `InputError` of a test that cannot fail has its position in the field.
    """
    return _checks_of(tuple(tests), setup, entry_point)


@lru_cache(maxsize=64)
def _checks_of(tests: tuple[str, ...], setup: str, entry_point: str | None) -> tuple[str, ...]:
    reading = _Splitter(setup, entry_point)
    for position, test in enumerate(tests):
        reading.read(test, f"tests[{position}]")
    return reading.finish(f"tests[{len(tests) - 1}]")


class _Splitter:
    def __init__(self, setup: str, entry_point: str | None) -> None:
        self._entry_point = entry_point
        # Names of functions that the problem itself defines.
        self._known = _defined(_tree_of(setup))
        self._checks: list[str] = []
        # Tests that check nothing, until one comes that does.
        self._waiting: list[str] = []
        self._has_assert = self._uses_completion = False
        self._trees: list[ast.Module] = []

    def read(self, test: str, field: str) -> None:
        tree = None if _is_plain_assert(test) else _tree_of(test)
        if tree is None or not _compiles(tree):
            # It asserts something, or the judge will find it to be no Python.
            self._has_assert = self._uses_completion = True
            self._add(test)
            return
        self._known |= _defined(tree)
        self._trees.append(tree)
        found = None if name_of(test) else read_test_file(test, tree, field)
        if found is not None:
            self._has_assert = True
            self._checks += _checks_of_file(found, self._waiting, self._known, field)
            self._waiting = []
            return
        if _is_function_of_candidate(tree, self._entry_point) and not can_fail(tree.body, self._known):
            test = f"{test.rstrip()}\n\ncheck({self._entry_point})\n"
            tree = parse(test)
            self._trees.append(tree)
        test, tree = without_main_guard(test, tree)
        if (reason := complaint(tree.body)) is not None:
            raise InputError(reason, field=field)
        if can_fail(tree.body, self._known):
            self._has_assert = True
        elif not calls_something(tree.body):
            # Imports, definitions and assignments: part of the next test.
            self._waiting.append(test)
            return
        self._add(test)

    def _add(self, test: str) -> None:
        self._checks.append("\n".join([*self._waiting, test]))
        self._waiting = []

    def finish(self, last_field: str) -> tuple[str, ...]:
        if not self._has_assert:
            raise InputError("asserts nothing: every answer that runs without an error would pass", field=last_field)
        own = frozenset((self._entry_point or "").replace("(", " ").replace(".", " ").split()[:1])
        if not self._uses_completion and not uses_something(self._trees, own):
            raise InputError("uses no name that a completion defines", field="tests")
        if self._waiting:
            self._checks[-1] = "\n".join([self._checks[-1], *self._waiting])
        return tuple(self._checks)


def _checks_of_file(found: TestFile, waiting: list[str], known: frozenset[str], field: str) -> list[str]:
    for each in found.tests:
        if (reason := complaint(each.body)) is not None:
            raise InputError(f"{each.name} {reason}", field=field)
    if not any(can_fail(each.body, known) for each in found.tests):
        raise InputError("no test function asserts anything", field=field)
    shared = "\n".join([*waiting, found.shared])
    before = f"{shared}\n" if shared.strip() else ""
    checks = [f"{_NAME}{each.name}\n{before}{each.code}" for each in found.tests]
    rest = _tree_of(found.shared)
    if rest is not None and can_fail(rest.body, known):
        checks.insert(0, shared)
    if found.own_run:
        checks.append(f"{_NAME}{_OWN_RUN}\n{before}{found.own_run}")
    return checks


def _is_plain_assert(test: str) -> bool:
    found = _PLAIN_ASSERT.match(test)
    return found is not None and not hasattr(builtins, found.group(1)) and "\n" not in test and " or " not in test


@lru_cache(maxsize=64)
def _tree_of(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except SyntaxError:
        return None


# Whether the compiler takes a text that parses: it refuses a `return` outside of a function, for example.
def _compiles(tree: ast.Module) -> bool:
    try:
        with compiling():
            compile(tree, "<check>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _defined(tree: ast.Module | None) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
            if module.partition(".")[0] not in sys.stdlib_module_names:
                names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    return frozenset(names)


def _is_function_of_candidate(tree: ast.Module, entry_point: str | None) -> bool:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    return entry_point is not None and len(functions) == 1 and len(functions[0].args.args) == 1
