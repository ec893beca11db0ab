"""Contains the results of episodes: the result and the row of each, a step of them, and a run of steps.

A row is sufficient for later training. It has each message as it was sent and sampled, with tokens and logprobs if the
endpoint returned them; the tools that were offered are saved once, in the run's configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandrl.errors import CleanupError, InfrastructureError, raise_for_end
from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems import Completion
from sandrl.rollouts.episodes import Episode
from sandrl.rollouts.toolbox import EpisodeEnd
from sandrl.runs import TrajectoryRow
from sandrl.runs.held import SandboxTime
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
        dropped=result.status.is_lost,
        messages=tuple(message.to_row() for message in episode.messages),
        tools=episode.tools,
        branches=tuple(branch.to_row() for branch in episode.branches),
        tokens={"prompt": episode.prompt_tokens, "completion": episode.completion_tokens},
        timing={"cpu": result.cpu_seconds, **episode.seconds, "episode": seconds},
        episode={
            "end": episode.end,
            "tool_calls": episode.tool_calls,
            "attempts": episode.attempts,
            "endpoint_retries": episode.retries,
            **({"agent_output": episode.agent_output} if episode.agent_output else {}),
        },
    )


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """The episodes of a step, as far as they ended; `unfinished` were given up."""

    step: int
    episodes: tuple[Episode, ...]
    unfinished: int
    seconds: float

    def plus(self, other: PlayedStep) -> PlayedStep:
        """The step with the episodes of another part of it."""
        episodes = (*self.episodes, *other.episodes)
        return PlayedStep(self.step, episodes, self.unfinished + other.unfinished, self.seconds + other.seconds)

    @property
    def results(self) -> list[ScoredCompletion]:
        return [result_of(episode) for episode in self.episodes]

    @property
    def rewards(self) -> list[float]:
        return [result.reward for result in self.results if result.reward is not None]

    @property
    def mean_reward(self) -> float | None:
        """Of the scored episodes; None if there is none."""
        rewards = self.rewards
        return math.fsum(rewards) / len(rewards) if rewards else None

    @property
    def passed(self) -> int:
        return sum(result.is_pass for result in self.results)

    @property
    def dropped(self) -> int:
        """How many episodes have no reward, without those that the reward function gave none."""
        return sum(each.reward is None and each.status is not Status.ABSTAINED for each in self.results)

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """What the episodes amounted to, beside what is counted from events."""
        episodes = self.episodes
        return {
            "episodes/tool_calls": float(sum(each.tool_calls for each in episodes)),
            "episodes/attempts": float(sum(each.attempts for each in episodes)),
            "episodes/prompt_tokens": float(sum(each.prompt_tokens for each in episodes)),
            "episodes/completion_tokens": float(sum(each.completion_tokens for each in episodes)),
            "episodes/endpoint_retries": float(sum(each.retries for each in episodes)),
            "episodes/policy_seconds": sum(each.seconds["policy"] for each in episodes),
            "episodes/dropped": float(self.dropped),
            "episodes/destroyed": float(sum(each.end is EpisodeEnd.DESTROYED for each in episodes)),
        }


@dataclass(frozen=True, slots=True)
class RolloutRun:
    """A run of episodes that is over.

    Attributes:
        steps: What came of each step; the last one may have been given up.
        signal_number: The signal that asked to stop; 0 if none did.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    job_id: str
    run_dir: Path
    model: str
    steps: tuple[PlayedStep, ...]
    of: int
    signal_number: int = 0
    cleanup_error: CleanupError | None = None
    held: SandboxTime = field(default_factory=SandboxTime)
    exhausted: str = ""

    @property
    def finished(self) -> int:
        """How many steps are over; one whose episodes were given up is not."""
        return len(self.steps) - bool(self.steps[-1].unfinished)

    @property
    def total(self) -> PlayedStep:
        """All episodes as if they were of one step."""
        episodes = tuple(episode for step in self.steps for episode in step.episodes)
        seconds = math.fsum(step.seconds for step in self.steps)
        return PlayedStep(len(self.steps), episodes, self.steps[-1].unfinished, seconds)

    def raise_for_outcome(self) -> None:
        total = self.total
        given_up = f", {total.unfinished} episodes were abandoned" if total.unfinished else ""
        done = f"{self.finished} of {self.of} steps"
        message = f"interrupted after {done}{given_up}; finished steps are saved in {self.run_dir}"
        raise_for_end(
            message,
            signal_number=self.signal_number,
            cleanup_error=self.cleanup_error,
            exhausted=self.exhausted if total.unfinished or len(self.steps) < self.of else "",
        )
        if total.dropped:
            lost = (each for each in total.results if each.reward is None and each.status is not Status.ABSTAINED)
            first = next(lost).detail
            raise InfrastructureError(
                f"{total.dropped} of {len(total.episodes)} episodes were lost and are not counted: {first}",
                hint=f"sandrl runs show {self.run_dir.name} shows the reason for each",
            )
