"""What a validation ends with, by the cards of what it has measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandrl.config.layers import resolve
from sandrl.config.scoring import ValidateConfig
from sandrl.errors import GateError, UsageError
from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.rewards.measuring import MeasuringEnd
from sandrl.rewards.validation import Validation
from sandrl.runs.cards import Card
from sandrl.runs.held import SandboxTime


def validation(**parts: float) -> Validation:
    card = Card.model_validate({"task_id": "t", "kind": "task", "digest": "d", "nop_runs": 3, **parts})
    end = MeasuringEnd("problems validate", Path("run"), "job-1", SandboxTime())
    return Validation(resolve(ValidateConfig, {}, {}), {}, {"t": card}, 0, (), 1.0, end)


@pytest.mark.parametrize("nop", [0.0, -0.5])
def test_doing_nothing_may_cost_a_reward(nop: float) -> None:
    validation(nop=nop).raise_for_outcome()


def test_doing_nothing_must_not_earn_anything() -> None:
    with pytest.raises(GateError, match=r"1 of 1 tasks reward an agent that does nothing \(first: t: 0.1\)"):
        validation(nop=0.1).raise_for_outcome()


def test_references_are_counted_once_however_often_they_ran() -> None:
    results = {
        name: ScoredCompletion(0, name, task_id, reward, status, Trust.ISOLATED, int(reward), 1, 1.0, None, "")
        for task_id, reward, status in (("a", 0.0, Status.FAILED), ("b", 1.0, Status.PASSED))
        for name in (f"{task_id}#oracle.1", f"{task_id}#oracle.2")
    }
    finished = replace(validation(nop=0.0), results=results)
    with pytest.raises(GateError, match=r"^1 of 2 reference solutions fail their own checks$"):
        finished.raise_for_outcome()


def test_an_agent_runs_a_bounded_number_of_times() -> None:
    assert resolve(ValidateConfig, {}, {"repeats": 10_000}).repeats == 10_000
    with pytest.raises(UsageError, match="10000"):
        resolve(ValidateConfig, {}, {"repeats": 10_001})
