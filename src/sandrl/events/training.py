"""Events of a training run, from its first step to its last evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class BackendChosen(Event):
    """A model will be trained by this backend of ART: `local`, `tinker` or `embedded`; the reason is a few words."""

    kind: str
    reason: str
    model: str


@dataclass(frozen=True, slots=True)
class ModelChosen(Event):
    """Episodes will be run by this model; place and reason are a few words."""

    name: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class TrainingStarted(Event):
    """A training run starts, or is resumed.

    Attributes:
        run_id: The name of the run.
        model: The model that is trained.
        problems: How many problems it trains on.
        first_step: How many steps the model has had; more than 0 if the run is resumed.
        steps: How many it is to have.
        completions: How many completions or episodes a step has, over all processes.
        processes: How many processes train together.
        backend: ART's backend; empty if ART does not train.
        actor: The model of ART's episodes; empty if they are recorded ones.
    """

    run_id: str
    model: str
    problems: int
    first_step: int
    steps: int
    completions: int
    processes: int = 1
    backend: str = ""
    actor: str = ""


@dataclass(frozen=True, slots=True)
class StepStarted(Event):
    """The episodes of a step are about to be run, or read.

    Attributes:
        step: Which one, from 0.
        steps: How many there are.
        attempt: 1, or more if the episodes before these had no gradient.
        problems: How many problems the step has.
    """

    step: int
    steps: int
    attempt: int
    problems: int


@dataclass(frozen=True, slots=True)
class ProblemPlayed(Event):
    """All episodes of a problem in a step have ended.

    Attributes:
        task_id: The problem.
        rewards: Of its episodes, in the order they ended; None for each that was dropped.
        finished: How many problems of the step have ended.
        of: How many it has.
    """

    task_id: str
    rewards: tuple[float | None, ...]
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class TrajectoriesCollected(Event):
    """The episodes of a step have ended, or were read.

    Attributes:
        trajectories: How many have a reward.
        dropped: How many were lost to infrastructure.
        reward: Their mean reward; None if there is none.
        groups: Problems with at least one of them.
        useful_groups: Groups whose rewards differ.
    """

    trajectories: int
    dropped: int
    reward: float | None
    groups: int
    useful_groups: int


@dataclass(frozen=True, slots=True)
class RewardCallFinished(Event):
    """A trainer's call for rewards was answered.

    Attributes:
        number: Which call it was, from 1.
        completions: How many completions it was about.
        sandboxes: How many sandboxes these were run in.
        passed: How many passed every check.
        judged: How many had code and a reward.
        no_code: How many had nothing to run.
        cached: How many got the verdict of an identical one.
        unscorable: How many have no reward.
        seconds: How long it took.
        second_opinions: How many failed ones were judged again in one process.
        disagreements: How many of these pass there.
    """

    number: int
    completions: int
    sandboxes: int
    passed: int
    judged: int
    no_code: int
    cached: int
    unscorable: int
    seconds: float
    second_opinions: int = 0
    disagreements: int = 0


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A training step is done and written down.

    Attributes:
        step: Which one, from 0.
        steps: How many there are.
        metrics: Its metrics, by the names that `metrics.jsonl` has them under.
        failure: Why nothing was trained, so that the step does not count; empty if something was.
        attempt: Which attempt at the step this was, from 1.
    """

    step: int
    steps: int
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    failure: str = ""
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A checkpoint of the policy after so many steps is complete."""

    step: int
    path: str


@dataclass(frozen=True, slots=True)
class EvaluationStarted(Event):
    """The policy, which has had so many steps, is about to be evaluated on so many problems."""

    step: int
    problems: int


@dataclass(frozen=True, slots=True)
class EvaluationFinished(Event):
    """The policy was evaluated after so many steps; the metrics have the names of `metrics.jsonl`."""

    step: int
    problems: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class TrainingStopping(Event):
    """The user asked to stop training: the current step is finished and saved first, or it is cancelled."""

    cancel: bool


@dataclass(frozen=True, slots=True)
class FlagRaised(Event):
    """The metrics of a run that is being written show a sign of trouble, for the first time or again.

    Attributes:
        step: The step after which it is raised, from 0.
        name: The flag, a word of docs/reference/metrics.md.
        message: What was seen, in one line.
        hint: What to try, in one line.
        metrics: The metrics it is about.
        value: What was compared with the threshold; None if it is not a number.
        threshold: What it was compared with; None if any number would have been good.
        unit: The unit of both, a word of `sandrl.runs.metrics.Unit`.
        fields: The fields that the hint names, as in `sandrl.errors.SandrlError`.
        times: How often it was raised in this job, this time included.
    """

    step: int
    name: str
    message: str
    hint: str
    metrics: tuple[str, ...]
    value: float | None
    threshold: float | None
    unit: str
    fields: tuple[str, ...] = ()
    times: int = 1
