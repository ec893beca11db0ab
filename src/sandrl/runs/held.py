"""The time for which the sandboxes of a run existed, and its cost.

The ledger is the only source. A sandbox counts from the line that announces it to the line that reports its end, so
every reader of the ledger gets the sum that the job has counted, and a budget is checked against the same sum. The
metrics of the run about sandbox time are written from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from sandrl.config.budget import Money, cost_of, duration_text
from sandrl.runs.config import JobRecord
from sandrl.runs.reader import RunReader
from sandrl.runs.rows import SandboxEvent, SandboxRow, now

PRICE_OPTION = "sandbox_hour_price"
"""The option of a run that keeps what a sandbox-hour cost when it was made."""
SECONDS_METRIC = "sandbox_seconds"
COST_METRIC = "cost"


@dataclass(frozen=True, slots=True)
class SandboxTime:
    """Sandbox time, and the price of a sandbox-hour if that is known."""

    seconds: float = 0.0
    price: Money | None = None

    @property
    def cost(self) -> Money | None:
        """What it cost; None without a price."""
        return None if self.price is None else cost_of(self.seconds, self.price)

    @property
    def metrics(self) -> dict[str, float | None]:
        """The same as metrics; without a cost where that is not known."""
        known: dict[str, float | None] = {SECONDS_METRIC: self.seconds}
        return known if self.cost is None else {**known, COST_METRIC: self.cost.amount}

    @property
    def text(self) -> str:
        """The same for people, such as `3m 12s, $0.04`."""
        time = duration_text(self.seconds)
        return time if self.cost is None else f"{time}, {self.cost.shown}"

    def document(self) -> dict[str, JsonValue]:
        """The same as plain JSON."""
        cost = self.cost
        return {
            SECONDS_METRIC: round(self.seconds, 6),
            COST_METRIC: None if cost is None else round(cost.amount, 9),
            "currency": None if cost is None else cost.currency,
        }

    def plus(self, seconds: float) -> SandboxTime:
        """The same with more seconds."""
        return SandboxTime(self.seconds + seconds, self.price)


def held_by(reader: RunReader) -> SandboxTime:
    """How long the sandboxes of a run existed so far, and what that cost by the price that the run keeps.

    A sandbox of a running job counts until now. One whose end no line says counts until its job ended; where the job
    was killed, until the last line of its ledger.
    """
    jobs = {job.job_id: job for job in reader.config.jobs}
    last_id = reader.config.jobs[-1].job_id if reader.config.jobs else ""
    running = last_id if reader.is_running else ""
    return SandboxTime(seconds_of(reader.each_sandbox(), jobs, running=running), price_in(reader.config.options))


def seconds_of(ledger: Iterable[SandboxRow], jobs: Mapping[str, JobRecord], *, running: str = "") -> float:
    """The sandbox time in the lines of a ledger.

    The jobs that wrote them are given by id; `running` is the id of the one that is writing them now, if any.
    """
    total = 0.0
    begun: dict[tuple[str, int, str], datetime] = {}
    last: dict[str, datetime] = {}
    for row in ledger:
        place = (row.job_id, row.rank, row.key)
        last[row.job_id] = max(last.get(row.job_id, row.time), row.time)
        if row.event is SandboxEvent.INTENT:
            if place in begun:
                total += _seconds(begun[place], row.time)
            begun[place] = row.time
        elif row.event is SandboxEvent.STOPPED and place in begun:
            total += _seconds(row.since or begun[place], row.time)
            del begun[place]
    for (job_id, _, _), since in begun.items():
        job = jobs.get(job_id)
        ended = now() if job_id == running else (job and job.finished_at) or last[job_id]
        total += _seconds(since, ended)
    return total


def price_in(options: Mapping[str, JsonValue]) -> Money | None:
    """The price that a run with these options keeps; None if it was not known."""
    text = options.get(PRICE_OPTION)
    return Money.parse(text) if isinstance(text, str) else None


def _seconds(since: datetime, until: datetime) -> float:
    return max((until - since).total_seconds(), 0.0)
