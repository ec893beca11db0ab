"""Rows of completions without their texts: the values that are counted fit into memory, for runs of every size."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sandrl.runs.rows import OpinionPart, TrajectoryRow

_NO_COMPONENTS: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class SlimRow:
    """What is counted of a row; the fields are those of `TrajectoryRow`, and one more.

    Attributes:
        contradicts_checks: Whether its single checks say something else than `passed` and `total`.
    """

    time: datetime
    job_id: str
    step: int | None
    attempt: int
    task_id: str
    reward: float | None
    status: str
    trust: str | None
    is_pass: bool
    sandboxes: int
    retries: int
    reruns: int
    canaries: int
    cells: int
    isolation: str | None
    cached: bool
    dropped: bool
    held_out: bool
    truncated: bool
    components: dict[str, float]
    second_opinion: OpinionPart | None
    finish_reason: str | None
    is_cut_off: bool
    contradicts_checks: bool


_FIELDS = tuple(each.name for each in fields(SlimRow) if each.name != "contradicts_checks")


def counted(rows: Iterable[TrajectoryRow]) -> Iterator[SlimRow]:
    """What is counted of each of some rows."""
    for row in rows:
        passed = sum(check.status == "passed" for check in row.checks)
        values = {name: _shared(getattr(row, name)) for name in _FIELDS}
        # Of older rows nothing is said about single checks.
        contradicts_checks = bool(row.checks) and (passed, len(row.checks)) != (row.passed, row.total)
        yield SlimRow(**values, contradicts_checks=contradicts_checks)


def _shared(value: Any) -> Any:
    # Most rows have the same words, and no components.
    if isinstance(value, str):
        return sys.intern(value)
    return _NO_COMPONENTS if value == {} else value
