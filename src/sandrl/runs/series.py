"""Metrics over steps: the data of curves."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from sandrl.errors import UsageError
from sandrl.runs.metrics import Metric, find_metric, shown_order
from sandrl.runs.rows import MetricsRow

BOUNDS = ("_low", "_high")
"""The ends of the names of the two bounds of a metric's interval."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over the steps of a run."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """Its latest value."""
        return self.values[-1]

    @property
    def metric(self) -> Metric | None:
        """What the registry says of it."""
        return find_metric(self.name)

    @property
    def finite(self) -> tuple[float, ...]:
        """Its values that are numbers."""
        return tuple(value for value in self.values if math.isfinite(value))

    @property
    def is_constant(self) -> bool:
        """Whether it had the same value in every step in which it was measured."""
        return all(value == self.last for value in self.values)


def series_of(rows: Sequence[MetricsRow]) -> dict[str, Series]:
    """The series of every metric that was measured at least once, in the order in which they are shown."""
    points: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.metrics.items():
            if value is not None:
                points.setdefault(name, []).append((row.step, value))
    return {
        name: Series(name, tuple(step for step, _ in points[name]), tuple(value for _, value in points[name]))
        for name in sorted(points, key=shown_order)
    }


def is_bound(name: str, names: Container[str]) -> bool:
    """Whether a metric is a bound of the interval of another one."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in BOUNDS)


def thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many points, each the mean of the finite values that it stands for; NaN where there are none."""
    count = min(len(values), max(most, 1))
    edges = [round(at * len(values) / count) for at in range(count + 1)] if count else []
    known = ([value for value in values[begin:end] if math.isfinite(value)] for begin, end in itertools.pairwise(edges))
    return [math.fsum(each) / len(each) if each else math.nan for each in known]


def choose_series(series: Mapping[str, Series], patterns: Sequence[str]) -> dict[str, Series]:
    """Those whose names fit a pattern (`aviato/*`); all without patterns.

    Raises:
        UsageError: If nothing fits a pattern; a close name is suggested.
    """
    if not patterns:
        return dict(series)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in series):
            close = difflib.get_close_matches(pattern, list(series), n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else "omit the name to show all metrics"
            raise UsageError(f"the run has no metric {pattern!r}", hint=hint)
    fits = (name for name in series if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
    return {name: series[name] for name in fits}
