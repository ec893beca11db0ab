"""Shows results as they arrive: plain lines, or on a terminal a table that grows while completions are scored.

The live table and the final table have the same columns; the final table replaces the live one.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

import typer

from sandrl import events
from sandrl.cli.progress import LiveView, Progress, Remarks, remark, reward_text, sample_name, word_for
from sandrl.cli.text import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sandrl.cli.tables import Table

_LONGEST_ID = 40
_COLOURS = {"passed": "green", "running": "cyan", "queued": "dim", "no_code": "yellow", "infrastructure": "magenta"}


class ResultLines(Remarks):
    """One line for each result, in the order in which they arrive.

    Args:
        stream: Where the lines of results go.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def __call__(self, event: events.Event) -> None:
        """Shows the event as a line."""
        if not isinstance(event, events.CompletionFinished):
            super().__call__(event)
            return
        result = event.result
        word = word_for(result.status, result.reward)
        line = f"  [{event.finished}/{event.of}] {sample_name(result)}: {word}"
        typer.echo(line, file=self._stream)
        self._stream.flush()


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One line of the live table."""

    index: int
    id: str
    status: str
    reward: float | None = None
    seconds: float | None = None
    began: float = 0.0


class LiveTable(LiveView):
    """A table that fills as results arrive: row, id, status, reward, time.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        self._running: OrderedDict[int, ResultRow] = OrderedDict()
        self._finished: OrderedDict[int, ResultRow] = OrderedDict()
        self._of = self._scored = self._passed = 0
        super().__init__(console, stays=False)

    def __call__(self, event: events.Event) -> None:
        """Changes the table."""
        match event:
            case events.JobStarted(total=total):
                self._of = total
            case events.CompletionStarted(index, id_, _, attempt):
                status = "running" if attempt == 1 else f"try {attempt}"
                with self.lock:
                    self._running[index] = ResultRow(index, id_, status, began=time.monotonic())
            case events.CompletionFinished(result):
                row = ResultRow(result.index, result.id, result.status, result.reward, result.duration_seconds)
                with self.lock:
                    self._running.pop(result.index, None)
                    self._finished[result.index] = row
                    self._scored += result.reward is not None
                    self._passed += result.is_pass
        text = remark(event)
        if text is not None:
            self.say(text)

    def render(self) -> RenderableType:
        """The table as it is at this moment."""
        from rich.console import Group
        from rich.text import Text

        room = max(self.console.size.height - 6, 3)
        now = time.monotonic()
        with self.lock:
            running = [replace(row, seconds=now - row.began) for row in list(self._running.values())[:room]]
            newest = list(self._finished.values())[-max(room - len(running), 0) :] if len(running) < room else []
            done = len(self._finished)
        rate = f", pass rate {self._passed / self._scored:.0%}" if self._scored else ""
        table = results_table(sorted([*newest, *running], key=lambda row: row.index))
        return Group(*table.lines(width=self.console.width), Text(f"{done}/{self._of} done{rate}"))


def results_table(rows: list[ResultRow]) -> Table:
    """The table of results; ids of completions are the user's, of any length, and are cut where there is no room."""
    from sandrl.cli.tables import Cell, Column, Table

    table = Table(
        [
            Column("row", is_number=True),
            Column("id", least=4),
            Column("status", least=6),
            Column("reward", is_number=True),
            Column("time", rank=1, is_number=True),
        ]
    )
    for row in rows:
        finished = row.status not in ("queued", "running") and not row.status.startswith("try ")
        table.add(
            str(row.index),
            visible(row.id, _LONGEST_ID),
            Cell(row.status, _COLOURS.get(row.status, "red" if finished else "cyan")),
            reward_text(row.reward) if finished else "",
            "" if row.seconds is None else f"{row.seconds:.1f} s",
        )
    return table


def choose(*, json_output: bool) -> Progress:
    """The progress that suits where the output goes."""
    results = sys.stderr if json_output else sys.stdout
    if results.isatty():
        from rich.console import Console

        console = Console(file=results, highlight=False)
        if not console.is_dumb_terminal:
            return LiveTable(console)
    return Remarks() if json_output else ResultLines()
