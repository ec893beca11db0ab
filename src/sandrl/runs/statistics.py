"""The formulas of the metrics, each with its source.

They are in a module without dependencies, so that rewards, trainers and the readers of a run share them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_Z = 1.959963984540054
"""The 97.5th percentile of the normal distribution: intervals are of 95%."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share that was measured on some problems, with its 95% interval.

    Attributes:
        value: The mean over the problems.
        low: The lower bound of the interval.
        high: Its upper bound.
        problems: How many problems.
    """

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
        size = min(max(size * (_Z / _student(free)) ** 2, problems), most)
    middle = share + _Z**2 / (2.0 * size)
    reach = _Z * math.sqrt(share * (1.0 - share) / size + (_Z / (2.0 * size)) ** 2)
    scale = 1.0 + _Z**2 / size
    # What is rounded must not leave the interval without the mean, or reach beyond all shares.
    low, high = (middle - reach) / scale, (middle + reach) / scale
    return Estimate(share, max(min(low, share), 0.0), min(max(high, share), 1.0), problems)


def _student(freedom: int) -> float:
    """The 97.5th percentile of Student's t (Abramowitz and Stegun 1964, 26.7.5, three terms)."""
    first = (_Z**3 + _Z) / 4.0
    second = (5.0 * _Z**5 + 16.0 * _Z**3 + 3.0 * _Z) / 96.0
    third = (3.0 * _Z**7 + 19.0 * _Z**5 + 17.0 * _Z**3 - 15.0 * _Z) / 384.0
    return _Z + first / freedom + second / freedom**2 + third / freedom**3


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
    """The smallest value that at least so many per cent of the values do not exceed (nearest rank); None of nothing.

    Args:
        values: In any order.
        percent: More than 0, at most 100.
    """
    if not values:
        return None
    return sorted(values)[max(math.ceil(len(values) * percent / 100.0), 1) - 1]
