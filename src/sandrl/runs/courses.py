"""The history of each metric, in memory that does not grow with the steps.

Rules about a run's health compare its first steps with its latest ones. So the first values, the latest values and the
best stretch between them are kept, and nothing else. A run that is read and a run that is being written then give the
same answer, and the cost of an answer does not grow with the number of steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from sandrl.runs.statistics import mean

FIRST_STEPS = 10
"""The number of values from the beginning that are kept."""

RECENT_STEPS = 10
"""How many steps back the recent values go."""

STRETCH_STEPS = 5
"""How many values in a row the best stretch has."""


class Point(NamedTuple):
    """A value of a metric."""

    step: int
    value: float


@dataclass(slots=True)
class Course:
    """One metric over the steps so far.

    Attributes:
        count: How many of its values are numbers.
        first: The first of these.
        latest: The latest of these.
        last: The latest value, whether it is a number or not.
        best: The highest mean of `STRETCH_STEPS` values in a row; minus infinity before there are so many.
    """

    count: int = 0
    first: list[Point] = field(default_factory=list)
    latest: deque[Point] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    last: Point | None = None
    best: float = -math.inf

    def add(self, point: Point) -> None:
        """The metric was measured once more."""
        self.last = point
        if not math.isfinite(point.value):
            return
        self.count += 1
        if len(self.first) < FIRST_STEPS:
            self.first.append(point)
        self.latest.append(point)
        stretch = [each.value for each in islice(reversed(self.latest), STRETCH_STEPS)]
        if len(stretch) == STRETCH_STEPS:
            self.best = max(self.best, mean(stretch) or 0.0)


class Courses:
    """The courses of some metrics in a run.

    Attributes:
        step: The latest step; -1 before the first.
    """

    def __init__(self, names: Collection[str]) -> None:
        self.step = -1
        self._names = frozenset(names)
        self._courses: dict[str, Course] = {}

    def add(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Takes the metrics of a step, which follows all those before."""
        self.step = max(self.step, step)
        for name in self._names & metrics.keys():
            value = metrics[name]
            if value is not None:
                self._courses.setdefault(name, Course()).add(Point(step, value))

    def of(self, name: str) -> Course:
        """A metric's course; an empty one for a metric that was never measured."""
        return self._courses.get(name) or Course()

    def recent(self, name: str) -> tuple[Point, ...]:
        """The values of a metric in the latest steps, as far as they are numbers."""
        return tuple(point for point in self.of(name).latest if point.step > self.step - RECENT_STEPS)
