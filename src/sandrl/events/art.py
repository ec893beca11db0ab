"""Events of a training run with ART."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class BackendChosen(Event):
    """A model will be trained by this backend.

    Attributes:
        kind: `local`, `tinker` or `embedded`.
        reason: Why, in a few words.
        model: The model.
    """

    kind: str
    reason: str
    model: str


@dataclass(frozen=True, slots=True)
class ModelChosen(Event):
    """Episodes will be played by this model.

    Attributes:
        name: The model.
        place: Where it is, in a few words.
        reason: Why, in a few words.
    """

    name: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class ArtTrainingStarted(Event):
    """A training begins, or goes on.

    Attributes:
        run_id: The name of the run.
        base_model: What is trained.
        backend: Where.
        actor: Who acts in the episodes; empty where they are recorded ones.
        problems: How many problems it trains on.
        first_step: How many steps the model has had.
        steps: How many it is to have.
        episodes: How many episodes a step has.
    """

    run_id: str
    base_model: str
    backend: str
    actor: str
    problems: int
    first_step: int
    steps: int
    episodes: int


@dataclass(frozen=True, slots=True)
class ArtStepStarted(Event):
    """Episodes for a step are about to be played.

    Attributes:
        step: How many steps the model will have had after it.
        attempt: 1, or more where the episodes before these taught nothing.
        problems: How many problems it has.
    """

    step: int
    attempt: int
    problems: int


@dataclass(frozen=True, slots=True)
class ProblemPlayed(Event):
    """All episodes of a problem in a step are over.

    Attributes:
        task_id: The problem.
        rewards: Of its episodes, in the order they ended; None for each that was dropped.
        finished: How many problems of the step are over.
        of: How many it has.
    """

    task_id: str
    rewards: tuple[float | None, ...]
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class TrajectoriesCollected(Event):
    """A step's episodes are over, or were read.

    Attributes:
        step: As in `ArtStepStarted`.
        trajectories: How many have a reward.
        dropped: How many were lost to infrastructure.
        reward: Their mean reward; None if there is none.
        groups: Problems with at least one of them.
        useful_groups: Groups whose rewards differ.
    """

    step: int
    trajectories: int
    dropped: int
    reward: float | None
    groups: int
    useful_groups: int


@dataclass(frozen=True, slots=True)
class ArtStepTrained(Event):
    """The model has had one more step.

    Attributes:
        step: How many it has had.
        metrics: The row of the round, by the names that `metrics.jsonl` has.
    """

    step: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class ArtStepFailed(Event):
    """A step has trained nothing, and does not count.

    Attributes:
        step: The step that the model has not had.
        attempt: Which attempt at it this was.
        reason: Why.
        metrics: The row of the round, by the names that `metrics.jsonl` has.
    """

    step: int
    attempt: int
    reason: str
    metrics: Mapping[str, float | None] = field(default_factory=dict)
