"""Separates a file of tests: the statements that its tests share, and those that define or run the tests.

A file that runs its own tests is read like a file that leaves this to a runner. Statements that run or collect tests
are recognised by the names that they use: names of tests, names of objects made of tests, and the names of test
libraries for this purpose.
"""

from __future__ import annotations

import ast

from sandrl.syntax import parse

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
        return "\n".join([*map(ast.unparse, reversed(needed)), code])

    def own_run(self) -> str:
        """See `TestFile`."""
        parts = [each for node in self._runs for each in ast.walk(node)]
        if not any(isinstance(each, ast.Assert | ast.Raise) for each in parts):
            return ""
        names = {each.id for each in parts if isinstance(each, ast.Name)}
        attributes = {each.attr for each in parts if isinstance(each, ast.Attribute)}
        if names & (_OF_PROGRAMS | self._imported) or attributes & (_OF_PROGRAMS | _OF_MODULES):
            return ""
        return "\n".join(map(ast.unparse, self._of_tests))


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
