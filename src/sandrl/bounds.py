"""Bounds of numbers and texts from users, for the command line, configuration files and the Python API.

A number that JSON cannot represent, or that makes a sum overflow, would lose a result at the very end. A time limit
that is too short makes every completion a timeout. An empty text usually comes from an unset variable of a shell
script. All of these are refused at the start, in a message that names the value.
"""

from __future__ import annotations

import math

from sandrl.errors import UsageError

SHORTEST_SECONDS = 0.01
"""The shortest time limit: no interpreter starts in less."""

LONGEST_SECONDS = 24 * 60 * 60.0
"""More than anyone waits for, and less than what clocks cannot hold."""

LARGEST_WEIGHT = 1e6
"""The largest weight or reward; sums of millions of them are exact enough and finite."""


def seconds_problem(seconds: float) -> str | None:
    """What is wrong with a time limit, as the end of a sentence; None if nothing is."""
    if SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        return None
    return f"must be at least {SHORTEST_SECONDS:g} seconds and at most a day, not {seconds:g}"


def check_seconds(name: str, seconds: float | None) -> None:
    """Refuses a time limit in which nothing can run, or that no clock can hold; None is no limit.

    Raises:
        UsageError: If it is one.
    """
    if seconds is not None and (problem := seconds_problem(seconds)):
        raise UsageError(f"{name} {problem}", fields=(name,))


def check_weight(name: str, weight: float, *, least: float = 0.0) -> None:
    """Refuses a weight that is not a number from `least` to `LARGEST_WEIGHT`.

    Raises:
        UsageError: If it is none.
    """
    if not least <= weight <= LARGEST_WEIGHT:
        raise UsageError(
            f"{name} must be a number from {least:g} to {LARGEST_WEIGHT:g}, not {weight:g}", fields=(name,)
        )


def check_finite(name: str, number: float, *, of: str = "") -> None:
    """Refuses infinity and what is not a number, as a field, or as the value of a key `of` a field that is a table.

    Raises:
        UsageError: If it is one of them.
    """
    if not math.isfinite(number):
        raise UsageError(f"{name} {of}".rstrip() + f" must be a finite number, not {number:g}", fields=(name,))


def check_text(name: str, *texts: str | None) -> None:
    """Refuses texts of nothing but blanks; None is no text.

    Raises:
        UsageError: If one is empty.
    """
    if any(text is not None and not text.strip() for text in texts):
        hint = "leave it out, or check the variable that it comes from"
        raise UsageError(f"{name} must not be empty", hint=hint, fields=(name,))


def finite(value: object) -> object:
    """The same JSON value with None for every number that JSON cannot hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
