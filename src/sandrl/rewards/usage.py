"""Determines from the source of a problem's checks how they use the definitions of a completion.

For a problem without a reference, there is no other source that a completion cannot influence. This module answers two
questions: which names the checks use as classes, and whether the checks do something that only means the same in one
process.
"""

# ruff: noqa: SIM905

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Set
from functools import lru_cache

from sandrl.problems import Problem
from sandrl.problems.calls import function_of
from sandrl.rewards.patches import changes_of
from sandrl.rewards.reference import reference_of
from sandrl.syntax import parse

# What a check may use that acts on its own process, and so misses the completion's: modules that replace functions,
# record warnings and logs, start threads, or look into functions and classes instead of calling them; and names, which
# count as attributes of a module, too.
_MODULES = frozenset(
    "mock inspect gc weakref threading multiprocessing warnings logging signal tracemalloc contextvars locale traceback"
    " linecache atexit ctypes dataclasses dis faulthandler resource symtable".split()
)
_NAMES = frozenset(
    "patch monkeypatch capsys capfd caplog seed getstate setstate settrace setprofile globals locals vars id super"
    " environ putenv chdir getcwd argv setrecursionlimit getrecursionlimit getrefcount asdict astuple fields"
    " is_dataclass get_type_hints Thread ThreadPoolExecutor ProcessPoolExecutor Queue Event Condition Semaphore Future"
    " TaskGroup ContextVar SimpleNamespace".split()
)
# Of these, what is carried to the completion's process.
_CARRIED = frozenset(
    "mock patch monkeypatch warnings locale seed getstate setstate environ chdir getcwd argv setrecursionlimit"
    " getrecursionlimit assertWarns assertWarnsRegex".split()
)
# Methods of `TestCase` that record what happens in their process.
_METHODS = frozenset("assertLogs assertNoLogs assertWarns assertWarnsRegex".split())
# What makes code of a text or of bytes: it must not run in the judge.
_RUNS_CODE = frozenset(
    "eval exec __import__ system popen spawn pickle marshal shelve importlib runpy subprocess".split()
)


# Functions that are asked about objects, and seldom about plain values.
_OF_OBJECTS = frozenset("repr hash isinstance type dir iter next hasattr getattr setattr copy deepcopy".split())


# What a check makes of the difference of two numbers.
_OF_DIFFERENCES = frozenset(("abs", "round", "float"))


@lru_cache(maxsize=4096)
def needs_one_process(problem: Problem) -> bool:
    """Whether a check does something that may mean another thing when the completion is in another process.

    Such a check is tried apart from the completion all the same; a completion that fails it there is judged once more,
    in one process with the check.
    """
    changes = changes_of(problem)
    reasons = _MODULES | _METHODS | _NAMES | _RUNS_CODE
    if not changes.obstacle and not changes.looks:
        reasons -= _CARRIED
    for text in (problem.setup, *problem.tests):
        for node in _nodes(text):
            if isinstance(node, ast.AsyncFunctionDef) or (isinstance(node, ast.ClassDef) and not _holds_tests(node)):
                return True
            if not _words(node).isdisjoint(reasons):
                return True
    return False


def _holds_tests(node: ast.ClassDef) -> bool:
    """Whether a class only holds test functions: a `TestCase`, or a class that pytest collects."""
    bases = [ast.unparse(base) for base in node.bases]
    return all(base.endswith("TestCase") for base in bases) and (bool(bases) or node.name.startswith("Test"))


def _words(node: ast.AST) -> set[str]:
    """The names that a node of a check mentions."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute):
        # `user.id` is an attribute of an object, `random.seed` one of a module.
        is_of_module = isinstance(node.value, ast.Name) and node.value.id in sys.stdlib_module_names
        return {node.attr} if is_of_module or node.attr in _MODULES | _METHODS else set()
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        return {part for name in (*modules, *(alias.name for alias in node.names)) for part in name.split(".")}
    return set()


@lru_cache(maxsize=4096)
def class_names(problem: Problem) -> frozenset[str]:
    """The names that checks use as classes of the completion.

    With a reference, these are its classes. Without one, a name counts that looks like a class; a name of capital
    letters only, which may be a function's, counts if it is also used like a class.
    """
    if problem.fn is not None:
        return frozenset({function_of(problem.fn)[0]})
    reference = reference_of(problem)
    if reference is not None:
        return reference.classes | {name for name in reference.names if _looks_like_class(name)}
    named = {node.id for node in _all_nodes(problem) if isinstance(node, ast.Name)}
    return frozenset(
        name for name in named if _looks_like_class(name) or (name[:1].isupper() and name in comparable_names(problem))
    )


@lru_cache(maxsize=4096)
def comparable_names(problem: Problem) -> frozenset[str]:
    """The classes whose own `==` and `<` may compare objects that a check makes with plain values.

    A completion's word does not count: it could define a class in the place of a function, and let its objects equal
    anything. So the problem must show that it means a class: its prompt declares the name, the checks use the name
    without calling it, take attributes of what is no module and no literal, or never compare what the call returns with
    a literal.
    """
    if problem.fn is not None:
        return frozenset()  # what a call returns is compared with plain values only
    if reference_of(problem) is not None:
        return class_names(problem)
    nodes = _all_nodes(problem)
    named = {node.id for node in nodes if isinstance(node, ast.Name) and node.id[:1].isupper()}
    return frozenset(name for name in named if _is_declared(name, problem) or _is_used_as_class(name, nodes))


def _looks_like_class(name: str) -> bool:
    return name[:1].isupper() and name[1:2].islower()


def _is_declared(name: str, problem: Problem) -> bool:
    """Whether the prompt says that a name is a class."""
    return re.search(rf"\bclass(?:es)?[\s`*]+{re.escape(name)}\b", problem.prompt) is not None


def _is_used_as_class(name: str, nodes: list[ast.AST]) -> bool:
    modules = sys.stdlib_module_names | {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    is_compared = False
    for node in nodes:
        if isinstance(node, ast.Attribute) and not (_is_literal(node.value) or _is_name(node.value, modules)):
            return True
        if (_is_name(node, {name}) and id(node) not in called) or _is_of_objects(node, name):
            return True
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.In | ast.NotIn):
            sides = [node.left, *node.comparators]
            is_compared |= any(_is_made_of(side, name) for side in sides) and any(map(_is_literal, sides))
    return not is_compared


def _is_of_objects(node: ast.AST, name: str) -> bool:
    """Whether a node does with what a name's call returns what is done with objects: relates two, or looks into one."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _OF_OBJECTS and _is_any_call(node.args, name)
    if isinstance(node, ast.Compare):
        return _is_call(node.left, name) and _is_any_call(node.comparators, name)
    if isinstance(node, ast.BinOp):
        return _is_call(node.left, name) and _is_call(node.right, name)
    if isinstance(node, ast.Dict):
        return _is_any_call([key for key in node.keys if key is not None], name)
    return isinstance(node, ast.Set) and _is_any_call(node.elts, name)


def _is_any_call(nodes: list[ast.expr], name: str) -> bool:
    return any(_is_call(node, name) for node in nodes)


def _is_made_of(node: ast.AST, name: str) -> bool:
    """Whether a value is that of a name's call, or its difference from another one, as of two numbers."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OF_DIFFERENCES:
        return any(isinstance(argument, ast.BinOp) and _is_made_of(argument, name) for argument in node.args)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return any(_is_call(side, name) and not _is_any_call([other], name) for side, other in _both_ways(node))
    return _is_call(node, name)


def _both_ways(node: ast.BinOp) -> tuple[tuple[ast.expr, ast.expr], ...]:
    return (node.left, node.right), (node.right, node.left)


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and _is_name(node.func, {name})


def _is_name(node: ast.AST, names: Set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_literal(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.List | ast.Tuple | ast.Dict | ast.Set)


def _all_nodes(problem: Problem) -> list[ast.AST]:
    return [node for text in (problem.setup, *problem.tests) for node in _nodes(text)]


def _nodes(text: str) -> Iterator[ast.AST]:
    try:
        return ast.walk(parse(text))
    except SyntaxError:
        return iter(())
