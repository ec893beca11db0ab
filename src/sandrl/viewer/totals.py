"""The totals of the completions of a run, counted from its index: the same numbers as the report counts from rows."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandrl.events.results import Status
from sandrl.runs.report.parts import Completions
from sandrl.runs.rows import MetricsRow
from sandrl.runs.statistics import Estimate
from sandrl.runs.summary import pass_at_of

SPANS = 60
"""The number of equal spans into which the time of a run is divided to show its throughput."""

_BY_STEP = """
SELECT step, names.name, count(*), total(reward), count(reward), sum(is_pass), sum(executions), sum(cut_off)
FROM rows JOIN names ON names.number = rows.status WHERE held_out = 0 GROUP BY step, status
"""
_BY_TASK = """
SELECT n, c, count(*) FROM (
    SELECT count(reward) AS n, sum(is_pass) AS c FROM rows WHERE held_out = 0 AND reward IS NOT NULL GROUP BY task)
GROUP BY n, c
"""
_BY_TIME = "SELECT min(CAST((time - ?) / ? AS INTEGER), ?), count(*) FROM rows WHERE held_out = 0 GROUP BY 1"

# The last second of the year 9998: a time in any zone.
_LATEST_SECONDS = 253_370_764_799.0


@dataclass(frozen=True, slots=True)
class Totals:
    """What was counted, as plain lists that can be kept.

    Attributes:
        by_step: Step, status, completions, sum of rewards, scored ones, passed ones, executions, truncated answers.
        by_task: Scored completions and passed ones of a problem, and how many problems have so many.
        by_span: Number of a span of time, and how many completions were written in it.
        first_time: When the first row was written, in seconds since 1970; None without rows.
    """

    by_step: list[list[Any]]
    by_task: list[list[int]]
    by_span: list[list[int]]
    first_time: float | None
    last_time: float | None

    @classmethod
    def count(cls, database: sqlite3.Connection) -> Totals:
        """Counts what is indexed now."""
        first, last = database.execute("SELECT min(time), max(time) FROM rows").fetchone()
        spans = [] if first is None else database.execute(_BY_TIME, (first, _span(first, last), SPANS - 1)).fetchall()
        return cls(
            by_step=[list(row) for row in database.execute(_BY_STEP)],
            by_task=[list(row) for row in database.execute(_BY_TASK)],
            by_span=[list(row) for row in spans],
            first_time=first,
            last_time=last,
        )

    def completions(self) -> Completions:
        """The same as a report has it."""
        by_status: Counter[str] = Counter()
        for _, status, count, *_ in self.by_step:
            by_status[status] += count
        span = 1.0 if self.first_time is None else _span(self.first_time, self.last_time or 0.0)
        in_span = {row[0]: row[1] for row in self.by_span} if sum(by_status.values()) > 1 else {}
        return Completions(
            count=sum(by_status.values()),
            by_status=dict(by_status),
            pass_at=self._pass_at() if any(n > 1 for n, *_ in self.by_task) else {},
            executions=sum(row[6] for row in self.by_step),
            last_time=None if self.last_time is None else _time_of(self.last_time),
            rates=[((at + 1) * span, in_span.get(at, 0) / span) for at in range(max(in_span, default=-1) + 1)],
        )

    def metrics(self) -> tuple[MetricsRow, ...]:
        """The main metrics of each step, for a run whose jobs have written none."""
        steps: defaultdict[int, list[list[Any]]] = defaultdict(list)
        for row in self.by_step:
            steps[max(row[0], 0)].append(row)
        time = datetime.fromtimestamp(self.last_time or 0.0, UTC)
        rows = [MetricsRow(time=time, job_id="", step=step, metrics=_metrics(steps[step])) for step in sorted(steps)]
        if len(rows) == 1 and (found := self._pass_at().get(1)):
            rows[0].metrics.update({"pass@1": found.value, "pass@1_low": found.low, "pass@1_high": found.high})
        return tuple(rows)

    def _pass_at(self) -> dict[int, Estimate]:
        return pass_at_of([(n, c) for n, c, problems in self.by_task for _ in range(problems)])


def _span(first: float, last: float) -> float:
    return max((last - first) / SPANS, 1.0)


def _metrics(rows: list[list[Any]]) -> dict[str, float | None]:
    count, reward, scored, passed, executions, truncated = (sum(row[at] for row in rows) for at in range(2, 8))
    statuses: Counter[str] = Counter()
    for row in rows:
        statuses[row[1]] += row[2]
    return {
        "reward/mean": reward / scored if scored else None,
        "reward/total": reward,
        "pass_rate": passed / scored if scored else None,
        "completions": float(count),
        "scored": float(scored),
        "unscorable": float(count - scored - statuses[Status.ABSTAINED]),
        **({"abstained": float(statuses[Status.ABSTAINED])} if statuses[Status.ABSTAINED] else {}),
        **{f"status/{status}": float(number) for status, number in sorted(statuses.items())},
        "no_code": float(statuses[Status.NO_CODE]),
        "executions": float(executions),
        "truncated_answers": float(truncated),
    }


def _time_of(seconds: float) -> datetime:
    # A time since 1970; the nearest that there is for one that is none.
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LATEST_SECONDS), UTC)
