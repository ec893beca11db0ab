"""Reads from a problem's reference which names, modules and operators its checks mean.

The reference is the only source for this that no completion can influence. A name that it imports but does not define
is the judge's own; names that it does not contain belong neither to the judge nor to the completion.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from sandrl.problems import Problem
from sandrl.problems.calls import function_of
from sandrl.syntax import compiling, syntax_of, try_parse

_BUILTINS = frozenset(dir(builtins))
_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")


@dataclass(frozen=True, slots=True)
class Reference:
    """What a reference says: what it defines at its top level, and its imports, by the names that they bind there.

    Attributes:
        methods: The special methods that its classes have.
    """

    names: frozenset[str]
    imports: Mapping[str, str]
    methods: frozenset[str]
    classes: frozenset[str]


@lru_cache(maxsize=4096)
def read_reference(text: str) -> Reference | None:
    """What a reference says; None if it cannot be read."""
    tree = try_parse(text)
    if tree is None:
        return None
    names = _names_of(tree, text)
    if names is None:
        try:
            with compiling():
                symbols = symtable.symtable(text, "<reference>", "exec").get_symbols()
        except SyntaxError:
            return None
        names = {symbol.get_name() for symbol in symbols if symbol.is_assigned() and not symbol.is_imported()}
    imports = {}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                imports[(alias.asname or alias.name).partition(".")[0]] = ast.unparse(node)
    methods = set(re.findall(r"\b__\w+__\b", text))
    if "total_ordering" in text or "order=True" in text.replace(" ", ""):
        methods.update(_ORDER)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return Reference(frozenset(names), imports, frozenset(methods), frozenset(classes))


# Statements that bind names at the top level otherwise, or that the compiler may refuse for these names.
_UNUSUAL = re.compile(r":=|\b(?:global|nonlocal|async|await|yield)\b|\bimport[ \t(]*\*")


def _names_of(tree: ast.Module, text: str) -> set[str] | None:
    # What definitions and assignments bind; None if the table of symbols must tell, which takes longer.
    if _UNUSUAL.search(text) is not None:
        return None
    names: set[str] = set()
    imported: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
            case ast.Import() | ast.ImportFrom():
                imported |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            case ast.Expr():
                pass
            case _:
                return None
    return names - imported


@lru_cache(maxsize=4096)
def _words_of(texts: tuple[str, ...]) -> frozenset[str]:
    read = [syntax_of(text) for text in texts]
    names = {node.id for each in read for node in each.of(ast.Name)}
    attributes = {node.attr for each in read for node in each.of(ast.Attribute)}
    return frozenset((names | attributes) - _BUILTINS)


def reference_of(problem: Problem) -> Reference | None:
    """What a problem's reference says; None if it has none, or one that says nothing about its checks.

    An empty one, or one that defines none of the names that the checks use, is no witness of what they mean: judged by
    it, every completion would use names that nobody defines.
    """
    if problem.reference is None:
        return None
    found = read_reference(problem.reference)
    if found is None or not problem.tests:
        return found
    used = _words_of((*problem.tests, problem.setup))
    return None if used and not used & (found.names | found.imports.keys()) else found


# What a plain check is made of: calls by name, literals, and what operators make of them.
_PLAIN = (
    ast.Module, ast.Assert, ast.Call, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Compare, ast.BoolOp, ast.BinOp,
    ast.UnaryOp, ast.keyword, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_IDENTITY = (ast.Is, ast.IsNot)
_PLAIN_BUILTINS = frozenset(
    {"abs", "all", "any", "bool", "float", "int", "len", "list", "max", "min", "round", "set", "sorted", "str"}
    | {"sum", "tuple"}
)


@lru_cache(maxsize=16384)
def is_plain(test: str) -> bool:
    """Whether a check does nothing but call functions with literals and compare what they return.

    Such a check means the same wherever it runs.
    """
    syntax = syntax_of(test)
    called = {id(node.func) for node in syntax.of(ast.Call)}
    return (
        syntax.tree is not None
        and all(kind is ast.Name or issubclass(kind, _PLAIN) for kind in syntax.nodes)
        and not any(kind in syntax.nodes for kind in _IDENTITY)
        and all(id(node) in called and _is_function(node.id) for node in syntax.of(ast.Name))
    )


def _is_function(name: str) -> bool:
    # Whether a name is that of a harmless builtin, or may be that of a function of a completion, by its look.
    is_class = name[:1].isupper() and name[1:2].islower()
    return name in _PLAIN_BUILTINS or not (is_class or hasattr(builtins, name))


def names_under_test(problem: Problem) -> frozenset[str]:
    """Names that the problem asks a completion to define: its entry point, and what its reference defines.

    Only these may stand for the completion's object where a check uses the name of a builtin (MBPP has a task whose
    answer is `sum`). A `set` that a completion defines so that all things are equal is not what a check means.
    """
    names = frozenset(function_of(problem.fn) if problem.fn else {problem.entry_point} if problem.entry_point else ())
    reference = reference_of(problem)
    return names if reference is None else names | reference.names
