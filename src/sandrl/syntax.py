"""Compiles arbitrary texts as Python, in a process with threads.

One lock protects every syntax tree, because CPython 3.11 raises `SystemError` if several threads build syntax trees at
the same time. All errors of the compiler become one error.
"""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.RLock()
_REFUSALS = (ValueError, RecursionError, MemoryError, OverflowError, SystemError)


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
    with compiling():
        return ast.parse(text)
