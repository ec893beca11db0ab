"""Prints why a completion failed: the failed check, its line, and a diff of the expected and the actual value."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sandrl.cli.text import visible, visible_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from sandrl.runs import ProblemRow
    from sandrl.runs.explanations import FailedCheck

_MOST_CHECKS = 5
_MOST_LINES = 40
_LINES_AROUND = 3
_LONGEST_LINE = 500


def print_prompt(console: Console, problem: ProblemRow, *, full: bool) -> None:
    """Prints what the model was asked."""
    from rich.text import Text

    console.print(Text("prompt:"), style="cyan")
    console.print(Text(_block(problem.prompt.strip("\n"), full=full)))


def print_failed_checks(console: Console, checks: Sequence[FailedCheck], *, full: bool) -> None:
    """Prints the checks that failed: the first few, unless all are asked for."""
    from rich.text import Text

    shown = checks if full else checks[:_MOST_CHECKS]
    for check in shown:
        title = Text(f"failed check {check.number}", style="bold red")
        title.append(f" {visible(check.name)}" if check.name else "")
        title.append("  (not in the prompt)" if check.is_hidden else "", style="dim")
        console.print(title)
        for line in _lines_of(check, full=full):
            console.print(Text("   ").append_text(line))
    if len(shown) < len(checks):
        console.print(Text(f"   … {len(checks) - len(shown)} more failed checks (--full)"), style="dim")


def _lines_of(check: FailedCheck, *, full: bool) -> Iterator[Text]:
    from rich.text import Text

    if check.source:
        yield from _source(check, full=full)
    if check.stdin is not None:
        yield Text("stdin:", style="cyan")
        yield from (Text(f"  {line}") for line in _block(check.stdin.rstrip("\n"), full=full).split("\n"))
    if check.got is not None:
        yield from _comparison(check, full=full)
    elif check.expected is not None:
        yield Text("expected:", style="cyan")
        yield from (Text(f"  {line}") for line in _block(check.expected.rstrip("\n"), full=full).split("\n"))
    if check.detail:
        yield Text(visible(check.detail), style="red")


def _source(check: FailedCheck, *, full: bool) -> Iterator[Text]:
    # The source of a check, the line that failed marked; of a long one, what is around that line.
    from rich.text import Text

    lines = check.source.rstrip("\n").split("\n")
    first, last = 0, len(lines)
    if not full and len(lines) > _MOST_LINES:
        middle = check.line or 1
        first, last = max(middle - 1 - _LINES_AROUND, 0), min(middle + _LINES_AROUND, len(lines))
    if first:
        yield Text(f"  … {first} lines", style="dim")
    for number, line in enumerate(lines[first:last], first + 1):
        is_marked = number == check.line and len(lines) > 1
        mark = "> " if is_marked else "  "
        yield Text(mark + _block(line, full=full), style="bold" if is_marked else "")
    if last < len(lines):
        yield Text(f"  … {len(lines) - last} lines", style="dim")


def _comparison(check: FailedCheck, *, full: bool) -> Iterator[Text]:
    from rich.text import Text

    got = _block((check.got or "").rstrip("\n"), full=full)
    if check.expected is None:
        yield Text(f"got       {got}".replace("\n", "\n   "))
        return
    expected = _block(check.expected.rstrip("\n"), full=full)
    if "\n" not in got and "\n" not in expected:
        yield Text("expected  ", style="cyan").append(expected, style="green")
        yield Text("got       ", style="cyan").append(got, style="red")
        return
    yield Text("- expected  + got", style="cyan")
    for line in difflib.ndiff(expected.split("\n"), got.split("\n")):
        if not line.startswith("?"):
            yield Text(line, style={"-": "green", "+": "red"}.get(line[:1], ""))


def _block(text: str, *, full: bool) -> str:
    limits = (None, None) if full else (_MOST_LINES, _LONGEST_LINE)
    return visible_block(text, most_lines=limits[0], longest_line=limits[1])
