"""Compiles arbitrary texts as Python, in a process with threads.

CPython 3.11 raises `SystemError` if several threads build syntax trees at the same time. So one lock protects every
syntax tree here, and a tree is built again if a thread of another library, which does not use the lock, disturbed it:
`inspect.signature`, for example, builds trees. All errors of the compiler become one error.
"""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeVar, cast

_LOCK = threading.RLock()
_REFUSALS = (ValueError, RecursionError, MemoryError, OverflowError, SystemError)
_LONGEST_KEPT_CHARACTERS = 20_000
_WITHOUT_NODES = frozenset(("ctx", "id", "attr", "type_comment"))
# So often in a row nothing but the text disturbs the compiler.
_MOST_DISTURBANCES = 20


_Node = TypeVar("_Node", bound=ast.AST)


@contextmanager
def compiling() -> Iterator[None]:
    """Gives a `with` block the compiler for itself; warnings about the text are not shown.

    Raises:
        SyntaxError: If the block's text is no Python, or too much of it.
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except _REFUSALS as error:
            raise SyntaxError(str(error) or type(error).__name__) from error


def parse(text: str | bytes) -> ast.Module:
    """The syntax tree of a text.

    Raises:
        SyntaxError: If it is no Python, or too much of it.
    """
    return cast("ast.Module", _tree_of(text, "exec"))


def try_parse(text: str) -> ast.Module | None:
    """The syntax tree of a text; None if it is no Python, or too much of it."""
    try:
        return parse(text)
    except SyntaxError:
        return None


def written(node: ast.AST) -> str:
    """A syntax tree as text that every Python from 3.8 on reads.

    Python 3.12 and later write a string inside an f-string in the quotes of the f-string, which older ones do not read.
    """
    if any(isinstance(each, ast.JoinedStr) and _has_strings(each) for each in ast.walk(node)):
        node = _WithoutNestedQuotes().visit(deepcopy(node))
    return ast.unparse(node)


def _has_strings(text: ast.JoinedStr) -> bool:
    values = [each.value for each in ast.walk(text) if isinstance(each, ast.FormattedValue)]
    return any(
        isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for value in values
        for each in ast.walk(value)
    )


class _WithoutNestedQuotes(ast.NodeTransformer):
    # `f"{a['b']!r:>{n}}"` becomes `"{!r:>{}}".format(a['b'], n)`.
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        if not _has_strings(node):
            return node
        values: list[ast.expr] = []
        template = ast.Constant(self._template(node, values))
        return ast.copy_location(ast.Call(ast.Attribute(template, "format", ast.Load()), values, []), node)

    def _template(self, node: ast.JoinedStr, values: list[ast.expr]) -> str:
        parts = []
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                values.append(self.visit(each.value))
                conversion = "" if each.conversion == -1 else f"!{chr(each.conversion)}"
                spec = self._template(each.format_spec, values) if isinstance(each.format_spec, ast.JoinedStr) else ""
                parts.append(f"{{{conversion}{spec and f':{spec}'}}}")
            elif isinstance(each, ast.Constant):
                parts.append(str(each.value).replace("{", "{{").replace("}", "}}"))
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Syntax:
    """The syntax of a text: its tree, which must not be changed, and its nodes by type, in the order of `ast.walk`.

    The tree is None if the text is no Python, or too much of it; there are no nodes then. The nodes that only say
    whether a name is loaded or stored are left out.
    """

    tree: ast.Module | None
    nodes: Mapping[type[ast.AST], Sequence[ast.AST]]

    def of(self, kind: type[_Node]) -> Sequence[_Node]:
        """The nodes of a type, not those of its subclasses."""
        return cast("Sequence[_Node]", self.nodes.get(kind, ()))

    @property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        return [*self.of(ast.Import), *self.of(ast.ImportFrom)]


def syntax_of(text: str) -> Syntax:
    """The syntax of a text; that of the last short texts is kept."""
    return _kept_syntax(text) if len(text) <= _LONGEST_KEPT_CHARACTERS else _syntax(text)


def _syntax(text: str) -> Syntax:
    tree = try_parse(text)
    if tree is None:
        return Syntax(None, {})
    nodes: list[ast.AST] = [tree]
    kinds: dict[type[ast.AST], list[ast.AST]] = {}
    for node in nodes:  # the list grows meanwhile
        kind = type(node)
        if kind not in kinds:
            kinds[kind] = []
        kinds[kind].append(node)
        for name in _fields_with_nodes(node._fields):
            value = getattr(node, name, None)
            if isinstance(value, list):
                nodes += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return Syntax(tree, kinds)


@cache
def _fields_with_nodes(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in _WITHOUT_NODES)


# As many as the texts of a few problems: what is asked about a check is asked when its problem is prepared.
_kept_syntax = lru_cache(maxsize=256)(_syntax)


def parse_expression(text: str) -> ast.Expression:
    """The syntax tree of an expression; for errors see `parse`."""
    return cast("ast.Expression", _tree_of(text, "eval"))


def _tree_of(text: str | bytes, mode: str) -> ast.AST:
    with compiling():
        for _ in range(_MOST_DISTURBANCES):
            with suppress(SystemError):
                return ast.parse(text, mode=mode)
        return ast.parse(text, mode=mode)
