"""Names that are in no program: types, and what the loaders of programs add (`BOOTSTRAP` in `program.py`, `worker.py`).

Type checkers and tests find them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandrl.judge.guest.baseline import Baseline
    from sandrl.judge.guest.supervisor import ChildExit

Libc = Callable[..., int]
Request = dict[str, Any]
Say = Callable[[bytes], None]
# How one check went, as a letter, and why.
Checked = tuple[str, str]
# What a failed check got and expected, None where that is not known, the line that failed (0: not known), and where an
# excerpt of a case's output begins, as numbers of lines and characters.
Excerpt = tuple["str | None", "str | None", int, tuple[int, int]]
# The same of a check that ran in Python.
Sides = tuple["str | None", "str | None", int]
# What a value of another process is here: a plain value, or how it is to be shown; None if it is a value as any.
Plain = Callable[[object], "tuple[object, str] | None"]
# Status, detail and perhaps a score of a case, from what it printed, its number from 0 and the hidden part.
Outcome = tuple[str, str, "float | None"]
Compare = Callable[[bytes, int, Request], Outcome]
# Runs a case, of which number, for how many seconds, with which limit to name.
RunCase = Callable[[Request, int, float, float, "Baseline"], "tuple[ChildExit, str, str]"]
# Judges a program by its exit status and the words that it said last.
JudgeExit = Callable[["ChildExit", int, "list[bytes]"], "tuple[str, str]"]
# How a program in another language is built and run.
Plan = dict[str, Any]

request_size = 0
"""Bytes of the request on standard input."""


def load_rest() -> None:
    """Loads the files of the program that come after the fork: in tests, they are loaded."""
