"""Events of episodes, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class RolloutStarted(Event):
    """Episodes are about to be played.

    Attributes:
        run_id: The name of the run.
        model: Who plays them.
        problems: On how many problems.
        steps: In how many steps.
        episodes: How many episodes a step has.
        concurrency: How many are played at once.
    """

    run_id: str
    model: str
    problems: int
    steps: int
    episodes: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class RolloutStepFinished(Event):
    """A step of episodes is over and written down.

    Attributes:
        step: Which one, from 0.
        reward: Mean reward of the scored episodes; None if there is none.
        passed: How many passed every check.
        scored: How many have a reward.
        dropped: How many were lost to infrastructure.
        seconds: How long the step took.
    """

    step: int
    reward: float | None
    passed: int
    scored: int
    dropped: int
    seconds: float
