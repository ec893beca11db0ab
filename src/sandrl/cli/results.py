"""Shows the progress of scoring: a line every few seconds, or on a terminal a table that grows.

The live table and the final table have the same columns; the final table replaces the live one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sandrl import events
from sandrl.cli.progress import LiveView, Progress, Remarks, reward_text, sample_name, word_for
from sandrl.cli.tables import Cell, Column, Table
from sandrl.cli.text import counted, visible
from sandrl.cli.verbosity import INTERVAL_SECONDS, is_quiet, is_verbose
from sandrl.config.budget import duration_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sandrl.cli.tables import Table

_LONGEST_ID = 40
# After so many intervals, a line says that nothing is new.
_WAITS_WITHOUT_NEWS = 12
_COLOURS = {"passed": "green", "running": "cyan", "queued": "dim", "no_code": "yellow", "infrastructure": "magenta"}


class ResultLines(Remarks):
    """Lines on standard error: how far the work is, every few seconds; with `--verbose`, each result as it arrives."""

    def __init__(self, interval_seconds: float = INTERVAL_SECONDS) -> None:
        super().__init__()
        self._interval = interval_seconds
        self._count = _Count()
        self._ended = threading.Event()
        # The work may say nothing for a while; the thread does.
        self._thread = threading.Thread(target=self._tell, name="sandrl-progress", daemon=True)

    def __enter__(self) -> Self:
        if not is_quiet() and not is_verbose():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        super().__exit__(kind, error, traceback)

    def __call__(self, event: events.Event) -> None:
        """Counts a result, or shows the event as a line."""
        self._count.add(event)
        if not isinstance(event, events.CompletionFinished):
            super().__call__(event)
        elif is_verbose():
            result = event.result
            word = word_for(result.status, result.reward)
            self.put(f"  [{event.finished}/{event.of}] {sample_name(result)}: {word}")

    def _tell(self) -> None:
        told, waited = None, 0
        while not self._ended.wait(self._interval):
            known, waited = replace(self._count), waited + 1
            if known == told and waited < _WAITS_WITHOUT_NEWS:
                continue
            text = known.text()
            if text:
                told, waited = known, 0
                # Whoever has closed standard error does not read it.
                with suppress(OSError, ValueError):
                    self.put(text)


@dataclass(slots=True)
class _Count:
    began: float = field(default_factory=time.monotonic)
    finished: int = 0
    of: int = 0
    seen: int = 0  # without those of an earlier job
    scored: int = 0
    passed: int = 0
    retries: int = 0

    def add(self, event: events.Event) -> None:
        match event:
            case events.JobStarted(total=total):
                self.began, self.of = time.monotonic(), total
            case events.RetryScheduled():
                self.retries += 1
            case events.CompletionFinished(result, finished, of):
                self.finished, self.of = max(self.finished, finished), of
                self.seen += 1
                self.scored += result.reward is not None
                self.passed += result.is_pass

    def text(self) -> str:
        if not self.of:
            return ""
        seconds = time.monotonic() - self.began
        parts = [f"Progress: {self.finished} of {self.of} completions judged"]
        if self.scored:
            parts.append(f"pass rate {self.passed / self.scored:.0%}")
        if self.seen > self.scored:
            parts.append(f"{self.seen - self.scored} without a reward")
        if self.retries:
            parts.append(counted(self.retries, "retry", "retries"))
        if self.seen and self.finished < self.of:
            left = seconds / self.seen * (self.of - self.finished)
            parts.append(f"about {duration_text(left)} left")
        return f"{', '.join(parts)}, {duration_text(seconds)} so far"


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
    """A table that fills as results arrive: row, id, status, reward, time."""

    def __init__(self, console: Console) -> None:
        self._running: OrderedDict[int, ResultRow] = OrderedDict()
        self._finished: OrderedDict[int, ResultRow] = OrderedDict()
        self._count = _Count()
        super().__init__(console, stays=False)

    def __call__(self, event: events.Event) -> None:
        """Changes the table."""
        self._count.add(event)
        match event:
            case events.CompletionStarted(index, id_, _, attempt):
                status = "running" if attempt == 1 else f"try {attempt}"
                with self.lock:
                    self._running[index] = ResultRow(index, id_, status, began=time.monotonic())
            case events.CompletionFinished(result):
                row = ResultRow(result.index, result.id, result.status, result.reward, result.duration_seconds)
                with self.lock:
                    self._running.pop(result.index, None)
                    self._finished[result.index] = row
        super().__call__(event)

    def render(self) -> RenderableType:
        """The table as it is at this moment."""
        from rich.console import Group
        from rich.text import Text

        room = max(self.console.size.height - 6, 3)
        now = time.monotonic()
        with self.lock:
            running = [replace(row, seconds=now - row.began) for row in list(self._running.values())[:room]]
            newest = list(self._finished.values())[-max(room - len(running), 0) :] if len(running) < room else []
        count = self._count
        rate = f", pass rate {count.passed / count.scored:.0%}" if count.scored else ""
        table = results_table(sorted([*newest, *running], key=lambda row: row.index))
        return Group(*table.lines(width=self.console.width), Text(f"{count.finished}/{count.of} done{rate}"))


def results_table(rows: list[ResultRow]) -> Table:
    """The table of results; ids of completions are the user's, of any length, and are cut where there is no room."""
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
    if results.isatty() and not is_quiet() and not is_verbose():
        from rich.console import Console

        console = Console(file=results, highlight=False)
        if not console.is_dumb_terminal:
            return LiveTable(console)
    return ResultLines()
