"""Preludes: code that a set of problems guarantees to every completion, because its other graders run it first.

A problem has no prelude unless its row requests one: names from a star import hide mistakes, such as a missing import,
that would make the code fail in real use.
"""

from __future__ import annotations

STANDARD_NAME = "standard"

_STAR_MODULES = (
    "string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics", "itertools",
    "functools", "operator", "io", "json", "typing",
)  # fmt: skip
# After the star imports, because some modules have names of builtins and of modules: `re.compile`, `datetime.datetime`.
_MODULES = ("builtins", *(module for module in _STAR_MODULES if module != "typing"), "os", "sys")

STANDARD = (
    "\n".join(f"from {module} import *" for module in (*_STAR_MODULES, "builtins"))
    + "\n"
    + "\n".join(f"import {module}" for module in _MODULES)
    + "\n"
)
"""The names that graders of LiveCodeBench and sets like it provide."""


def prelude_of(field: str | None) -> str:
    """The prelude that the field of a row stands for: `standard`, or code; `ValueError` if it is no Python."""
    if not field or field == STANDARD_NAME:
        return STANDARD if field else ""
    try:
        compile(field, "<prelude>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ValueError(f"must be `standard` or valid Python: {reason}") from error
    return field
