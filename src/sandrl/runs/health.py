"""Reports the flags of a run while it is being written: each flag once, when it is raised.

After each step the rules of `sandrl.runs.flags` examine the history so far, so the user sees the same flags live as in
every view of the run. A flag that disappears and returns is reported again only after it was absent for some steps, and
this number doubles each time: a flag that flickers through 10,000 steps is reported about ten times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sandrl.events import Emit, FlagRaised, ignore
from sandrl.runs.courses import RECENT_STEPS
from sandrl.runs.flags import courses_of, raised
from sandrl.runs.rows import MetricsRow


@dataclass(slots=True)
class _Reports:
    times: int
    seen: int


class Health:
    """Watches the metrics of a run; of its earlier rows, those before the job's first step count.

    Attributes:
        flags: Those that stand after the latest step.
    """

    def __init__(self, rows: Iterable[MetricsRow] = (), *, first_step: int = 0, emit: Emit = ignore) -> None:
        self._courses = courses_of((row.step, row.metrics) for row in rows if row.step < first_step)
        self._emit = emit
        self._told: dict[str, _Reports] = {}
        self.flags = raised(self._courses)

    def add(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Takes the metrics of a step, which follows all those before, and tells of the flags that it raises."""
        self._courses.add(step, metrics)
        self.flags = raised(self._courses)
        for flag in self.flags:
            told = self._told.setdefault(flag.name, _Reports(times=0, seen=step))
            if not told.times or step - told.seen > RECENT_STEPS * 2 ** (told.times - 1):
                told.times += 1
                self._emit(
                    FlagRaised(
                        step,
                        name=flag.name,
                        message=flag.message,
                        hint=flag.hint,
                        metrics=flag.metrics,
                        value=flag.value,
                        threshold=flag.threshold,
                        unit=flag.unit.value,
                        fields=flag.fields,
                        times=told.times,
                    )
                )
            told.seen = step
