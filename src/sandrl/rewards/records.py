"""What a run keeps and tells of a scored completion, the same for scoring, training and episodes."""

from __future__ import annotations

from sandrl.events import CompletionFinished, OpinionFinished
from sandrl.problems import Completion
from sandrl.rewards.summary import Opinion, ScoredCompletion
from sandrl.rewards.verdict import CheckStatus, CheckVerdict, Status, Trust
from sandrl.runs import CheckRow, OpinionPart, OpinionRow, TrajectoryRow


def trajectory_row(
    result: ScoredCompletion,
    completion: Completion,
    *,
    job_id: str,
    rank: int = 0,
    step: int | None = None,
    attempt: int = 1,
    held_out: bool = False,
) -> TrajectoryRow:
    """The row of one completion.

    Args:
        result: What became of it.
        completion: What the model wrote.
        job_id: The job that scored it.
        rank: The process of a distributed job that did.
        step: The training step it belongs to, from 0; None outside of training.
        attempt: 1, or more where a resumed run did the step again.
        held_out: Whether it was made to evaluate the policy, not to train it.
    """
    return TrajectoryRow(
        job_id=job_id,
        rank=rank,
        step=step,
        attempt=attempt,
        held_out=held_out,
        index=result.index,
        id=result.id,
        task_id=result.task_id,
        reward=result.reward,
        status=result.status.value,
        trust=None if result.trust is None else result.trust.value,
        passed=result.passed,
        total=result.total,
        duration_seconds=result.duration_seconds,
        timing={"cpu": result.cpu_seconds},
        sandbox_id=result.sandbox_id,
        sandboxes=result.sandboxes,
        retries=result.retries,
        reruns=result.reruns,
        canaries=result.canaries,
        failures=result.failures,
        cached=result.cached,
        components=result.components,
        detail=result.detail,
        completion=completion.text,
        code=result.code,
        stdout=result.stdout,
        stderr=result.stderr,
        truncated=result.truncated,
        checks=tuple(CheckRow(status=check.status.value, detail=check.detail) for check in result.checks),
    )


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
        failures=row.failures,
        cached=row.cached,
        components=row.components,
        cpu_seconds=row.timing.get("cpu", 0.0),
        code=row.code,
        stdout=row.stdout,
        stderr=row.stderr,
        truncated=row.truncated,
        checks=tuple(CheckVerdict(CheckStatus(check.status), check.detail) for check in row.checks),
        second_opinion=None
        if opinion is None
        else Opinion(Status(opinion.status), opinion.detail, opinion.sandbox_id, opinion.sandboxes),
    )


def opinion_row(
    event: OpinionFinished,
    *,
    job_id: str,
    rank: int = 0,
    step: int | None = None,
    attempt: int = 1,
    held_out: bool = False,
) -> OpinionRow:
    """The row of a second opinion.

    Args:
        event: What came of it.
        job_id: The job that scored the completion.
        rank: The process of a distributed job that did.
        step: The training step the completion belongs to, from 0; None outside of training.
        attempt: 1, or more where a resumed run did the step again.
        held_out: Whether the completion was made to evaluate the policy, not to train it.
    """
    return OpinionRow(
        job_id=job_id,
        rank=rank,
        step=step,
        attempt=attempt,
        held_out=held_out,
        index=event.index,
        id=event.id,
        task_id=event.task_id,
        sandbox_id=event.sandbox_id,
        status=event.status,
        detail=event.detail,
        opinion=OpinionPart(
            status=event.opinion,
            detail=event.opinion_detail,
            sandbox_id=event.opinion_sandbox_id,
            sandboxes=event.sandboxes,
        ),
    )


def completion_finished(result: ScoredCompletion, *, finished: int, of: int) -> CompletionFinished:
    """The event that tells of a completion's result.

    Args:
        result: What became of it.
        finished: How many completions have a result, this one included.
        of: How many there are.
    """
    return CompletionFinished(
        index=result.index,
        id=result.id,
        task_id=result.task_id,
        status=result.status.value,
        reward=result.reward,
        passed=result.passed,
        total=result.total,
        duration_seconds=result.duration_seconds,
        detail=result.detail,
        finished=finished,
        of=of,
        sandboxes=result.sandboxes,
        retries=result.retries,
        reruns=result.reruns,
        canaries=result.canaries,
        cached=result.cached,
        components=result.components,
    )
