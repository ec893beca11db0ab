"""Which trials are repeated, and who is blamed in the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandrl.config.words import VerifierPlace
from sandrl.errors import InfrastructureError
from sandrl.events import CanaryFinished, Event, RetryScheduled
from sandrl.events.results import Status, Trust
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion, Problem
from sandrl.problems.tasks.task import Environment, Task, TaskStep
from sandrl.sandboxes import Job
from sandrl.scoring import task_judging
from sandrl.scoring.attempts import Attempt
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.task_judging import TaskJudging
from sandrl.settings import RuntimeKind
from sandrl.trials.answers import Nothing, Script
from sandrl.trials.place import RuntimeLost
from sandrl.trials.trial import Agent, TrialOptions

_RIGHT = Verdict(Status.PASSED, Trust.SHARED, 1, 1, score=1.0)
_FAILED = InfrastructureError("the sandbox failed")
_LOST = RuntimeLost("the runtime ended", is_replaced=True)
_TASK = Task("t", "test", "digest", Environment("image"), (TaskStep("do it"),))

_OF_STATE = Verdict(Status.PASSED, Trust.SEPARATE, 1, 1, score=1.0)
_WRONG = Verdict(Status.FAILED, Trust.SHARED, 0, 1, score=0.0)

Judge = Callable[..., tuple[Verdict, list[Event], list[Agent]]]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Judges one answer, whose trials end as is given, one after the other; returns who acted in them, too."""

    def judged(
        ends: Sequence[Verdict | Exception], agent: Agent, *, is_strict: bool = False
    ) -> tuple[Verdict, list[Event], list[Agent]]:
        left, acted, told, verdicts = list(ends), list[Agent](), list[Event](), list[Verdict]()

        def run_trial(task: Task, agent: Agent, _: Any, trial: TrialOptions) -> Verdict:
            assert trial.mode is (VerifierPlace.SEPARATE if is_strict else VerifierPlace.TASK)
            acted.append(agent)
            end = left.pop(0)
            if isinstance(end, Exception):
                raise end
            return end

        monkeypatch.setattr(task_judging, "run_trial", run_trial)
        connection = SimpleNamespace(kind=RuntimeKind.REMOTE, is_local=False)
        job = cast("Job", SimpleNamespace(connection=connection, run_dir=None))
        known = SimpleNamespace(requires_isolated=is_strict)
        context: Any = SimpleNamespace(options=ScoreOptions(backoff_seconds=0.0), judge=known)
        judging = TaskJudging(job, None, told.append, lambda _, verdict: verdicts.append(verdict), wake=lambda: None)
        judging.begin(Attempt(0, Completion("c", "t"), Problem("t", "do it", task=_TASK), context, agent))
        while not verdicts:
            judging.look()
            time.sleep(0.001)
        assert (left, judging.in_flight) == ([], 0)
        return verdicts[0], told, acted

    return judged


class Model(Nothing):
    is_repeatable = False
    takes_turns = True


_ANSWER = Script("true")
_MODEL = Model()


def test_a_given_answer_is_tried_again_after_its_sandbox_failed(judge: Judge) -> None:
    verdict, told, acted = judge([_FAILED, _FAILED, _RIGHT], _ANSWER)
    assert (verdict, acted) == (_RIGHT, [_ANSWER] * 3)
    assert [event.attempt for event in told if isinstance(event, RetryScheduled)] == [2, 3]


def test_the_end_of_a_runtime_is_not_counted_as_a_failure_of_a_sandbox(judge: Judge) -> None:
    assert judge([_LOST, _FAILED, _LOST, _FAILED, _RIGHT], _ANSWER)[0] == _RIGHT


def test_a_model_that_lost_its_sandbox_has_no_reward(judge: Judge) -> None:
    verdict, _, acted = judge([_FAILED], _MODEL)
    assert (verdict.status, verdict.score, len(acted)) == (Status.INFRASTRUCTURE, None, 1)


def test_an_answer_that_loses_every_sandbox_is_blamed_if_nothing_does_not(judge: Judge) -> None:
    verdict, told, acted = judge([_FAILED] * 3 + [_RIGHT], _ANSWER)
    assert (verdict.status, verdict.score, acted[-1]) == (Status.CRASHED, 0.0, Nothing())
    assert [event.passed for event in told if isinstance(event, CanaryFinished)] == [True]


@pytest.mark.parametrize("end", [_FAILED, _LOST, Verdict(Status.INFRASTRUCTURE, None)])
def test_a_runtime_that_loses_every_sandbox_costs_no_reward(judge: Judge, end: Verdict | Exception) -> None:
    verdict, _, _ = judge([_FAILED] * 3 + [end], _ANSWER)
    assert (verdict.status, verdict.score) == (Status.INFRASTRUCTURE, None)


@pytest.mark.parametrize(
    ("end", "status"), [(_OF_STATE, Status.PASSED), (_RIGHT, Status.NOT_ISOLATED), (_WRONG, Status.FAILED)]
)
def test_only_a_fresh_sandbox_earns_where_isolation_is_required(judge: Judge, end: Verdict, status: Status) -> None:
    verdict, _, _ = judge([end], _ANSWER, is_strict=True)
    assert (verdict.status, verdict.status.scorable) == (status, status is not Status.NOT_ISOLATED)
