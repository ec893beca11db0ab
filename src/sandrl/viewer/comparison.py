"""Compares two or more runs: their verdicts problem by problem, and their curves in one chart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from sandrl.events.results import Status
from sandrl.runs import RunReader
from sandrl.runs.columns import row_key
from sandrl.runs.series import is_bound, series_of
from sandrl.viewer.run import ViewedRun

MOST_PROBLEMS = 1_000
"""How many problems one answer has at most."""

_LATEST = """
SELECT tasks.name, problems.name, step, place, rank, greedy, repeat, statuses.name, reward FROM rows
JOIN (SELECT task AS last_task, max(step) AS last_step FROM rows WHERE held_out = 0 GROUP BY task)
    ON task = last_task AND step = last_step
JOIN names tasks ON tasks.number = task JOIN names statuses ON statuses.number = status
LEFT JOIN names problems ON problems.number = problem
WHERE held_out = 0 ORDER BY task, rows.number
"""


def comparison(
    runs: Sequence[ViewedRun], search: str, *, only_differing: bool, offset: int, limit: int
) -> dict[str, Any]:
    """The same problems side by side, each by the completions of the latest step of a run that has it.

    Args:
        runs: The runs.
        search: The problem's id contains this, in upper or lower case.
        only_differing: Only problems whose share of passed completions differs, or which not all runs have.
        offset: How many of them to pass over.
        limit: How many to give at most.

    Returns:
        What `GET api/compare` answers, without `runs`.
    """
    problems: dict[str, tuple[set[str], list[dict[str, Any] | None]]] = {}
    for at, run in enumerate(runs):
        run.refresh()
        with run.columns.opened() as database:
            for task_id, own in itertools.groupby(database.execute(_LATEST), key=lambda row: str(row[0])):
                digests, cells = problems.setdefault(task_id, (set(), [None] * len(runs)))
                rows = list(own)
                digests.update(row[1] for row in rows if row[1] is not None)
                cells[at] = _cell(rows)
    word = search.lower()
    found: list[dict[str, Any]] = [
        {"task_id": task_id, "same_problem": len(digests) <= 1, "cells": cells}
        for task_id, (digests, cells) in problems.items()
    ]
    differing = [problem for problem in found if _differ(problem["cells"])]
    chosen = [problem for problem in (differing if only_differing else found) if word in problem["task_id"].lower()]
    return {
        "total": len(chosen),
        "differ": len(differing),
        "problems": chosen[max(offset, 0) :][: min(max(limit, 0), MOST_PROBLEMS)],
        "curves": curves([RunReader(run.path) for run in runs], runs),
    }


def curves(readers: Sequence[RunReader], runs: Sequence[ViewedRun]) -> dict[str, list[dict[str, Any] | None]]:
    """Each metric over the steps of each run; None where a run has not measured it."""
    found = [
        series_of(run.metrics(reader, run.totals(run.refresh()))) for reader, run in zip(readers, runs, strict=True)
    ]
    names = dict.fromkeys(name for series in found for name in series)
    return {
        name: [
            {"steps": list(series[name].steps), "values": list(series[name].values)} if name in series else None
            for series in found
        ]
        for name in names
        if not is_bound(name, names)
    }


def _cell(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """What became of a problem's completions; the example is one that did not pass, if there is any."""
    example = next((row for row in rows if row[7] != Status.PASSED), rows[0])
    rewards = [row[8] for row in rows if row[8] is not None]
    _, _, step, place, rank, greedy, repeat, status, _ = example
    return {
        "n": len(rows),
        "passed": sum(row[7] == Status.PASSED for row in rows),
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "key": row_key(step, place, rank, 0, greedy, repeat),
        "status": status,
    }


def _differ(cells: Sequence[dict[str, Any] | None]) -> bool:
    return len({None if cell is None else cell["passed"] / cell["n"] for cell in cells}) > 1
