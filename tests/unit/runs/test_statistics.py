"""The formulas of statistics where a closed form is known; `tests/integrations` compares the others with SciPy."""

from __future__ import annotations

import math

import pytest

from sandrl.runs.statistics import estimate, student_quantile, student_tails


@pytest.mark.parametrize("t", [1e-9, 1e-3, 0.2, 1.0, 1.5, 4.0, 30.0, 1e4])
def test_student_of_two_and_of_three_values_has_its_closed_forms(t: float) -> None:
    assert 1.0 - student_tails(t, 1) == pytest.approx(2.0 / math.pi * math.atan(t), rel=1e-7, abs=1e-15)
    assert 1.0 - student_tails(t, 2) == pytest.approx(t / math.sqrt(t * t + 2.0), rel=1e-7, abs=1e-15)


def test_percentiles_of_few_degrees_of_freedom_are_exact() -> None:
    assert student_quantile(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-12)
    assert student_quantile(2) == pytest.approx(0.95 * math.sqrt(2.0 / (1.0 - 0.95**2)), rel=1e-12)


def test_the_interval_of_three_problems_has_the_exact_percentile() -> None:
    found = estimate([0.5, 0.5, 0.75], tries=24)
    assert found is not None
    assert found.high == pytest.approx(0.8459083785, rel=1e-9)
