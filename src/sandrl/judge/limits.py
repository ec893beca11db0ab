"""Limits of a completion: times, output, files.

The limits of a run and of a problem are combined in one place, so that the judge, the verdict cache and the batch use
the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.bounds import check_seconds
from sandrl.problems import Problem
from sandrl.problems.checkers import CHECKER_SECONDS

# For all cases together a checker has so many times its limit for one.
_CHECKED_AT_LENGTH = 6
# Kinds of checks that are alike, and do not know of one another.
_SEVERAL = frozenset({"cases", "calls"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a completion.

    Attributes:
        timeout_seconds: Time limit of the completion with all of its checks.
        check_timeout_seconds: Time limit of each check; `None` for no limit but `timeout_seconds`.
        max_output_bytes: How much of stdout, and of stderr, is kept.
        max_file_bytes: Size of the largest file that it may write, including its output.
        is_extended: Whether the time of cases and calls that pass is not counted: for each of them up to its time limit
            (`FREE_SECONDS` without one), and up to `MOST_SECONDS` in total. So correct code does not run out of time
            only because it has many checks. A problem with a time limit of its own is not extended.
        stops_at_failure: Whether cases and calls after the first failed one are skipped.
        compile_timeout_seconds: Time limit of each compilation; not part of the other times.
        hash_seed: The seed of the hashes of Python, and so of the order of sets: it is the same for every interpreter
            of a completion, its reference and its checker.
    """

    timeout_seconds: float = 10.0
    check_timeout_seconds: float | None = None
    max_output_bytes: int = 1 << 20
    max_file_bytes: int = 64 << 20
    is_extended: bool = False
    stops_at_failure: bool = False
    compile_timeout_seconds: float = 30.0
    hash_seed: int = 0


FREE_SECONDS = 2.0
"""With `Limits.is_extended`: how much time of a passed check is not counted, if checks have no time limit."""

MOST_SECONDS = 120.0
"""With `Limits.is_extended`: how long a completion may run with all of its checks.

It is bounded because a completion that stops its judge is ended only by the runtime, after several times as long.
"""


def check_limits(limits: Limits) -> None:
    """Checks limits of time.

    Raises:
        UsageError: If a time is too short for any program, or too long for a clock.
    """
    check_seconds("timeout_seconds", limits.timeout_seconds)
    check_seconds("check_timeout_seconds", limits.check_timeout_seconds)
    check_seconds("compile_timeout_seconds", limits.compile_timeout_seconds)


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long a completion of a problem may take.

    Attributes:
        seconds: By the clock, for all checks.
        free_seconds: Of a check that passes, how much of its time does not count.
        most_seconds: By the clock, with what does not count.
    """

    seconds: float
    free_seconds: float
    most_seconds: float


def time_limit(problem: Problem, limits: Limits) -> TimeLimit:
    """How long a completion of a problem may take; a limit of the problem overrides the options."""
    seconds = float(problem.timeout_seconds or limits.timeout_seconds)
    if not limits.is_extended or problem.timeout_seconds or problem.kind not in _SEVERAL:
        return TimeLimit(seconds, 0.0, seconds)
    each = check_time_limit(problem, limits)
    seconds = max(seconds, each or 0.0)
    free = FREE_SECONDS if each is None else each
    return TimeLimit(seconds, free, max(seconds, min(seconds + free * problem.check_count, MOST_SECONDS)))


def compile_time_limit(problem: Problem, limits: Limits) -> float:
    """Seconds that all compilations of a completion of a problem may take together; 0 in Python."""
    return 0.0 if problem.is_python else limits.compile_timeout_seconds * (len(problem.tests) or 1)


def checker_time_limits(problem: Problem) -> tuple[float, float]:
    """Seconds that the checker of a problem may take for one case, and for all; zeros if it has none."""
    if problem.checker is None:
        return 0.0, 0.0
    seconds = float(problem.checker_timeout_seconds or CHECKER_SECONDS)
    return seconds, seconds * min(_CHECKED_AT_LENGTH, len(problem.cases))


def check_time_limit(problem: Problem, limits: Limits) -> float | None:
    """Seconds each check of a problem may take, or `None`; a limit of the problem overrides the options."""
    seconds = problem.check_timeout_seconds or limits.check_timeout_seconds
    return None if seconds is None else float(seconds)


def may_stop(problem: Problem) -> bool:
    """Whether checks after one that fails may be left out: not tests, which may build on one another."""
    return problem.kind in _SEVERAL and problem.check_count > 1
