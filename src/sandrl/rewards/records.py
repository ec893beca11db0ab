"""The rows that a run keeps of scored completions, the same for scoring, training and episodes.

Rows are validated from the result by field name, so a field that is added to both needs no further code; only fields
with different names are listed here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sandrl.events import OpinionFinished
from sandrl.events.results import CheckStatus, CheckVerdict, Isolation, Opinion, ScoredCompletion, Status, Trust
from sandrl.problems import Completion
from sandrl.runs import OpinionRow, TrajectoryRow


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


def result_of(row: TrajectoryRow) -> ScoredCompletion:
    """The result that a run has kept; of how a completion was judged before, the row knows nothing."""
    opinion = row.second_opinion
    return ScoredCompletion(
        index=row.index,
        id=row.id,
        task_id=row.task_id,
        reward=row.reward,
        status=Status(row.status),
        trust=None if row.trust is None else Trust(row.trust),
        passed=row.passed,
        total=row.total,
        duration_seconds=row.duration_seconds,
        sandbox_id=row.sandbox_id,
        detail=row.detail,
        sandboxes=row.sandboxes,
        retries=row.retries,
        reruns=row.reruns,
        canaries=row.canaries,
        cells=row.cells,
        isolation=None if row.isolation is None else Isolation(row.isolation),
        failures=row.failures,
        cached=row.cached,
        components=row.components,
        cpu_seconds=row.timing.get("cpu", 0.0),
        compile_seconds=row.compile_seconds,
        code=row.code,
        stdout=row.stdout,
        stderr=row.stderr,
        truncated=row.truncated,
        checks=tuple(
            CheckVerdict(**{**check.model_dump(), "status": CheckStatus(check.status)}) for check in row.checks
        ),
        hash_seeds=row.hash_seeds,
        finish_reason=row.finish_reason,
        second_opinion=None
        if opinion is None
        else Opinion(Status(opinion.status), opinion.detail, opinion.sandbox_id, opinion.sandboxes),
    )


def trajectory_row(result: ScoredCompletion, completion: Completion, place: Place, **more: Any) -> TrajectoryRow:
    """The row of one completion."""
    own = {
        "completion": completion.completion,
        "reasoning": completion.reasoning,
        "timing": {"cpu": result.cpu_seconds},
        "tokens": {} if completion.tokens is None else {"completion": completion.tokens},
    }
    return TrajectoryRow.model_validate({**_fields(result), **_fields(place), **own, **more})


def opinion_row(event: OpinionFinished, place: Place) -> OpinionRow:
    """The row of a second opinion."""
    return OpinionRow.model_validate({**_fields(event.result), **_fields(place), "opinion": event.opinion})


def _fields(record: ScoredCompletion | Place) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
