"""Compiles arbitrary texts as Python, in a process with threads.

CPython 3.11 raises `SystemError` if several threads build syntax trees at the same time. So one lock protects every
syntax tree here, and a tree is built again if a thread of another library, which does not use the lock, disturbed it:
`inspect.signature`, for example, builds trees. All errors of the compiler become one error.
"""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import cast

_LOCK = threading.RLock()
_REFUSALS = (ValueError, RecursionError, MemoryError, OverflowError, SystemError)
_LONGEST_KEPT_CHARACTERS = 20_000
# So often in a row nothing but the text disturbs the compiler.
_MOST_DISTURBANCES = 20


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


def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """The nodes of a text, which are kept, so they must not be changed; none if it is no Python."""
    return _kept_nodes(text) if len(text) <= _LONGEST_KEPT_CHARACTERS else _nodes(text)


def _nodes(text: str) -> tuple[ast.AST, ...]:
    tree = try_parse(text)
    return () if tree is None else tuple(ast.walk(tree))


# As many as the texts of a few problems: what is asked about a check is asked when its problem is prepared.
_kept_nodes = lru_cache(maxsize=256)(_nodes)


def parse_expression(text: str) -> ast.Expression:
    """The syntax tree of an expression; for errors see `parse`."""
    return cast("ast.Expression", _tree_of(text, "eval"))


def _tree_of(text: str | bytes, mode: str) -> ast.AST:
    with compiling():
        for _ in range(_MOST_DISTURBANCES):
            with suppress(SystemError):
                return ast.parse(text, mode=mode)
        return ast.parse(text, mode=mode)
