"""Compares runs: their configurations, their verdicts problem by problem, and their curves in one chart.

`sandrl.runs.comparison` counts completions and computes differences, as for `sandrl runs compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sandrl.runs import RunReader
from sandrl.runs.comparison import (
    ComparedRun,
    Comparison,
    Pairing,
    Source,
    Tally,
    all_options,
    compare,
    selection_of,
    tallies,
)
from sandrl.runs.report.parts import estimates_part
from sandrl.runs.series import is_bound, series_of
from sandrl.viewer.recent import Recent
from sandrl.viewer.run import RunView, stamp_of

MOST_PROBLEMS = 1_000
"""How many problems one answer has at most."""

_MOST_KEPT = 4


@dataclass(frozen=True, slots=True)
class _Table:
    problems: list[dict[str, Any]]
    differing: list[dict[str, Any]]
    used: list[RunView]
    found: Comparison | None


class Comparisons:
    """Comparisons that were asked for; the latest are kept, because pages of them are asked for one after the other."""

    def __init__(self) -> None:
        self._known: Recent[_Table] = Recent(_MOST_KEPT)

    def page(
        self, runs: Sequence[RunView], search: str, *, only: str, of: str, offset: int, limit: int
    ) -> dict[str, Any]:
        """What `GET api/compare` answers, without `runs`: the runs, and the same problems side by side.

        `only` selects problems: `all`; `differ`, of which the share of passed completions differs, or which not all
        runs have; `gained` or `lost`, which the run with the key `of` solves more or less often than the first one with
        completions.
        """
        compared = self._compared(runs)
        chosen = compared.problems if only == "all" else compared.differing
        if only in ("gained", "lost"):
            named = {problem["task_id"]: problem for problem in compared.problems}
            pairings = () if compared.found is None else compared.found.pairings
            turned = [pairing for pairing in pairings if compared.used[pairing.run].key == of]
            chosen = [named[each.task_id] for pairing in turned for each in getattr(pairing, only)]
        word = search.lower()
        chosen = [problem for problem in chosen if word in problem["task_id"].lower()]
        return {
            "total": len(chosen),
            "differ": len(compared.differing),
            "problems": chosen[max(offset, 0) :][: min(max(limit, 0), MOST_PROBLEMS)],
            "curves": curves([RunReader(run.path) for run in runs], runs),
            "options": [all_options(RunReader(run.path).config) for run in runs],
            **comparison_part([run.key for run in runs], [run.key for run in compared.used], compared.found),
        }

    def _compared(self, runs: Sequence[RunView]) -> _Table:
        name = tuple((run.key, run.refresh().version, stamp_of(run.path, "config")) for run in runs)
        return self._known.get(name, lambda: _compared(runs))


def _compared(runs: Sequence[RunView]) -> _Table:
    problems: dict[str, tuple[set[str], list[dict[str, Any] | None]]] = {}
    used = []
    for at, run in enumerate(runs):
        with run.columns.opened() as database:
            selection = selection_of(database)
            used += [] if selection is None else [run]
            for tally in () if selection is None else tallies(database, selection):
                digests, cells = problems.setdefault(tally.task_id, (set(), [None] * len(runs)))
                digests.update(filter(None, [tally.digest]))
                cells[at] = _cell(tally)
    found: list[dict[str, Any]] = [
        {"task_id": task_id, "same_problem": len(digests) <= 1, "cells": cells}
        for task_id, (digests, cells) in problems.items()
    ]
    differing = [problem for problem in found if _differ(problem["cells"])]
    return _Table(found, differing, used, compared_runs(used))


def compared_runs(runs: Sequence[RunView]) -> Comparison | None:
    """Runs that have completions, compared with the first one; None without any."""
    return compare([Source(run.key, run.columns) for run in runs]) if runs else None


def comparison_part(keys: Sequence[str], used: Sequence[str], found: Comparison | None) -> dict[str, Any]:
    """What a page says of compared runs besides their problems."""
    runs = {} if found is None else dict(zip(used, found.runs, strict=True))
    pairings = {} if found is None else {used[each.run]: each for each in found.pairings}
    return {
        "baseline": used[0] if used else None,
        "compared": [run_part(runs[key]) if key in runs else None for key in keys],
        "pairings": [pairing_part(pairings[key]) if key in pairings else None for key in keys],
    }


def run_part(run: ComparedRun) -> dict[str, Any]:
    """Which completions of a run are compared, and what they amount to."""
    return {
        "part": run.selection.part.value,
        "step": run.selection.step,
        "problems": run.problems,
        "completions": run.completions,
        "unscorable": sum(run.unscorable.values()),
        "reward": run.reward,
        "pass_at": estimates_part(run.pass_at),
    }


def pairing_part(pairing: Pairing) -> dict[str, Any]:
    """A run compared with another one, without the names of problems that both have with the same checks."""
    return {
        "common": pairing.common,
        "difference": None if pairing.passed is None else asdict(pairing.passed),
        "adjusted_p_value": pairing.adjusted_p_value,
        "changed": list(pairing.changed),
        "other_prompt": pairing.other_prompt,
        "unscorable": len(pairing.unscorable),
    }


def curves(readers: Sequence[RunReader], runs: Sequence[RunView]) -> dict[str, list[dict[str, Any] | None]]:
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
    # What became of a problem's completions; the example is one that did not pass, if there is any.
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
