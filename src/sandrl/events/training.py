"""Events of a training run, from its first step to its last evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class TrainingStarted(Event):
    """A training run begins, or goes on.

    Attributes:
        run_id: Its name.
        model: What is trained.
        problems: How many problems it trains on.
        first_step: The first step it will do, from 0; more than 0 where it goes on.
        steps: How many steps it has in all.
        completions: How many completions a step has, over all processes.
        processes: How many processes train together.
    """

    run_id: str
    model: str
    problems: int
    first_step: int
    steps: int
    completions: int
    processes: int = 1


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
    """

    step: int
    steps: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """A checkpoint is complete.

    Attributes:
        step: How many steps the policy in it has had.
        path: Where it is.
    """

    step: int
    path: str


@dataclass(frozen=True, slots=True)
class EvaluationStarted(Event):
    """The policy is about to be evaluated.

    Attributes:
        step: How many steps it has had.
        problems: On how many problems.
    """

    step: int
    problems: int


@dataclass(frozen=True, slots=True)
class EvaluationFinished(Event):
    """The policy was evaluated.

    Attributes:
        step: How many steps it has had.
        problems: On how many problems.
        metrics: What was measured, by the names that `metrics.jsonl` has it under.
    """

    step: int
    problems: int
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class TrainingStopping(Event):
    """The user asked to stop training.

    Attributes:
        cancel: False: the step in hand is finished and saved first; True: it is given up.
    """

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
