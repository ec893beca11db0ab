"""The statistics of runs are those of SciPy: this environment has it, the one of development has not."""

from __future__ import annotations

import math
import random

import pytest

from sandrl.runs.statistics import (
    adjusted_for_several,
    paired_difference,
    sign_test,
    student_quantile,
    student_tails,
)

numpy = pytest.importorskip("numpy", reason="not installed: numpy (make test-integrations)")
stats = pytest.importorskip("scipy.stats", reason="not installed: scipy (make test-integrations)")


@pytest.mark.parametrize("seed", range(8))
def test_the_exact_mcnemar_test_is_the_binomial_test(seed: int) -> None:
    draw = random.Random(seed)
    for most in (1, 10, 300, 5_000, 100_000):
        gained, lost = draw.randint(0, most), draw.randint(0, most)
        if gained + lost:
            expected = stats.binomtest(gained, gained + lost).pvalue
            assert sign_test(gained, lost) == pytest.approx(expected, rel=1e-8, abs=1e-300)
    near = sign_test(50_000, 50_000 + 400)
    assert near == pytest.approx(stats.binomtest(50_000, 100_400).pvalue, rel=1e-8)


def test_percentiles_and_tails_of_student_are_those_of_scipy() -> None:
    for freedom in (1, 2, 3, 4, 7, 30, 163, 1_000, 24_999, 1_000_000):
        assert student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)
        for t in (0.0, 1e-3, 0.4, 1.0, 1.96, 4.0, 11.0):
            assert student_tails(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-8)


@pytest.mark.parametrize("samples", [2, 4, 10])
@pytest.mark.parametrize("problems", [3, 20, 164, 2_000])
def test_several_samples_are_compared_by_the_paired_t_test(samples: int, problems: int) -> None:
    draw = numpy.random.default_rng(samples * problems)
    skill = draw.beta(1, 1, problems)
    first = draw.binomial(samples, skill) / samples
    second = draw.binomial(samples, numpy.clip(skill + 0.1, 0, 1)) / samples
    found = paired_difference((second - first).tolist())
    assert found is not None
    assert found.test == "paired_t"
    expected = stats.ttest_rel(second, first)
    interval = expected.confidence_interval()
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-8)
    # A difference of shares is between -1 and 1.
    bounds = max(interval.low, -1.0), min(interval.high, 1.0)
    assert (found.low, found.high) == pytest.approx(bounds, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("samples", [1, 4])
def test_the_interval_of_a_difference_is_that_of_a_bootstrap_by_problem(samples: int) -> None:
    draw = numpy.random.default_rng(samples)
    problems = 400
    skill = draw.beta(1, 1, problems)
    first = draw.binomial(samples, skill) / samples
    second = draw.binomial(samples, numpy.clip(skill + 0.05, 0, 1)) / samples
    differences = second - first
    found = paired_difference(differences.tolist(), is_single=samples == 1)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    drawn = stats.bootstrap((differences,), numpy.mean, n_resamples=20_000, rng=draw).confidence_interval
    width = found.high - found.low
    assert abs(found.low - drawn.low) < 0.05 * width
    assert abs(found.high - drawn.high) < 0.05 * width


def test_probabilities_are_adjusted_as_holm_has_it() -> None:
    # statsmodels.stats.multitest.multipletests([0.01, 0.04, 0.03, 0.5], method="holm")
    assert adjusted_for_several([0.01, 0.04, 0.03, 0.5]) == pytest.approx((0.04, 0.09, 0.09, 0.5))
    assert math.isclose(adjusted_for_several([0.03])[0], 0.03)
