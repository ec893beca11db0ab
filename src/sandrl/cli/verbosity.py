"""How much a command prints: everything, a bounded summary, or only its result (`--verbose`, `--quiet`).

Every command that works on many items uses this module, so a file of its output stays short, also with thousands of
items. Results go to standard output; progress, logs, warnings and errors go to standard error. `--quiet` hides neither
warnings nor errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Annotated, TypeVar

import typer

from sandrl.errors import UsageError

MOST_LINES = 20
"""How many lines of a kind are printed one by one, unless all were asked for."""

INTERVAL_SECONDS = 5.0
"""The time between two lines of a kind after that."""

_Item = TypeVar("_Item")

Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Print a line for every item and event, also if there are thousands, and no live table."
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the result, and warnings and errors on standard error.")
]


class Verbosity(IntEnum):
    """How much is printed."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_chosen = Verbosity.NORMAL


def choose_verbosity(*, verbose: bool, quiet: bool) -> None:
    """Sets how much the command of this process prints.

    Raises:
        UsageError: If both are asked for.
    """
    global _chosen
    if verbose and quiet:
        raise UsageError("--verbose and --quiet cannot be used together", hint="leave one of them out")
    _chosen = Verbosity.VERBOSE if verbose else Verbosity.QUIET if quiet else Verbosity.NORMAL


def is_verbose() -> bool:
    """Whether every line is printed."""
    return _chosen is Verbosity.VERBOSE


def is_quiet() -> bool:
    """Whether only the result is printed."""
    return _chosen is Verbosity.QUIET


def note(text: str) -> None:
    """Prints on standard error what belongs to the result but is not it: where the run is, what it used."""
    if not is_quiet():
        typer.echo(text, err=True)


def first(items: Sequence[_Item]) -> Sequence[_Item]:
    """Those of many items that are printed one by one."""
    return items if is_verbose() else items[:MOST_LINES]


def first_lines(lines: Sequence[str], *, more: str = "--verbose shows all") -> list[str]:
    """The first of many lines, and one that says how many there are and what shows them."""
    shown = first(lines)
    left_out = len(lines) - len(shown)
    return [*shown, f"  … and {left_out} more: {more}"] if left_out else [*shown]


def print_first(lines: Sequence[str]) -> None:
    """Prints lines on standard output, the first of them if they are many."""
    for line in first_lines(lines):
        typer.echo(line)


class Sparing:
    """Decides which lines of a kind are printed: the first ones, then one every few seconds, and the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: dict[str, int] = {}
        self._times: dict[str, float] = {}
        self._left_out: dict[str, int] = {}
        self._held: dict[str, str] = {}

    def take(self, kind: str, text: str) -> str | None:
        """Takes a line; returns it, with the number of lines left out before it, or None if it is left out, too."""
        now = self._clock()
        shown = self._shown.get(kind, 0)
        if not is_verbose() and shown >= MOST_LINES and now - self._times[kind] < INTERVAL_SECONDS:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            self._held[kind] = text
            return None
        return self._release(kind, text, now)

    def rest(self) -> dict[str, str]:
        """The last line of each kind, where it was left out."""
        lines = {}
        for kind, text in list(self._held.items()):
            self._left_out[kind] -= 1
            lines[kind] = self._release(kind, text, self._clock())
        return lines

    def _release(self, kind: str, text: str, now: float) -> str:
        self._shown[kind] = self._shown.get(kind, 0) + 1
        self._times[kind] = now
        self._held.pop(kind, None)
        left_out = self._left_out.pop(kind, 0)
        return f"{text} ({left_out} lines like this one left out; --verbose)" if left_out else text
