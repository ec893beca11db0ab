"""The row that a run keeps of an episode, with all messages, tokens and verdicts.

A row is sufficient for later training. It has each message as it was sent and sampled, with tokens and logprobs if the
endpoint returned them; the tools that were offered are saved once, in the run's configuration.
"""

from __future__ import annotations

from dataclasses import replace

from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems import Completion
from sandrl.rollouts.episodes import Episode
from sandrl.runs import TrajectoryRow
from sandrl.scoring.records import Place, trajectory_row


def result_of(episode: Episode) -> ScoredCompletion:
    """What became of an episode that is over; one that was lost has no reward, whatever was judged before."""
    result = episode.result or ScoredCompletion(
        index=episode.number,
        id=episode.id,
        task_id=episode.problem.task_id,
        reward=None,
        status=Status.INFRASTRUCTURE,
        trust=None,
        passed=0,
        total=episode.problem.check_count,
        duration_seconds=0.0,
        sandbox_id=None,
        detail=episode.loss,
    )
    if not episode.loss:
        return result
    return replace(
        result,
        reward=None,
        status=Status.INFRASTRUCTURE,
        detail=episode.loss,
        passed=0,
        checks=(),
        cached=False,
        components={},
    )


def episode_row(
    episode: Episode, result: ScoredCompletion, place: Place, *, seconds: float, problem: str | None = None
) -> TrajectoryRow:
    return trajectory_row(
        result,
        episode.solution or Completion(episode.id, episode.problem.task_id),
        place,
        problem=problem,
        dropped=result.status is Status.INFRASTRUCTURE,
        messages=tuple(message.to_row() for message in episode.messages),
        tokens={"prompt": episode.prompt_tokens, "completion": episode.completion_tokens},
        timing={"cpu": result.cpu_seconds, **episode.seconds, "episode": seconds},
        episode={
            "end": episode.end,
            "tool_calls": episode.tool_calls,
            "attempts": episode.attempts,
            "endpoint_retries": episode.retries,
        },
    )
