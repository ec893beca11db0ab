from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sandrl.cli.sparkline import plot, sparkline


def test_the_lowest_is_smallest_and_the_highest_largest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([3, 3, 3]) == "▄▄▄"
    assert sparkline([0, math.nan, 1]) == "▁ █"
    assert sparkline([]) == ""


def test_more_values_than_room_are_gathered() -> None:
    assert sparkline(list(range(1000)), 8) == "▁▂▃▄▅▆▇█"


@given(st.lists(st.floats(allow_infinity=True, allow_nan=True, width=32), max_size=300), st.integers(1, 80))
def test_any_values_fit_into_any_width(values: list[float], width: int) -> None:
    assert len(sparkline(values, width)) == min(len(values), width)


@given(st.lists(st.floats(width=16), min_size=1, max_size=200), st.integers(30, 120))
def test_a_plot_of_anything_fits_into_its_width(values: list[float], width: int) -> None:
    lines = plot(values, first=0, last=len(values) - 1, width=width)
    assert len(lines) == 14
    assert max(map(len, lines)) <= width


def test_a_plot_rises_where_the_values_do() -> None:
    lines = plot([0.0, 1.0], first=0, last=1, width=30, height=4)
    assert [line.count("█") for line in lines[:3]] == sorted(line.count("█") for line in lines[:3])
    assert lines[0].split("┤")[0].strip() == "1"
    assert lines[-1].split() == ["0", "1"]
