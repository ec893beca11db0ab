"""The configuration that `art rollout` and `art train` share: how episodes run."""

from __future__ import annotations

from typing import Annotated, Self, TypeAlias

from pydantic import model_validator

from sandrl.config.fields import EPISODES, SCORING, SECONDS, TRAINING, Option, option
from sandrl.config.model import Count, Seconds
from sandrl.config.parts import (
    CachePart,
    EndpointPart,
    EpisodePart,
    MappingPart,
    RunPart,
    SamplingPart,
    SandboxesPart,
)
from sandrl.config.words import EpisodeKind

CONCURRENCY = 32
"""The default number of episodes that run at the same time."""

HELD_BY_AN_EPISODE = 2
"""How many sandboxes an episode in attempts has at most: one to work in, and one in which it is judged."""

Steps: TypeAlias = Annotated[Count, Option("Total number of steps.", TRAINING, metavar="N")]


class EpisodesConfig(RunPart, SandboxesPart, EndpointPart, SamplingPart, EpisodePart, CachePart, MappingPart):
    """A run whose work is to play episodes, step by step.

    Each command adds its fields `problems`, `steps` and `samples` (episodes of each problem in a step), with defaults
    and bounds of its own, and its own measure of a step: problems for `art rollout`, episodes for `art train`.
    """

    timeout_seconds: Seconds | None = option(
        None,
        "Time limit for one command of an episode, and for a solution and its checks. Default: 10 seconds; for a"
        " solution, cases and calls that pass do not count, up to 120 seconds in total.",
        SCORING,
        metavar=SECONDS,
        flag="--timeout",
    )

    max_attempts: Count = option(
        3, "Maximum number of answers in an episode of `--rollout attempts`.", EPISODES, metavar="N"
    )

    @model_validator(mode="after")
    def _has_examples_to_show(self) -> Self:
        if self.few_shot and self.rollout is EpisodeKind.TOOLS:
            raise ValueError("few_shot: examples are texts, and rollout = tools answers with a tool; leave it out")
        return self

    @model_validator(mode="after")
    def _has_room_to_judge(self) -> Self:
        if self.max_sandboxes is not None and self.max_sandboxes < HELD_BY_AN_EPISODE:
            raise ValueError("max_sandboxes: must be 2 or more; an episode uses one sandbox to work and one to judge")
        return self

    def at_once(self, episodes: int) -> int:
        """How many of these are played at once: never so many that all wait for a sandbox to be judged in."""
        most = self.concurrency or CONCURRENCY
        if self.max_sandboxes is not None:
            most = min(most, self.max_sandboxes // HELD_BY_AN_EPISODE)
        return min(most, episodes)
