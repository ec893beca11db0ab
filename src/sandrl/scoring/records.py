"""The rows that a run keeps of scored completions, the same for scoring, training and episodes.

Rows are validated from the result by field name, so a field that is added to both needs no further code; only fields
with different names are listed here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from sandrl.events import OpinionFinished
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion
from sandrl.runs import OpinionRow, TrajectoryRow

_KEPT = {field.name for field in fields(ScoredCompletion)} & TrajectoryRow.model_fields.keys()


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run a completion belongs.

    Attributes:
        step: The training step it belongs to, from 0; None outside of training.
        attempt: 1, or more where a resumed run did the step again.
        greedy: Whether it has the likeliest token everywhere, and was not sampled.
    """

    job_id: str
    rank: int = 0
    step: int | None = None
    attempt: int = 1
    held_out: bool = False
    greedy: bool = False


@cache
def result_adapter() -> TypeAdapter[ScoredCompletion]:
    """Makes results of plain values; it is built on use, which takes a while."""
    return TypeAdapter(ScoredCompletion)


def result_of(row: TrajectoryRow) -> ScoredCompletion:
    """The result that a run has kept; of how a completion was judged before, the row knows nothing."""
    phases = {name: seconds for name, seconds in row.timing.items() if name != "cpu"}
    kept = {**row.model_dump(include=_KEPT), "cpu_seconds": row.timing.get("cpu", 0.0), "phases": phases}
    return result_adapter().validate_python(kept)


def trajectory_row(result: ScoredCompletion, completion: Completion, place: Place, **more: Any) -> TrajectoryRow:
    own = {
        "completion": completion.completion,
        "reasoning": completion.reasoning,
        "timing": {"cpu": result.cpu_seconds, **result.phases},
        "tokens": {} if completion.tokens is None else {"completion": completion.tokens},
    }
    return TrajectoryRow.model_validate({**_fields(result), **_fields(place), **own, **more})


def opinion_row(event: OpinionFinished, place: Place) -> OpinionRow:
    return OpinionRow.model_validate({**_fields(event.result), **_fields(place), "opinion": event.opinion})


def _fields(record: ScoredCompletion | Place) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
