"""Which completions of a run a list shows, in which order, and how many of each status there are."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sandrl.runs.columns import RunColumns, row_key
from sandrl.viewer.recent import Recent
from sandrl.viewer.search import TextSearch

MOST_ROWS = 1_000
"""How many rows one answer has at most."""

_ORDERS = {"index": "number", "reward": "reward", "duration": "seconds", "step": "step"}
_SEARCHES = 8
_ANSWERS = 8
_DEEP = 2_000
# What lists have of a row, and its column.
_FIELDS = {
    "index": "place", "id": "id", "task_id": "tasks.name", "status": "statuses.name", "reward": "reward",
    "passed": "passed", "total": "total", "duration_seconds": "seconds", "held_out": "held_out", "greedy": "greedy",
    "cached": "cached", "detail": "detail", "disagrees": "disagrees", "cut_off": "cut_off", "problem": "problems.name",
}  # fmt: skip
_SWITCHES = frozenset({"held_out", "greedy", "cached", "disagrees", "cut_off"})
_PLACE = ("step", "place", "rank", "held_out", "greedy", "repeat")
_COLUMNS = ", ".join(("rows.number", *_PLACE, *_FIELDS.values()))
_JOINS = (
    "rows JOIN names statuses ON statuses.number = rows.status JOIN names tasks ON tasks.number = rows.task "
    "LEFT JOIN names problems ON problems.number = rows.problem"
)


@dataclass(frozen=True, slots=True)
class Selection:
    """What rows must be like; all conditions together.

    Attributes:
        step: Of this step; rows outside of steps are of step 0.
        task: The problem's id contains this, in upper or lower case.
        search: Words that all occur in the row's texts.
    """

    statuses: tuple[str, ...] = ()
    step: int | None = None
    task: str = ""
    held_out: bool | None = None
    disagrees: bool = False
    cut_off: bool = False
    search: str = ""
    order: str = "index"
    is_descending: bool = False

    def condition(self, *, with_status: bool = True) -> tuple[str, list[object]]:
        """The condition as SQL on `rows`, and its values; without that on texts."""
        parts, values = ["1"], list[object]()
        if self.statuses and with_status:
            marks = ", ".join("?" * len(self.statuses))
            parts.append(f"rows.status IN (SELECT number FROM names WHERE name IN ({marks}))")
            values += self.statuses
        if self.step is not None:
            parts.append("step IN (0, -1)" if self.step == 0 else "step = ?")
            values += [] if self.step == 0 else [self.step]
        if self.task:
            parts.append("rows.task IN (SELECT number FROM names WHERE instr(lower(name), lower(?)))")
            values.append(self.task)
        if self.held_out is not None:
            parts.append("held_out = ?")
            values.append(self.held_out)
        if self.disagrees:
            parts.append("disagrees = 1")
        if self.cut_off:
            parts.append("cut_off = 1")
        return " AND ".join(parts), values

    @property
    def sorting(self) -> str:
        """The order as SQL; rows without a reward are the last ones."""
        column, way = _ORDERS.get(self.order, "number"), "DESC" if self.is_descending else "ASC"
        if column == "number":
            return f"rows.number {way}"
        last = "reward IS NULL, " if column == "reward" else ""
        return f"{last}{column} {way}, rows.number"


class RowLists:
    """The lists of a run."""

    def __init__(self, columns: RunColumns) -> None:
        self._columns = columns
        self._searches: Recent[TextSearch] = Recent(_SEARCHES)
        self._facets: Recent[list[tuple[Any, ...]]] = Recent(_ANSWERS)
        self._numbers: Recent[array[int]] = Recent(_ANSWERS)

    def page(self, selection: Selection, offset: int, limit: int) -> dict[str, Any]:
        """What `GET api/runs/{key}/rows` answers: a part of a list."""
        with self._columns.opened() as database:
            search = self._searched(database, selection)
            where, values = selection.condition(with_status=False)
            if search is not None:
                where += " AND rows.number IN (SELECT value FROM json_each(?))"
                values.append(json.dumps(search.found.tolist()))
            facets = self._counted(database, where, values)
            with_status, more = Selection(selection.statuses).condition()
            where, values = f"{where} AND {with_status}", [*values, *more]
            wanted = set(selection.statuses)
            total = sum(count for name, count in facets["status"].items() if not wanted or name in wanted)
            rows = self._rows(database, selection, where, values, max(offset, 0), min(max(limit, 0), MOST_ROWS))
            document = {"total": total, "offset": offset, "rows": rows, "facets": facets}
        if search is not None:
            document |= {"searched": search.searched, "is_complete": search.is_complete}
        return document

    def _rows(
        self,
        database: sqlite3.Connection,
        selection: Selection,
        where: str,
        values: list[object],
        offset: int,
        limit: int,
    ) -> list[dict[str, Any]]:
        ordered = f"SELECT rows.number FROM rows WHERE {where} ORDER BY {selection.sorting}"
        if selection.order == "index" or offset < _DEEP:
            numbers = [
                number for (number,) in database.execute(f"{ordered} LIMIT ? OFFSET ?", [*values, limit, offset])
            ]
        else:
            # Far down in a long list, where sorting again for each page would take seconds.
            question = (_version(database), ordered, *values)
            known = self._numbers.get(question, lambda: _numbers(database, ordered, values))
            numbers = known[offset : offset + limit].tolist()
        found = database.execute(
            f"SELECT {_COLUMNS} FROM {_JOINS} WHERE rows.number IN (SELECT value FROM json_each(?))",
            (json.dumps(numbers),),
        )
        rows = {row[0]: brief_row(row) for row in found}
        return [rows[number] for number in numbers]

    def _counted(self, database: sqlite3.Connection, where: str, values: list[object]) -> dict[str, Any]:
        query = (
            "SELECT names.name, own.* FROM ("
            "SELECT status, count(*) AS n, sum(disagrees) AS d, sum(cut_off) AS c"
            f" FROM rows WHERE {where} GROUP BY status"
            ") own JOIN names ON names.number = own.status"
        )
        question = (_version(database), query, *values)
        found = self._facets.get(question, lambda: database.execute(query, values).fetchall())
        return {
            "status": {name: count for name, _, count, *_ in found},
            "disagrees": sum(disagrees for *_, disagrees, _ in found),
            "cut_off": sum(cut_off for *_, cut_off in found),
        }

    def _searched(self, database: sqlite3.Connection, selection: Selection) -> TextSearch | None:
        if not selection.search.strip():
            return None
        key = replace(selection, statuses=(), order="index", is_descending=False)
        search = self._searches.get(key, lambda: TextSearch(selection.search))
        search.go_on(self._columns, database, *key.condition())
        return search


def _version(database: sqlite3.Connection) -> int:
    (version,) = database.execute("SELECT version FROM state").fetchone()
    return int(version)


def _numbers(database: sqlite3.Connection, query: str, values: list[object]) -> array[int]:
    return array("q", (number for (number,) in database.execute(query, values)))


def each_brief(database: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Every row of a run as lists have it, in its order."""
    return map(brief_row, database.execute(f"SELECT {_COLUMNS} FROM {_JOINS} ORDER BY rows.number"))


def brief_row(row: tuple[Any, ...]) -> dict[str, Any]:
    """A row as lists have it."""
    place, own = row[1 : 1 + len(_PLACE)], row[1 + len(_PLACE) :]
    fields = {name: bool(value) if name in _SWITCHES else value for name, value in zip(_FIELDS, own, strict=True)}
    return {"key": row_key(*place), "step": None if place[0] < 0 else place[0], **fields}
