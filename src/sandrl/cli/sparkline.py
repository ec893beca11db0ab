"""Draws curves with characters: one line high beside a number, or as a plot of several lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sandrl.runs.series import thinned

_BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Values as a line of blocks, the lowest smallest; one character each, or for as many as fit. NaN is a blank."""
    points = thinned(values, width)
    low, high = _range(points)
    span = high - low
    return "".join(
        " " if math.isnan(point) else "▄" if not span else _BLOCKS[1 + round((point - low) / span * 7)]
        for point in points
    )


def plot(values: Sequence[float], *, first: int, last: int, width: int = 72, height: int = 12) -> list[str]:
    """Values of the steps from `first` to `last` as lines of a plot with its axes; the width includes the labels."""
    low, high = _range(values)
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0) or 1.0
    labels = [f"{high - (high - low) * line / (height - 1):.4g}" for line in range(height)]
    margin = max(map(len, labels))
    points = thinned(values, max(width - margin - 2, 8))
    stretch = max((width - margin - 2) // max(len(points), 1), 1)
    levels = [
        0 if math.isnan(point) else 1 + round((point - low) / (high - low) * (height * 8 - 1)) for point in points
    ]
    lines = []
    for line in range(height):
        base = (height - 1 - line) * 8
        cells = "".join(_BLOCKS[min(max(level - base, 0), 8)] * stretch for level in levels)
        lines.append(f"{labels[line].rjust(margin)} ┤{cells.rstrip()}")
    axis = f"{' ' * margin} └{'─' * (len(points) * stretch)}"
    ends = f"{first}".ljust(max(len(points) * stretch - len(str(last)), 1)) + f"{last}"
    return [*lines, axis, f"{' ' * margin}  {ends if last > first else first}"]


def _range(values: Sequence[float]) -> tuple[float, float]:
    known = [value for value in values if math.isfinite(value)]
    return (min(known), max(known)) if known else (0.0, 0.0)
