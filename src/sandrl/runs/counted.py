"""Rows of completions without their texts: the values that are counted fit into memory, for runs of every size."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sandrl.runs.rows import OpinionPart, TrajectoryRow

_NO_COMPONENTS: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class CountedRow:
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


def counted(rows: Iterable[TrajectoryRow]) -> Iterator[CountedRow]:
    """What is counted of each of some rows."""
    for row in rows:
        passed = sum(check.status == "passed" for check in row.checks)
        yield CountedRow(
            time=row.time,
            job_id=sys.intern(row.job_id),
            step=row.step,
            attempt=row.attempt,
            task_id=sys.intern(row.task_id),
            reward=row.reward,
            status=sys.intern(row.status),
            trust=row.trust and sys.intern(row.trust),
            is_pass=row.is_pass,
            sandboxes=row.sandboxes,
            retries=row.retries,
            reruns=row.reruns,
            canaries=row.canaries,
            cells=row.cells,
            isolation=row.isolation and sys.intern(row.isolation),
            cached=row.cached,
            dropped=row.dropped,
            held_out=row.held_out,
            truncated=row.truncated,
            components=row.components or _NO_COMPONENTS,
            second_opinion=row.second_opinion,
            finish_reason=row.finish_reason and sys.intern(row.finish_reason),
            is_cut_off=row.is_cut_off,
            # Of older rows nothing is said about single checks.
            contradicts_checks=bool(row.checks) and (passed, len(row.checks)) != (row.passed, row.total),
        )
