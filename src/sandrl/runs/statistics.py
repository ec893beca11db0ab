"""The formulas of the metrics, each with its source.

They are in a module without dependencies, so that rewards, trainers and the readers of a run share them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

_Z = 1.959963984540054
"""The 97.5th percentile of the normal distribution: intervals are of 95%."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share that was measured on some problems, with its 95% interval."""

    value: float
    low: float
    high: float
    problems: int


def estimate(values: Sequence[float], *, tries: int | None = None) -> Estimate | None:
    """The mean of a share over problems, with an interval for the problems these were drawn from.

    The problem is the unit: samples of one problem are not independent. So the interval is Wilson's (1927, JASA 22:209)
    with the effective sample size p(1 - p) / Var(mean) in place of the number of samples, as for clustered samples
    (Korn and Graubard 1998, Survey Methodology 24:193, with their correction for few clusters; compared by Dean and
    Pagano 2015, Journal of Survey Statistics and Methodology 3:484). That size is at least the number of problems and
    at most the number of independent tries. Where the mean is 0 or 1, it is the number of problems, so the width is
    never zero. With one sample of each problem this is Wilson's own interval.

    Args:
        values: The share of each problem, from 0 to 1.
        tries: How many independent tries these are of in all; one of each problem unless given.

    Returns:
        None without problems.
    """
    problems = len(values)
    if not problems:
        return None
    share = math.fsum(values) / problems
    scatter = math.fsum((value - share) ** 2 for value in values) / problems
    most = max(tries or problems, problems)
    size = float(problems)
    if 0.0 < share < 1.0 and problems > 1:
        free = problems - 1
        size = free * share * (1.0 - share) / scatter if scatter > 0.0 else math.inf
        size = min(max(size * (_Z / student_quantile(free)) ** 2, problems), most)
    middle = share + _Z**2 / (2.0 * size)
    reach = _Z * math.sqrt(share * (1.0 - share) / size + (_Z / (2.0 * size)) ** 2)
    scale = 1.0 + _Z**2 / size
    # What is rounded must not leave the interval without the mean, or reach beyond all shares.
    low, high = (middle - reach) / scale, (middle + reach) / scale
    return Estimate(share, max(min(low, share), 0.0), min(max(high, share), 1.0), problems)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference of two measurements of the same problems, with its 95% interval.

    Attributes:
        low: The lower bound of the interval; None where the differences do not tell how much they vary.
        p_value: The probability of a difference at least as large if there were none, two-sided.
        test: The test that the probability is of: `mcnemar`, `paired_t` or `sign`.
        gained: In how many of them the second is higher.
        lost: In how many it is lower.
    """

    value: float
    low: float | None
    high: float | None
    p_value: float
    test: str
    pairs: int
    gained: int
    lost: int


def paired_difference(
    differences: Sequence[float], *, is_single: bool = False, is_share: bool = True
) -> PairedDifference | None:
    """The mean of paired differences, with an interval for the problems these were drawn from.

    The problem is the unit, as in `estimate`: the difference of a problem is that of the means of its samples, so the
    interval of the paired t test is that of a standard error clustered by problem (Miller 2024, arXiv:2411.00640,
    section 4.2; `scipy.stats.ttest_rel`), and a bootstrap that draws problems agrees with it.

    With one sample of each problem, the probability is that of the exact McNemar test (1947, Psychometrika 12:153;
    `scipy.stats.binomtest` of the gained ones among those that changed); with several, that of the t test. Where all
    differences are the same, t has no scale. The probability is then that of the sign test, and the interval of a
    share that of Agresti and Min (2005, Statistics in Medicine 24:729), which adds half an observation to each of the
    four outcomes of a pair, so its width is never zero.

    Args:
        differences: Of each problem, the second measurement minus the first.
        is_single: Whether each measurement is that of a single sample, so 0 or 1.
        is_share: Whether each measurement is from 0 to 1.

    Returns:
        None without problems.
    """
    pairs = len(differences)
    if not pairs:
        return None
    value = math.fsum(differences) / pairs
    gained, lost = sum(each > 0.0 for each in differences), sum(each < 0.0 for each in differences)
    low = high = None
    spread = max(differences) - min(differences)
    test, p_value = "sign", sign_test(gained, lost)
    if spread > 0.0 and pairs > 1:
        squares = math.fsum((each - value) ** 2 for each in differences)
        error = math.sqrt(squares / (pairs - 1) / pairs)
        reach = student_quantile(pairs - 1) * error
        low, high = value - reach, value + reach
        if is_share:
            low, high = max(low, -1.0), min(high, 1.0)
        if error > 0.0:
            test, p_value = "paired_t", student_tails(value / error, pairs - 1)
    elif is_share:
        size = pairs + 2
        middle = value * pairs / size
        square = (pairs * value**2 + 1.0) / size
        reach = _Z * math.sqrt((square - middle**2) / size)
        low, high = max(min(middle - reach, value), -1.0), min(max(middle + reach, value), 1.0)
    if is_single:
        test, p_value = "mcnemar", sign_test(gained, lost)
    return PairedDifference(value, low, high, p_value, test, pairs, gained, lost)


def sign_test(gained: int, lost: int) -> float:
    """The probability of so uneven a split of changes that go either way with equal chances, exact and two-sided."""
    changes, fewer = gained + lost, min(gained, lost)
    if 2 * fewer >= changes:
        return 1.0
    # From the largest term downwards: each is the one above it times a ratio of at most 1.
    term = total = 1.0
    for count in range(fewer, 0, -1):
        term *= count / (changes - count + 1)
        total += term
        if term < total * 1e-17:
            break
    largest = math.lgamma(changes + 1) - math.lgamma(fewer + 1) - math.lgamma(changes - fewer + 1)
    if changes <= 1_000:
        return min(2.0 * total * (math.comb(changes, fewer) / (1 << changes)), 1.0)
    return min(2.0 * total * math.exp(largest - changes * math.log(2.0)), 1.0)


def adjusted_for_several(p_values: Sequence[float]) -> tuple[float, ...]:
    """Probabilities of several tests, each adjusted for their number (Holm 1979, Scand. J. of Statistics 6:65)."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min((len(p_values) - rank) * p_values[at], 1.0))
        adjusted[at] = largest
    return tuple(adjusted)


def student_tails(t: float, freedom: int) -> float:
    """The probability that Student's t is at least as far from zero, on either side."""
    square = t * t
    # From the end at which the argument is small: a small t is lost beside the degrees of freedom.
    if square < freedom:
        return 1.0 - _incomplete_beta(0.5, freedom / 2.0, square / (freedom + square))
    return _incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + square))


@lru_cache(maxsize=1_024)
def student_quantile(freedom: int) -> float:
    """The 97.5th percentile of Student's t."""
    low, high = _Z, 13.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if student_tails(middle, freedom) > 0.05 else (low, middle)
    return (low + high) / 2.0


def _incomplete_beta(a: float, b: float, x: float) -> float:
    # The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 1964, 26.5.8).
    if not 0.0 < x < 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny = 1e-300
    c, d = 1.0, 1.0 / ((1.0 - (a + b) * x / (a + 1.0)) or tiny)
    fraction = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / ((1.0 + term * d) or tiny)
            c = (1.0 + term / c) or tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return front * fraction / a


def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate of pass@k for one problem (arXiv:2107.03374, equation 1).

    Args:
        n: Samples of the problem.
        c: How many of them passed.
        k: How many tries are asked about; at most `n`.

    Returns:
        1 - C(n - c, k) / C(n, k): the chance that of k samples drawn from the n at least one passes.

    Raises:
        ValueError: If the numbers do not fit together.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {c} passes in {n} samples is not defined")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod((n - c - i) / (n - i) for i in range(k))


def training_reward(reward: float | None, components: Mapping[str, float]) -> float | None:
    """The one number that a trainer trains on: the reward with its components; None where there is no reward."""
    return None if reward is None else math.fsum((reward, *components.values()))


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of the population; None of nothing."""
    middle = mean(values)
    if middle is None:
        return None
    try:
        return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / len(values))
    except OverflowError:
        return math.inf


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that at least so many per cent (more than 0) of the values do not exceed; None of nothing."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(len(values) * percent / 100.0), 1) - 1]
