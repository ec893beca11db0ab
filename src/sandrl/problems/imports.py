"""The modules that code imports, anywhere in it."""

from __future__ import annotations

import ast
import sys

from sandrl.syntax import parse

# The module of the answer, and a library of tests for which there is a stand-in.
_PROVIDED = frozenset({"solution", "pytest"})


def third_party_imports(*codes: str) -> tuple[str, ...]:
    """The modules outside the standard library that code imports, sorted; of code that is no Python, none."""
    return tuple(sorted(imported_modules(*codes) - sys.stdlib_module_names - _PROVIDED))


def imported_modules(*codes: str) -> frozenset[str]:
    """The modules that code imports, by their first names; of code that is no Python, none."""
    names: set[str] = set()
    for code in codes:
        if "import" not in code:
            continue
        try:
            nodes = list(ast.walk(parse(code)))
        except SyntaxError:
            continue
        for node in nodes:
            if isinstance(node, ast.Import):
                names.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                names.add(node.module.partition(".")[0])
    return frozenset(names)
