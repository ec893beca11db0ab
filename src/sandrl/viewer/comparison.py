"""Compares two or more runs: their verdicts problem by problem, and their curves in one chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sandrl.runs import RunReader
from sandrl.runs.comparison import Tally, selection_of, tallies
from sandrl.runs.series import is_bound, series_of
from sandrl.viewer.run import ViewedRun

MOST_PROBLEMS = 1_000
"""How many problems one answer has at most."""


def comparison(
    runs: Sequence[ViewedRun], search: str, *, only_differing: bool, offset: int, limit: int
) -> dict[str, Any]:
    """The same problems side by side, each by the completions that `runs compare` takes.

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
            selection = selection_of(database)
            for tally in () if selection is None else tallies(database, selection):
                digests, cells = problems.setdefault(tally.task_id, (set(), [None] * len(runs)))
                digests.update(filter(None, [tally.digest]))
                cells[at] = _cell(tally)
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


def _cell(tally: Tally) -> dict[str, Any]:
    """What became of a problem's completions; the example is one that did not pass, if there is any."""
    return {
        "n": tally.n,
        "scored": tally.scored,
        "passed": tally.passed,
        "reward": tally.reward,
        "key": tally.example,
        "status": tally.status,
    }


def _differ(cells: Sequence[dict[str, Any] | None]) -> bool:
    return len({cell and (cell["passed"] / cell["scored"] if cell["scored"] else cell["status"]) for cell in cells}) > 1
