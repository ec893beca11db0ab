"""Time limits of sets: seconds for one run of a compiled program, on the machine of a judge site.

A check may take four times as long, and at least 4 seconds, because an interpreter, and a machine that runs many
sandboxes, are slower. A limit for all tests together is ignored: `judge.time_limit` grows with the number of passed
tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sandrl.bounds import seconds_problem
from sandrl.errors import InputError
from sandrl.jsonl import type_name

FACTOR = 4.0
LEAST_SECONDS = 4.0

# Larger numbers are no times, and some are no floats.
_MOST = 1e18
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:s|secs?|seconds?)?\.?\s*", re.IGNORECASE)


def check_timeout(value: Any, field: str) -> float | None:
    """Seconds that a check may take, by the limit of a row: a number, a text, `seconds` and `nanos`, or None."""
    seconds = _seconds(value, field)
    if not seconds:
        return None
    seconds = max(FACTOR * seconds, LEAST_SECONDS)
    if problem := seconds_problem(seconds):
        raise InputError(problem, field=field)
    return seconds


def _seconds(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        parts = [_seconds(value.get(name), f"{field}.{name}") or 0.0 for name in ("seconds", "nanos")]
        return parts[0] + parts[1] / 1e9
    if isinstance(value, str):
        found = _TEXT.fullmatch(value)
        # Some rows have no limit, in words (`None`, `N/A`), or one in other words: those say nothing.
        return float(found.group(1)) if found is not None else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"must be a number of seconds, not {type_name(value)}", field=field)
    if not 0 <= value < _MOST:
        raise InputError(f"must be a number of seconds, not {value!r:.40}", field=field)
    return float(value)
