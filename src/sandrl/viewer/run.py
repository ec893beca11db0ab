"""One run as the viewer shows it: its documents, made from its index and its small files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandrl.errors import InputError
from sandrl.runs import MetricsRow, RunReader, disagreements, step_rows
from sandrl.runs.cards import Card, card_document
from sandrl.runs.columns import NO_STEP, Progress, RowPlace, RunColumns, row_key
from sandrl.runs.reader import Damage, Rows, row_files
from sandrl.runs.report.cards import card_brief, cards_part
from sandrl.runs.report.document import (
    is_complete_run,
    problem_document,
    run_document,
    run_part,
    trajectory_document,
)
from sandrl.viewer.groups import Groups
from sandrl.viewer.recent import Recent
from sandrl.viewer.selection import RowLists
from sandrl.viewer.totals import Totals

_INLINE_SECONDS = 0.2
_MOST_CHECKED_ROWS = 20_000
_FEW_ROWS = 20_000
_PATIENCE = 5.0

_FIND_ROW = """
SELECT number FROM rows WHERE step = ? AND held_out = ? AND place = ? AND rank = ? AND greedy = ? AND repeat = ?
"""
_FIND_RUNS = """
SELECT id, names.name, reward, step, place, rank, held_out, greedy, repeat
FROM rows JOIN names ON names.number = rows.status
WHERE task = (SELECT number FROM names WHERE name = ?) ORDER BY rows.number
"""
_FIND_NEIGHBOUR = """
SELECT step, place, rank, held_out, greedy, repeat FROM rows WHERE number {side} ? ORDER BY number {way} LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class _KeptTotals:
    version: int
    made_at: float
    cost_seconds: float
    totals: Totals


class RunView:
    """A run that is looked at; `index_on` is told that there is more to index than a request can wait for."""

    def __init__(self, key: str, path: Path, cache_dir: Path, index_on: Callable[[RunView], None]) -> None:
        self.key = key
        self.path = path
        self.columns = RunColumns(path, cache_dir)
        self.rows = RowLists(self.columns)
        self.groups = Groups(self.columns)
        self._index_on = index_on
        self._counting = threading.Lock()
        self._totals: _KeptTotals | None = None
        self._metrics: Recent[tuple[MetricsRow, ...]] = Recent()
        self._checked: Recent[list[str]] = Recent()
        self._cards: Recent[Rows[Card]] = Recent()
        self._set: Recent[dict[str, Any]] = Recent()

    def refresh(self) -> Progress:
        """Indexes what the run has got, for a short time; what is left is indexed in the background."""
        progress = self.columns.refresh(_INLINE_SECONDS, is_waiting=False)
        if not progress.is_complete:
            self._index_on(self)
        return progress

    def document(self) -> dict[str, Any]:
        """What `GET api/runs/{key}` answers.

        Raises:
            InputError: If the run cannot be read.
        """
        reader = RunReader(self.path)
        progress = self.refresh()
        totals = self.totals(progress)
        damage = Damage(is_truncated=progress.is_truncated)
        damage.damaged += [InputError(f"is not a valid row of this file ({progress.damaged} lines)", path=self.path)][
            : progress.damaged
        ]
        index = {**asdict(progress), "is_complete": progress.is_complete}
        document = run_document(
            reader,
            self.metrics(reader, totals),
            totals.completions(),
            self._read_cards()[1],
            damage=damage,
            contradictions=self._contradictions(reader, progress),
            index={name: index[name] for name in ("rows", "total_bytes", "read_bytes", "is_complete")},
        )
        return {"key": self.key, **document}

    def work(self, seconds: float) -> bool:
        """Indexes what the run has got, and counts it again; returns whether there is nothing left to do."""
        progress = self.columns.refresh(seconds)
        known = self._totals
        is_due = known is None or time.monotonic() >= known.made_at + _PATIENCE * known.cost_seconds
        if (known is None or known.version != progress.version) and (is_due or progress.is_complete):
            self._count(progress)
        return progress.is_complete

    def totals(self, progress: Progress) -> Totals:
        """What its completions amount to; of a large run that grows, somewhat older numbers."""
        known = self._totals
        if known is not None and known.version == progress.version:
            return known.totals
        if known is None or progress.rows <= _FEW_ROWS:
            return self._count(progress)
        self._index_on(self)
        return known.totals

    @property
    def counted_version(self) -> int:
        """Of which version of its index its completions were counted last."""
        return -1 if self._totals is None else self._totals.version

    def _count(self, progress: Progress) -> Totals:
        with self._counting:
            began = time.monotonic()
            with self.columns.opened() as database:
                kept = self.columns.kept(database, "totals")
                totals = Totals(**kept) if kept else Totals.count(database)
            now = time.monotonic()
            if not kept and progress.is_complete:
                self.columns.keep("totals", progress.version, asdict(totals))
            self._totals = _KeptTotals(progress.version, now, now - began, totals)
            return totals

    def metrics(self, reader: RunReader, totals: Totals | None) -> tuple[MetricsRow, ...]:
        """Its metrics step by step; counted from its completions (`totals`) where its jobs have written none."""
        stamp = stamp_of(self.path, MetricsRow.file, "evaluations")
        if totals is not None and not has_metrics(self.path):
            return step_rows(reader, totals.metrics())
        return self._metrics.get(stamp, lambda: step_rows(reader))

    def trajectory(self, key: str) -> dict[str, Any] | None:
        """What `GET api/runs/{key}/rows/{rowkey}` answers; None if there is no such row."""
        place = RowPlace.of_key(key)
        if place is None:
            return None
        self.refresh()
        step = NO_STEP if place.step is None else place.step
        with self.columns.opened() as database:
            values = (step, place.held_out, place.index, place.rank, place.greedy, place.repeat)
            found = database.execute(_FIND_ROW, values).fetchone()
            row = found and self.columns.read(database, found[0])
            if row is None:
                return None
            problem = self.columns.problem(database, row.problem)
            sides = {"previous": ("<", "DESC"), "next": (">", "ASC")}
            neighbours = {}
            for name, (side, way) in sides.items():
                other = database.execute(_FIND_NEIGHBOUR.format(side=side, way=way), found).fetchone()
                neighbours[name] = other and row_key(*other)
        return {
            "key": key,
            **trajectory_document(row),
            "problem": None if problem is None else problem_document(problem),
            **neighbours,
        }

    def cards(self) -> dict[str, Any]:
        """What `GET api/runs/{key}/cards` answers."""
        stamp, cards = self._read_cards()
        found = self._set.get(
            stamp, lambda: {"set": cards_part(cards.rows), "cards": [card_brief(each) for each in cards.rows]}
        )
        return {"run": self._run_part(cards), **found}

    def card(self, digest: str) -> dict[str, Any] | None:
        """What `GET api/runs/{key}/cards/{digest}` answers; None if there is no such card."""
        _, cards = self._read_cards()
        card = next((each for each in cards.rows if each.digest == digest), None)
        if card is None:
            return None
        self.refresh()
        with self.columns.opened() as database:
            rows = database.execute(_FIND_RUNS, (card.task_id,)).fetchall()
        prefix = f"{card.task_id}#"
        runs = [
            [id_.removeprefix(prefix), row_key(*place), status, reward]
            for id_, status, reward, *place in rows
            if id_.startswith(prefix)
        ]
        return {**card_document(card), "run": self._run_part(cards), "runs": runs}

    def _run_part(self, cards: Rows[Card]) -> dict[str, Any]:
        # Without its trajectories, of which there may be sixty for each card.
        reader = RunReader(self.path)
        last = max((each.measured_at for each in cards.rows), default=None)
        return run_part(reader, last, reader.metrics().rows)

    def _read_cards(self) -> tuple[object, Rows[Card]]:
        stamp = stamp_of(self.path, Card.file)
        return stamp, self._cards.get(stamp, lambda: RunReader(self.path).cards())

    def _contradictions(self, reader: RunReader, progress: Progress) -> list[str]:
        # What in the run does not add up; of one that is written, or is large, nobody counts that again and again.
        if not progress.is_complete or progress.rows > _MOST_CHECKED_ROWS or reader.is_running:
            return []
        stamp = stamp_of(self.path, "config", MetricsRow.file, "sandboxes", "opinions", "trajectories")
        return self._checked.get(stamp, lambda: list(disagreements(reader, is_complete=is_complete_run(reader))))


def has_metrics(run: Path) -> bool:
    """Whether a job has written metrics of a run."""
    with suppress(OSError):
        return any(file.stat().st_size for file in row_files(run, MetricsRow.file))
    return False


def stamp_of(run: Path, *kinds: str) -> tuple[object, ...]:
    """What changes whenever files of a run do whose names begin with one of these words."""
    stamp = []
    with suppress(OSError):
        for file in sorted(run.iterdir()):
            if file.name.partition(".")[0] in kinds:
                with suppress(OSError):
                    status = file.stat()
                    stamp.append((file.name, status.st_size, status.st_mtime_ns))
    return tuple(stamp)
