"""The completions of each problem over the steps of a run, and which samples change their verdict."""

from __future__ import annotations

import itertools
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from sandrl.events.results import Status
from sandrl.runs.columns import RunColumns, row_key
from sandrl.viewer.recent import Recent

MOST_CELLS = 100
"""Of how many steps one answer shows a problem; the latest ones are shown."""

MOST_GROUPS = 200
"""How many problems one answer has at most."""

_Sample: TypeAlias = list[Any]


class Groups:
    """The groups of a run."""

    def __init__(self, columns: RunColumns) -> None:
        self._columns = columns
        self._tasks: Recent[array[int]] = Recent()
        self._flips: Recent[set[int]] = Recent()

    def page(self, task: str, *, flipped: bool, offset: int, limit: int) -> dict[str, Any]:
        """What `GET api/runs/{key}/groups` answers: groups whose problem's id contains `task`, in upper or lower case.

        `flipped` selects those in which a sample's verdict changes between steps.
        """
        with self._columns.opened() as database:
            (version,) = database.execute("SELECT version FROM state").fetchone()
            found: Iterable[int] = self._tasks.get(version, lambda: _all_tasks(database))
            if task:
                fits = "SELECT number FROM names WHERE instr(lower(name), lower(?))"
                named = {number for (number,) in database.execute(fits, (task,))}
                found = [number for number in found if number in named]
            if flipped:
                flips = self._flips.get(version, lambda: _all_flipped(database))
                found = [number for number in found if number in flips]
            chosen = list(found)
            steps = database.execute("SELECT DISTINCT step FROM rows WHERE held_out = 0 ORDER BY step").fetchall()
            shown = chosen[max(offset, 0) :][: min(max(limit, 0), MOST_GROUPS)]
            return {
                "total": len(chosen),
                "steps": sorted({max(step, 0) for (step,) in steps}),
                "groups": [_group(database, number) for number in shown],
            }


def _all_tasks(database: sqlite3.Connection) -> array[int]:
    found = database.execute("SELECT DISTINCT task FROM rows WHERE held_out = 0 ORDER BY task")
    return array("q", (number for (number,) in found))


def _all_flipped(database: sqlite3.Connection) -> set[int]:
    rows = database.execute(
        "SELECT task, step, reward IS NULL, is_pass FROM rows WHERE held_out = 0 ORDER BY task, step, rows.number"
    )
    flipped = set()
    for task, own in itertools.groupby(rows, key=lambda row: row[0]):
        cells = ([_verdict(*each[2:]) for each in cell] for _, cell in itertools.groupby(own, _step))
        if count_flips(cells):
            flipped.add(task)
    return flipped


def count_flips(cells: Iterable[list[bool | None]]) -> int:
    """How often a sample passes where the same sample of the step before did not, or the reverse.

    Of each step, the samples say whether they passed; None for those without a reward.
    """
    flips = 0
    before: list[bool | None] = []
    for cell in cells:
        flips += sum(None not in (then, now) and then is not now for then, now in zip(before, cell, strict=False))
        before = cell
    return flips


def _step(row: tuple[Any, ...]) -> int:
    return max(int(row[1]), 0)


def _verdict(has_no_reward: int, is_pass: int) -> bool | None:
    return None if has_no_reward else bool(is_pass)


def _group(database: sqlite3.Connection, task: int) -> dict[str, Any]:
    latest = "SELECT DISTINCT step FROM rows WHERE task = ? AND held_out = 0 ORDER BY step DESC"
    steps = [step for (step,) in database.execute(latest, (task,))]
    first = steps[:MOST_CELLS][-1]
    rows = database.execute(
        "SELECT step, place, rank, greedy, repeat, names.name, reward, problem FROM rows"
        " JOIN names ON names.number = rows.status WHERE task = ? AND held_out = 0 AND step >= ?"
        " ORDER BY step, rows.number",
        (task, first),
    ).fetchall()
    cells = [(step, [_sample(*row[:7]) for row in own]) for step, own in _by_step(rows)]
    verdicts = ([None if reward is None else status == Status.PASSED for _, status, reward in own] for _, own in cells)
    (name,) = database.execute("SELECT name FROM names WHERE number = ?", (task,)).fetchone()
    problem = database.execute("SELECT name FROM names WHERE number = ?", (rows[0][7],)).fetchone()
    return {
        "task_id": name,
        "problem": problem and problem[0],
        "cells": [{"step": step, "samples": own} for step, own in cells],
        "flips": count_flips(verdicts),
        "cells_left_out": max(len(steps) - MOST_CELLS, 0),
    }


def _by_step(rows: list[tuple[Any, ...]]) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    for step, own in itertools.groupby(rows, key=lambda row: max(row[0], 0)):
        yield step, list(own)


def _sample(step: int, place: int, rank: int, greedy: int, repeat: int, status: str, reward: float | None) -> _Sample:
    return [row_key(step, place, rank, 0, greedy, repeat), status, reward]
