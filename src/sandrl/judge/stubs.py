"""Stubs: programs that do no work and must fail, for finding checks that accept anything.

A check that a stub passes proves little about an answer. Most checks are decided from their source: a stub returns a
constant or its first argument, so a comparison with a literal of another value fails. Only the rest has to run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandrl.answers.builds import language_of
from sandrl.answers.requirements import requirement_of
from sandrl.judge.facts import class_names
from sandrl.judge.guest.tolerance import same_lines, same_numbers
from sandrl.problems import Problem
from sandrl.problems.calls import Comparison, function_of
from sandrl.syntax import try_parse

_CONSTANTS: dict[str, object] = {"None": None, "0": 0, '""': "", "[]": [], "True": True}
ARGUMENT = "its first argument"
NOTHING = "no code"

# Answers that a model may give without reading a problem.
_ANSWERS = ("0", "1", "2", "-1", "10", "x", "A", "\\text{No}", "\\emptyset")


@dataclass(frozen=True, slots=True)
class Stub:
    """An answer that must fail, and what it returns or prints, in words."""

    label: str
    code: str


def stubs_of(problem: Problem) -> tuple[Stub, ...]:
    """The stubs of a problem that may pass its checks; those that cannot, by the checks' source, are left out.

    In another language than Python there is one: a program that does nothing.
    """
    if not problem.is_python:
        may_pass = problem.kind == "tests" or (problem.kind == "cases" and _prints_all(problem, ""))
        return (Stub(NOTHING, language_of(problem).empty_program),) if may_pass else ()
    if problem.answer is not None:
        return tuple(Stub(text, text) for text in _ANSWERS)
    if problem.kind == "cases":
        return tuple(stub for stub, output in _programs() if _prints_all(problem, output))
    if problem.fn is not None:
        names = frozenset({function_of(problem.fn)[1]})
        return tuple(stub for stub, value in _functions(problem, names) if _returns_all(problem, value))
    if problem.kind != "tests":
        return ()
    names = requirement_of(problem).names
    bodies = [tree.body for test in problem.tests if (tree := try_parse(test)) is not None]
    return tuple(
        stub for stub, value in _functions(problem, names) if not any(_fails(body, names, value) for body in bodies)
    )


def stub_words(labels: Iterable[str]) -> str:
    """Stubs by their labels, as messages name them."""
    return ", ".join(label if label == NOTHING else f"an answer that gives {label}" for label in labels)


def empty_answer(problem: Problem) -> str:
    """Code that defines what the tests of a problem use, and whose functions return nothing."""
    return _definitions(problem, requirement_of(problem).names, "None")


class _Argument:
    """Stands for the first argument of a call."""


def _functions(problem: Problem, names: frozenset[str]) -> Iterator[tuple[Stub, object]]:
    yield Stub(NOTHING, "pass"), NotImplemented
    for text, value in _CONSTANTS.items():
        yield Stub(text, _definitions(problem, names, text)), value
    first = "next(iter([*arguments, *keywords.values()]), None)"
    yield Stub(ARGUMENT, _definitions(problem, names, first)), _Argument


def _definitions(problem: Problem, names: frozenset[str], value: str) -> str:
    classes = class_names(problem)
    parts = []
    for name in sorted(names):
        if not name.isidentifier():
            continue
        if name in classes:
            parts.append(
                f"class {name}:\n"
                "    def __init__(self, *arguments, **keywords):\n        pass\n\n"
                "    def __getattr__(self, name):\n"
                "        if name.startswith('__'):\n            raise AttributeError(name)\n"
                f"        return lambda *arguments, **keywords: {value}\n"
            )
        else:
            parts.append(f"def {name}(*arguments, **keywords):\n    return {value}\n")
    return "\n\n".join(parts) or "pass"


def _fails(body: list[ast.stmt], names: frozenset[str], value: object) -> bool:
    # Whether a check fails for certain: it compares a call with a literal that the stub does not return.
    if value is NotImplemented:
        # Without the names, a plain assert that calls one of them raises NameError.
        return any(_compares_call(statement, names) for statement in body)
    return any(_differs(statement, names, value) for statement in body)


def _compares_call(statement: ast.stmt, names: frozenset[str]) -> bool:
    match statement:
        case ast.Assert(test=ast.Compare(left=ast.Call(func=ast.Name(id=name)))):
            return name in names
    return False


def _differs(statement: ast.stmt, names: frozenset[str], value: object) -> bool:
    match statement:
        case ast.Assert(
            test=ast.Compare(left=ast.Call(func=ast.Name(id=name), args=arguments), ops=[ast.Eq()], comparators=[right])
        ) if name in names:
            try:
                expected = ast.literal_eval(right)
                returned = ast.literal_eval(arguments[0]) if value is _Argument and arguments else value
            except (ValueError, TypeError, MemoryError, RecursionError, SyntaxError):
                return False
            return returned is not _Argument and bool(returned != expected)
    return False


def _returns_all(problem: Problem, value: object) -> bool:
    # Whether a stub returns what every call must return; numbers within the tolerance are left to the judge.
    if value is NotImplemented:
        return False
    if problem.asks_reference or problem.comparison is not Comparison.PLAIN:
        return True  # what is right is known in a sandbox only
    for call in problem.calls:
        arguments, expected = call.values
        returned = (arguments[0] if arguments else None) if value is _Argument else value
        is_near = problem.tolerance is not None and isinstance(expected, int | float | list | tuple)
        if returned != expected and not is_near:
            return False
    return True


def _programs() -> Iterator[tuple[Stub, str | None]]:
    yield Stub(NOTHING, "pass"), ""
    for text in ("0", "1", "-1", "None", "[]", "YES", "NO", "Yes", "No", "True", "False"):
        yield Stub(repr(text), f"print({text!r})"), text
    yield Stub("its input", "import sys\nsys.stdout.write(sys.stdin.read())"), None


def _prints_all(problem: Problem, output: str | None) -> bool:
    if problem.checker is not None:
        return True  # only the checker knows
    tolerance = problem.tolerance
    for case in problem.cases:
        printed = case.stdin if output is None else output
        is_same = (
            same_lines(printed, case.stdout)
            if tolerance is None
            else same_numbers(
                printed, case.stdout, float(tolerance.absolute), float(tolerance.relative), tolerance.words
            )
        )
        if not is_same:
            return False
    return True
