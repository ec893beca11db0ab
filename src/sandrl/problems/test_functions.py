"""Test functions, test classes and `unittest.TestCase`, as texts that run each of them alone.

Fixtures and parameters of pytest are resolved here, from the source, and nothing is executed. pytest itself need not be
installed where the checks run: a stand-in has the names that tests use (`pytest_stand_in.py`).
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import TypeAlias, TypeGuard

from sandrl.errors import InputError
from sandrl.syntax import parse, written

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_RUNNERS = frozenset({"main", "run"})
_BUILT_IN = {
    "capsys": "Capture",
    "capfd": "Capture",
    "monkeypatch": "MonkeyPatch",
    "tmp_path": "TemporaryPath",
    "tmp_path_factory": "TemporaryPaths",
    "tmpdir": "LocalPath",
}
"""The built-in fixtures of pytest, with their classes in `pytest_fixtures.py`."""
_CHANGING = frozenset({"capsys", "capfd", "monkeypatch"})


@dataclass(frozen=True, slots=True)
class Test:
    """One test function.

    Its name has its class and its parameters' number; its code defines and runs it, given what its file shares.
    """

    name: str
    code: str
    body: tuple[ast.stmt, ...]


@dataclass(frozen=True, slots=True)
class TestFile:
    """A text with test functions; `own_run` is what it asserts about its own run of them, or empty."""

    shared: str
    tests: tuple[Test, ...]
    own_run: str = ""


def read_test_file(text: str, tree: ast.Module, field: str) -> TestFile | None:
    """A text as a file of test functions; None if it has none."""
    if "test" not in text and "Test" not in text:
        return None
    fixtures = {node.name: node for node in tree.body if isinstance(node, _Function) and _is_fixture(node)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    cases = [node for node in classes.values() if _is_test_case(node, classes) and _test_methods(node, classes)]
    suites = [node for node in classes.values() if node not in cases and _is_suite(node)]
    called = _called_with_arguments(tree)
    functions = [
        node
        for node in tree.body
        if isinstance(node, _Function)
        and node.name.startswith("test")
        and not _is_fixture(node)
        and node.name not in called
    ]
    functions = [node for node in functions if not _is_skipped(node)]
    if not (functions or cases or suites):
        return None
    tests: list[Test] = []
    for node in functions:
        tests += _tests_of_function(node, fixtures, field)
    for suite in suites:
        tests += _tests_of_suite(suite, fixtures, field)
    for case in cases:
        tests += _tests_of_case(case, classes)
    if not tests:
        return None
    flat = [node for node in _flat(tree.body) if not _runs_tests(node, functions)]
    parts = TestParts(flat, {*functions, *suites, *_leaves(cases, classes)}, tree)
    shared = "\n".join(map(written, parts.shared))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    if any(_imports(node, "pytest") for node in imports):
        shared = f"{_stand_in()}\n{shared}"
    tests = [replace(test, code=parts.with_needed(test.code)) for test in tests]
    return TestFile(shared, tuple(tests), parts.own_run())


@cache
def _stand_in() -> str:
    source = Path(__file__).with_name("pytest_stand_in.py").read_text(encoding="utf-8")
    tree = parse(source)
    tree.body = tree.body[1:]  # without its docstring
    return written(tree)


@cache
def _built_in(name: str) -> str:
    source = Path(__file__).with_name("pytest_fixtures.py").read_text(encoding="utf-8")
    return next(
        written(node) for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name
    )


def _imports(node: ast.Import | ast.ImportFrom, module: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module is not None and node.module.partition(".")[0] == module
    return any(alias.name.partition(".")[0] == module for alias in node.names)


def without_main_guard(text: str, tree: ast.Module) -> tuple[str, ast.Module]:
    """A text whose statements behind `if __name__ == "__main__"` stand without it: a test is run, not imported."""
    if not any(map(_is_main_guard, tree.body)):
        return text, tree
    flat = ast.Module(list(_flat(tree.body)), [])
    return written(flat), flat


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if _is_main_guard(node):
            yield from node.body
        else:
            yield node


def _is_main_guard(node: ast.stmt) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and any(
        isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test)
    )


def _runs_tests(node: ast.stmt, functions: list[_Function]) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    if isinstance(function, ast.Name):
        return function.id in {each.name for each in functions}
    if not isinstance(function, ast.Attribute) or function.attr not in _RUNNERS:
        return isinstance(function, ast.Attribute) and _runs_tests(ast.Expr(function.value), functions)
    root = function.value
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    return isinstance(root, ast.Name) and root.id in ("unittest", "pytest", "asyncio", "doctest")


# Functions that the text itself calls with arguments: helpers, whatever their names.
def _called_with_arguments(tree: ast.Module) -> frozenset[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and (node.args or node.keywords)]
    return frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))


def _decorator_name(node: ast.expr) -> str:
    return written(node.func if isinstance(node, ast.Call) else node)


def _is_fixture(node: _Function) -> bool:
    return any(_decorator_name(each).endswith("fixture") for each in node.decorator_list)


def _is_skipped(node: _Function | ast.ClassDef) -> bool:
    names = [_decorator_name(each) for each in node.decorator_list]
    return any(name.rpartition(".")[2] == "skip" for name in names)


def _required(node: _Function, *, is_method: bool = False) -> list[str]:
    positional = [*node.args.posonlyargs, *node.args.args]
    optional = len(node.args.defaults)
    names = [each.arg for each in positional[: len(positional) - optional]]
    names += [
        each.arg for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is None
    ]
    return (
        names[1:] if is_method and not any(_decorator_name(d) == "staticmethod" for d in node.decorator_list) else names
    )


def _tests_of_function(
    node: _Function, fixtures: dict[str, _Function], field: str, *, owner: ast.ClassDef | None = None
) -> list[Test]:
    is_method = owner is not None
    name = node.name if owner is None else f"{owner.name}.{node.name}"
    sets = _parameter_sets(node)
    given = set(sets[0]) if sets else set()
    setup, values, undoing = _fixture_values(
        [each for each in _required(node, is_method=is_method) if each not in given], fixtures, name, field
    )
    function = node.name if owner is None else f"_suite.{node.name}"
    begin = [] if owner is None else _suite_setup(owner)
    tests = []
    for number, parameters in enumerate(sets or [{}]):
        arguments = ", ".join(f"{key}={value}" for key, value in {**values, **parameters}.items())
        call = f"{function}({arguments})"
        if isinstance(node, ast.AsyncFunctionDef):
            call = f"import asyncio\nasyncio.run({call})"
        if undoing:
            call = "\n".join(["try:", indent(call, "    "), "finally:", *(f"    {each}" for each in undoing)])
        definition = written(node) if owner is None else _class_with(owner, node)
        label = f"{name}[{number}]" if len(sets) > 1 else name
        tests.append(Test(label, "\n".join([definition, *begin, *setup, call]), tuple(node.body)))
    return tests


def _fixture_values(
    names: list[str], fixtures: dict[str, _Function], test: str, field: str
) -> tuple[list[str], dict[str, str], list[str]]:
    statements: list[str] = []
    undoing: list[str] = []
    values: dict[str, str] = {}

    def make(name: str, users: tuple[str, ...]) -> None:
        if name in values:
            return
        fixture = fixtures.get(name)
        if fixture is None and name in _BUILT_IN:
            values[name] = f"_value_of_{name}"
            statements.append(f"{_built_in(_BUILT_IN[name])}\n{values[name]} = {_BUILT_IN[name]}()")
            if name in _CHANGING:
                undoing.insert(0, f"{values[name]}.undo()")
            return
        if fixture is None or name in users:
            raise InputError(
                f"{test} takes `{name}`, which is not a fixture of this file",
                field=field,
                hint=f"define the fixture in the tests; the built-in fixtures are {', '.join(_BUILT_IN)}",
            )
        needed = _required(fixture)
        for each in needed:
            make(each, (*users, name))
        call = f"{name}({', '.join(f'{each}={values[each]}' for each in needed)})"
        is_generator = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(fixture))
        statements.append(f"_value_of_{name} = next({call})" if is_generator else f"_value_of_{name} = {call}")
        values[name] = f"_value_of_{name}"

    for name in names:
        make(name, ())
    return statements, {name: values[name] for name in names}, undoing


def _parameter_sets(node: _Function) -> list[dict[str, str]]:
    sets: list[list[dict[str, str]]] = []
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not _decorator_name(decorator).endswith("parametrize"):
            continue
        names, values = _argument(decorator, 0, "argnames"), _argument(decorator, 1, "argvalues")
        parameters = _names_of(names)
        if not parameters or not isinstance(values, ast.List | ast.Tuple):
            return []
        is_alone = isinstance(names, ast.Constant) and len(parameters) == 1
        rows = [_row(each, is_alone=is_alone) for each in values.elts]
        if any(len(row) != len(parameters) for row in rows):
            return []
        sets.append([dict(zip(parameters, row, strict=True)) for row in rows])
    if not sets:
        return []
    return [dict(pair for part in parts for pair in part.items()) for parts in itertools.product(*sets)]


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if position < len(call.args):
        return call.args[position]
    return next((each.value for each in call.keywords if each.arg == name), None)


def _names_of(node: ast.expr | None) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [each.strip() for each in node.value.split(",") if each.strip()]
    if isinstance(node, ast.List | ast.Tuple):
        return [each.value for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return []


def _row(node: ast.expr, *, is_alone: bool) -> list[str]:
    if isinstance(node, ast.Call) and _decorator_name(node).endswith("param"):
        return [written(each) for each in node.args]
    if is_alone:
        return [written(node)]
    return [written(each) for each in node.elts] if isinstance(node, ast.List | ast.Tuple) else []


def _is_suite(node: ast.ClassDef) -> bool:
    functions = [each for each in node.body if isinstance(each, _Function)]
    has_constructor = any(each.name == "__init__" for each in functions)
    has_tests = any(each.name.startswith("test") for each in functions)
    return node.name.startswith("Test") and has_tests and not has_constructor and not _is_skipped(node)


def _tests_of_suite(node: ast.ClassDef, fixtures: dict[str, _Function], field: str) -> list[Test]:
    own = {each.name: each for each in node.body if isinstance(each, _Function) and _is_fixture(each)}
    tests: list[Test] = []
    for each in node.body:
        if isinstance(each, _Function) and each.name.startswith("test") and not _is_skipped(each):
            if set(_required(each, is_method=True)) & set(own):
                raise InputError(
                    f"{node.name}.{each.name} takes a fixture of its class",
                    field=field,
                    hint="make the fixture a function of the file",
                )
            tests += _tests_of_function(each, fixtures, field, owner=node)
    return tests


def _suite_setup(owner: ast.ClassDef) -> list[str]:
    names = {each.name: each for each in owner.body if isinstance(each, _Function)}
    begin = [f"_suite = {owner.name}()"]
    for name in ("setup_class", "setup_method"):
        if name in names:
            takes = _required(names[name], is_method=True)
            begin.append(f"_suite.{name}({', '.join('None' for _ in takes)})")
    return begin


def _is_test_case(node: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0) -> bool:
    for base in node.bases:
        name = written(base).rpartition(".")[2]
        if name.endswith("TestCase") or (
            name in classes and depth < 10 and _is_test_case(classes[name], classes, depth + 1)
        ):
            return not _is_skipped(node)
    return False


def _test_methods(node: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0) -> dict[str, _Function]:
    found: dict[str, _Function] = {}
    for base in node.bases:
        if (parent := classes.get(written(base))) is not None and depth < 10:
            found.update(_test_methods(parent, classes, depth + 1))
    for each in node.body:
        if isinstance(each, _Function) and each.name.startswith("test"):
            found[each.name] = each
    return {name: each for name, each in found.items() if not _is_skipped(each)}


# The test classes that no other class of the text is derived from: those stay in what is shared.
def _leaves(cases: list[ast.ClassDef], classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    bases = {written(base) for node in classes.values() for base in node.bases}
    return [node for node in cases if node.name not in bases]


# Each test method, run by unittest's own `debug`: `setUp`, the method, `tearDown`; what these raise is raised.
def _tests_of_case(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[Test]:
    tests = []
    is_leaf = bool(_leaves([node], classes))
    has_class_setup = "setUpClass" in {
        each.name for kind in classes.values() for each in kind.body if isinstance(each, _Function)
    }
    for name, method in _test_methods(node, classes).items():
        definition = [_class_with(node, method)] if is_leaf else []
        begin = [f"{node.name}.setUpClass()"] if has_class_setup else []
        code = "\n".join([*definition, *begin, f"{node.name}({name!r}).debug()"])
        tests.append(Test(f"{node.name}.{name}", code, tuple(method.body)))
    return tests


def _class_with(owner: ast.ClassDef, method: _Function) -> str:
    used = {node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute)}
    body = [
        each
        for each in owner.body
        if each is method
        or not (isinstance(each, _Function) and each.name.startswith("test") and each.name not in used)
    ]
    decorators = owner.decorator_list
    copy = ast.ClassDef(owner.name, owner.bases, owner.keywords, body or [ast.Pass()], decorators)
    return written(ast.fix_missing_locations(copy))


_TEST_LIBRARIES = frozenset({"unittest", "pytest", "doctest"})
# What these have to run tests with, or to collect them.
_OF_RUNS = frozenset(
    {"main", "TextTestRunner", "TestLoader", "defaultTestLoader", "TestSuite", "TestResult", "TextTestResult"}
    | {"TestProgram", "makeSuite", "findTestCases", "FunctionTestCase", "console_main", "testmod"}
)
# A check is no module, and must not end its process.
_OF_MODULES = frozenset({"main", "loadTestsFromModule", "loadTestsFromName", "loadTestsFromNames", "discover"})
_OF_PROGRAMS = frozenset({"exit", "quit", "_exit", "SystemExit", "TestProgram", "findTestCases", "testmod"})


class TestParts:
    """The statements of a file of tests: what its tests share, and what is of its tests.

    To the latter belongs what runs or collects tests: each is a check, and run by itself.
    """

    def __init__(self, statements: list[ast.stmt], tests: set[ast.stmt], tree: ast.Module) -> None:
        modules, self._imported = _names_of_runners(tree)
        gone = {name for node in tests for name in _bound_by(node)}
        self.shared: list[ast.stmt] = []
        self._of_tests: list[ast.stmt] = []
        self._runs: list[ast.stmt] = []
        for node in statements:
            if node in tests:
                self._of_tests.append(node)
            elif _used_by(node) & gone or _uses_runner(node, modules, self._imported):
                gone |= _bound_by(node)
                self._of_tests.append(node)
                self._runs.append(node)
            else:
                self.shared.append(node)

    def with_needed(self, code: str) -> str:
        """The code of a test, after the definitions of other tests, and of what runs them, that it uses."""
        tree = parse(code)
        own = {name for node in tree.body for name in _bound_by(node)}
        needed: list[ast.stmt] = []
        wanted = _used_by(tree) - own
        for node in reversed(self._of_tests):
            if _bound_by(node) & wanted:
                needed.append(node)
                wanted |= _used_by(node) - own
        return "\n".join([*map(written, reversed(needed)), code])

    def own_run(self) -> str:
        parts = [each for node in self._runs for each in ast.walk(node)]
        if not any(isinstance(each, ast.Assert | ast.Raise) for each in parts):
            return ""
        names = {each.id for each in parts if isinstance(each, ast.Name)}
        attributes = {each.attr for each in parts if isinstance(each, ast.Attribute)}
        if names & (_OF_PROGRAMS | self._imported) or attributes & (_OF_PROGRAMS | _OF_MODULES):
            return ""
        return "\n".join(map(written, self._of_tests))


def _bound_by(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}


# The names that a statement uses, those in the functions that it defines among them, but for those of its own.
def _used_by(node: ast.AST) -> set[str]:
    used: set[str] = set()
    own: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.arg(arg=name):
                own.add(name)
            case ast.For(target=target) | ast.AsyncFor(target=target) | ast.comprehension(target=target):
                own |= _bound_by(target)
            case ast.withitem(optional_vars=ast.expr() as target):
                own |= _bound_by(target)
            case _:
                continue
    return used - own


def _names_of_runners(tree: ast.Module) -> tuple[set[str], set[str]]:
    modules, runners = set(_TEST_LIBRARIES), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname for alias in node.names if alias.name in _TEST_LIBRARIES and alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module in _TEST_LIBRARIES:
            runners |= {alias.asname or alias.name for alias in node.names if alias.name in _OF_RUNS}
    return modules, runners


def _uses_runner(node: ast.stmt, modules: set[str], runners: set[str]) -> bool:
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules and attribute in _OF_RUNS:
                return True
            case ast.Name(id=name, ctx=ast.Load()) if name in runners:
                return True
            case _:
                continue
    return False
