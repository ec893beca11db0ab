"""The order of problems during a training: schedules learn which completions passed, and runs keep their state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from sandrl.events.results import ScoredCompletion
from sandrl.files import write_whole
from sandrl.problems.schedule import Schedule, ScheduleState

SCHEDULE = "schedule.json"
"""The file with the state of a schedule."""


class KeptOrder(BaseModel):
    """The state of a schedule before and after a round: it is not known whether a round that was killed is repeated."""

    round: int
    before: ScheduleState
    after: ScheduleState


def keep_order(directory: Path, kept: KeptOrder) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(directory / SCHEDULE, kept.model_dump_json().encode(), durable=True)


def restore_order(schedule: Schedule, directory: Path, following: int, groups: int) -> None:
    """Continues a schedule at a round of a run; of a run that has kept no order, after the groups of each round."""
    try:
        kept = KeptOrder.model_validate_json((directory / SCHEDULE).read_bytes())
    except FileNotFoundError:
        for _ in range(following):
            schedule.take(groups)
    else:
        schedule.restore(kept.after if kept.round < following else kept.before)


def note_all(schedule: Schedule, completions: Iterable[ScoredCompletion]) -> None:
    """Tells a schedule which completions of a step passed."""
    passed: defaultdict[str, list[float | None]] = defaultdict(list)
    for each in completions:
        passed[each.task_id].append(None if each.reward is None else float(each.is_pass))
    for task_id, group in passed.items():
        schedule.note(task_id, group)


def passes_of(schedule: Schedule, problems: int) -> float:
    """How often a schedule has gone through its problems, on average."""
    return sum(part.taken for part in schedule.state.parts) / problems
