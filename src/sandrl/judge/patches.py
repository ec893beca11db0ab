"""Determines from the source of checks, before anything runs, what they change in the process that runs them.

A check patches a function of a module, sets a variable of the environment, or seeds a generator. The guest carries such
changes to the completion's process (`guest/world.py`). If that is impossible, all completions of the problem are judged
in one process with its checks.
"""

# ruff: noqa: SIM905

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sandrl.problems import Problem
from sandrl.syntax import Syntax, syntax_of

_CALLS = {
    call: kind
    for kind, calls in {
        "directory": "os.chdir contextlib.chdir",
        "random": "random.seed random.setstate",
        "numpy.random": "numpy.random.seed numpy.random.set_state",
        "decimal": "decimal.getcontext decimal.setcontext decimal.localcontext",
        "recursion": "sys.setrecursionlimit",
        "locale": "locale.setlocale",
        "warnings": "warnings.simplefilter warnings.filterwarnings warnings.resetwarnings warnings.catch_warnings",
    }.items()
    for call in calls.split()
}
_GENERATORS = {"random": "random.", "numpy.random": "numpy.random."}
# What seeds and tells of a generator, and draws nothing.
_NO_DRAWS = frozenset("seed setstate set_state getstate get_state Random SystemRandom default_rng RandomState".split())
_LOOKS = frozenset(("os.environ.get", "os.getenv"))
_RECORDS_WARNINGS = frozenset(("assertWarns", "assertWarnsRegex", "warns"))
# Where warnings go that a check records.
_OF_WARNINGS = ("warnings.showwarning", "warnings._showwarnmsg_impl")
# Functions of the interpreter that a check may replace in a process whose own code uses the others.
_REPLACEABLE = frozenset("open print input exit quit help breakpoint".split())
# Modules that the code of both processes uses.
_OWN_PARTS = frozenset("posix _operator operator _thread _signal _ctypes marshal zlib gc".split())
_OF_SYS = frozenset(
    f"sys.{name}" for name in "modules settrace getrefcount getrecursionlimit setrecursionlimit".split()
)
# What depends on chance or on time, by the names of modules and of functions.
_CHANCE = frozenset(
    "random secrets uuid urandom shuffle choice choices randint randrange sample uniform gauss time perf_counter"
    " monotonic now today utcnow datetime getpid threading faker Faker".split()
)


@dataclass(frozen=True, slots=True)
class WorldChanges:
    """What checks change.

    Attributes:
        kinds: Kinds of changes, by the words of the guest.
        places: Attributes that are assigned to, as names with dots that begin with a module.
        obstacle: Why a change cannot be carried to another process; empty if all can be.
        looks: Whether checks also look at what a completion may have changed there.
    """

    kinds: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    obstacle: str = ""
    looks: bool = False

    def __bool__(self) -> bool:
        return bool(self.kinds or self.places)


@lru_cache(maxsize=4096)
def draws(problem: Problem) -> bool:
    """Whether what the reference of a problem returns, or its checks expect, may be another thing each time."""
    texts = (*problem.tests, problem.setup, problem.reference or "")
    return any(not _words(syntax_of(text)).isdisjoint(_CHANCE) for text in texts)


@lru_cache(maxsize=4096)
def changes_of(problem: Problem) -> WorldChanges:
    texts = [problem.setup, *problem.tests]
    if not any(_may_change(text) for text in texts):
        return WorldChanges()
    trees = [tree for text in texts if (tree := syntax_of(text).tree) is not None]
    imports: dict[str, str] = {}
    for tree in (syntax_of(problem.prelude).tree, syntax_of(problem.reference or "").tree, *trees):
        if tree is not None:
            imports.update(_imports_of(tree))
    reader = _ChangeReader(imports)
    for tree in trees:
        reader.read(tree)
    obstacle = reader.obstacle
    for generator in reader.kinds & _GENERATORS.keys():
        if _draws_itself(problem, generator) and any(_is_drawn_after(tree, generator, imports) for tree in trees):
            # Its state would have to come from the completion, which could choose what the check draws.
            obstacle = f"a check draws from {generator} after the completion, which could choose the draw"
    return WorldChanges(tuple(sorted(reader.kinds)), tuple(sorted(reader.places)), obstacle, reader.looks)


class _ChangeReader:
    def __init__(self, imports: Mapping[str, str]) -> None:
        self._imports = imports
        self.kinds: set[str] = set()
        self.places: set[str] = set()
        self.obstacle = ""
        self.looks = False

    def read(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._read_call(node)
            elif isinstance(node, ast.Attribute):
                self._read_attribute(node)
            elif isinstance(node, ast.Name):
                self._read_name(self._imports.get(node.id))
            elif isinstance(node, ast.Subscript):
                self.looks |= isinstance(node.ctx, ast.Load) and _dotted(node.value, self._imports) == "os.environ"
            elif isinstance(node, ast.Compare):
                self.looks |= any(_dotted(each, self._imports) == "os.environ" for each in node.comparators)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                if any(f"{module}{alias.name}".startswith(("unittest.mock", "mock")) for alias in node.names):
                    self.kinds.add("mock")

    def _read_attribute(self, node: ast.Attribute) -> None:
        name = _dotted(node, self._imports)
        if name is None:
            return
        self._read_name(name)
        if isinstance(node.ctx, ast.Load):
            return
        if name.startswith("decimal.getcontext."):
            self.kinds.add("decimal")
        elif name != "os.environ":
            self._add_place(name)

    def _read_name(self, name: str | None) -> None:
        if name in ("os.environ", "os.putenv"):
            self.kinds.add("environ")
        elif name is not None and name.startswith("unittest.mock"):
            self.kinds.add("mock")

    def _add_place(self, name: str) -> None:
        self._look_for_obstacle(name)
        self.places.add(name)

    def _look_for_obstacle(self, name: str) -> None:
        if name.startswith("builtins.") and name.removeprefix("builtins.") not in _REPLACEABLE:
            if name.removeprefix("builtins.") in vars(builtins):
                self.obstacle = f"a check replaces {name}, which both processes use"
        elif name.partition(".")[0] in _OWN_PARTS or name in _OF_SYS:
            self.obstacle = f"a check replaces {name}, which both processes use"

    def _read_call(self, node: ast.Call) -> None:
        name = _dotted(node.func, self._imports) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        last = name.rpartition(".")[2]
        if name in ("setattr", "delattr") and node.args:
            self._read_setting(node.args[0], node.args[-1 if len(node.args) < 2 else 1])
        self.looks |= name in _LOOKS
        if name in _CALLS:
            self.kinds.add(_CALLS[name])
        if name == "warnings.catch_warnings" or last in _RECORDS_WARNINGS:
            self.kinds.add("warnings")
            self.places.update(_OF_WARNINGS)
        if last == "PropertyMock":
            self.obstacle = "a check replaces a property (`PropertyMock`), which cannot be carried"
        target = node.args[0] if node.args else None
        if last == "patch" and isinstance(target, ast.Constant):
            self._look_for_obstacle(str(target.value))
        elif name.endswith("patch.object") and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            self._look_for_obstacle(f"{_dotted(node.args[0], self._imports)}.{node.args[1].value!s}")

    def _read_setting(self, owner: ast.expr, attribute: ast.expr) -> None:
        # An attribute that `setattr` sets; pytest's may be given it as one text, with dots.
        name = _dotted(owner, self._imports)
        if isinstance(owner, ast.Constant):
            self._add_place(str(owner.value))
        elif name is None:
            return
        elif isinstance(attribute, ast.Constant):
            self._add_place(f"{name}.{attribute.value!s}")
        else:
            self.obstacle = f"a check sets attributes of {name} whose names are not in the source of the check"


# What a text has that changes something of the world.
_SIGNS = ("patch", "mock", "environ", "putenv", "chdir", "seed(", "state(", "setattr", "delattr", "context(")
_MORE_SIGNS = ("setrecursionlimit", "setlocale", "warn", "Warn")


def _may_change(text: str) -> bool:
    # Whether a text may change the world: a look at the text alone, which most checks pass.
    if any(sign in text for sign in (*_SIGNS, *_MORE_SIGNS)):
        return True
    return "import" in text and any(not isinstance(node.ctx, ast.Load) for node in syntax_of(text).of(ast.Attribute))


def _imports_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.expr, imports: Mapping[str, str]) -> str | None:
    # What names with dots stand for, if they begin with a module; a call counts as what it calls.
    if isinstance(node, ast.Name):
        if node.id in imports:
            return imports[node.id]
        return node.id if node.id in sys.stdlib_module_names or node.id in ("setattr", "delattr") else None
    if isinstance(node, ast.Call):
        return _dotted(node.func, imports)
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, imports)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _draws_itself(problem: Problem, generator: str) -> bool:
    # Whether a completion may be expected to draw from a generator: its reference does, or there is none.
    if problem.reference is None:
        return True
    tree = syntax_of(problem.reference).tree
    if tree is None:
        return True
    imports = dict(_imports_of(tree))
    names = [_dotted(node, imports) or "" for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)]
    return any(name.startswith(_GENERATORS[generator]) for name in names)


def _is_drawn_after(tree: ast.Module, generator: str, imports: Mapping[str, str]) -> bool:
    # Whether a text draws from a generator, which it has seeded, after it has called something that may draw, too.
    state = ""
    for event in _events(tree, generator, imports):
        if event == "draw" and state == "called":
            return True
        if event == "seed" or (event == "call" and state == "seeded"):
            state = "seeded" if event == "seed" else "called"
    return False


def _events(node: ast.AST, generator: str, imports: Mapping[str, str]) -> Iterator[str]:
    # Seeds, draws and other calls of names that no import binds, in the order in which they happen; loops twice.
    body = list(ast.iter_child_nodes(node))
    for part in body + body * isinstance(node, ast.For | ast.While | ast.AsyncFor):
        yield from _events(part, generator, imports)
    if not isinstance(node, ast.Call):
        return
    name = _dotted(node.func, imports) or ""
    if name.startswith(_GENERATORS[generator]) and "." not in name.removeprefix(_GENERATORS[generator]):
        if name.rpartition(".")[2] in ("seed", "setstate", "set_state"):
            yield "seed"
        elif name.rpartition(".")[2] not in _NO_DRAWS:
            yield "draw"
    elif not name and not _is_own_call(node.func):
        yield "call"


def _is_own_call(function: ast.expr) -> bool:
    # Whether what is called is a builtin function, or a method of the test case: an assertion.
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id == "self"
    return isinstance(function, ast.Name) and function.id in vars(builtins)


def _words(syntax: Syntax) -> set[str]:
    names = {node.id for node in syntax.of(ast.Name)} | {node.attr for node in syntax.of(ast.Attribute)}
    return names.union(*map(words_of_import, syntax.imports))


def words_of_import(node: ast.Import | ast.ImportFrom) -> set[str]:
    modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return {part for name in (*modules, *(alias.name for alias in node.names)) for part in name.split(".")}
