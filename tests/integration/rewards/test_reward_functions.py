"""Reward functions of a user's own, on verdicts of real sandboxes."""

from __future__ import annotations

import pytest

import sandrl
from sandrl.events import Event, Warned
from sandrl.problems import Completion, Problem
from sandrl.rewards import Components, ScoreOptions, Verdict, VerdictCache
from sandrl.sandboxes import Job
from sandrl.scoring.summary import raise_for_rewards

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
CODE = "def f(x):\n    return x + 1\n"
SHORT, LONG = f"<answer>{CODE}</answer>", f"Let me think about it for a while.\n<answer>{CODE}</answer>"


def brief(verdict: Verdict, completion: Completion) -> float:
    """Half a point for a pass that comes without many words."""
    assert completion.completion is not None
    assert completion.code is None or completion.code.strip() == CODE.strip()
    return float(verdict.is_pass) - 0.5 * (len(completion.completion) > 60)


def picky(verdict: Verdict, completion: Completion) -> float:
    """Works for most."""
    if completion.id == "b":
        raise LookupError("never seen this")
    return verdict.passed / verdict.total


def test_identical_code_is_judged_once_and_each_completion_has_its_own_reward(job: Job) -> None:
    answers = [
        Completion("a", "inc", completion=SHORT),
        Completion("b", "inc", completion=LONG),
        Completion("c", "inc", completion="No."),
    ]
    cache = VerdictCache()
    for _ in range(2):
        report = sandrl.score(answers, {"inc": INC}, job=job, options=ScoreOptions(policy=brief), cache=cache)
        assert [result.reward for result in report.results] == [1.0, 0.5, 0.0]
    assert [result.cached for result in report.results] == [True, True, False]
    assert report.summary.executions == 0


def test_a_function_that_fails_costs_that_completion_its_reward_and_no_other_its_result(job: Job) -> None:
    answers = [Completion(name, "inc", completion=SHORT) for name in "abc"]
    cache = VerdictCache()
    options = ScoreOptions(policy=picky, components=Components(format_reward=0.5))
    report = sandrl.score(answers, {"inc": INC}, job=job, options=options, cache=cache)
    assert [(result.reward, result.status) for result in report.results] == [
        (1.0, "passed"),
        (None, "reward_error"),
        (1.0, "passed"),
    ]
    failed = report.results[1]
    assert "picky, called for 'b' (passed), raised LookupError: never seen this" in failed.detail
    assert (failed.passed, failed.total, failed.components) == (2, 2, {})
    assert report.summary.unscorable_by_status == {"reward_error": 1}
    with pytest.raises(sandrl.UsageError, match="1 of 3 completions have no reward: the reward function"):
        raise_for_rewards(report.results)
    # Only the policy failed: the verdict is there for the next one.
    again = sandrl.score(answers, {"inc": INC}, job=job, cache=cache)
    assert [result.reward for result in again.results] == [1.0, 1.0, 1.0]
    assert again.summary.executions == 0


def only_passes(verdict: Verdict, completion: Completion) -> float | None:
    return 1.0 if verdict.is_pass else None


def test_an_abstained_completion_is_counted_apart_from_those_that_could_not_be_scored(job: Job) -> None:
    answers = [Completion("a", "inc", completion=SHORT), Completion("b", "inc", completion="```python\n1 / 0\n```")]
    options = ScoreOptions(policy=only_passes, components=Components(format_reward=0.5))
    report = sandrl.score(answers, {"inc": INC}, job=job, options=options)
    assert [(result.reward, result.status) for result in report.results] == [(1.0, "passed"), (None, "abstained")]
    summary = report.summary
    assert (summary.n, summary.scored, summary.abstained, summary.unscorable) == (2, 1, 1, 0)
    assert (summary.unscorable_by_status, summary.metrics["unscorable_share"], summary.pass_rate) == ({}, 0.0, 1.0)
    assert report.results[1].components == {}
    raise_for_rewards(report.results)


@pytest.mark.parametrize(("value", "expected"), [("mask", None), ("zero", -1.0), ("raise", None)])
def test_an_abstained_completion_is_no_failure_for_a_trainer(job: Job, value: str, expected: float | None) -> None:
    function = sandrl.reward_function(
        [INC], job=job, reward=only_passes, on_infrastructure_error=value, fallback_reward=-1.0
    )
    assert function(["Add one."] * 2, [SHORT, "No."]) == [1.0, expected]


def test_a_function_that_abstains_for_all_completions_is_warned_of(job: Job) -> None:
    told: list[Event] = []
    completions = [Completion("a", "inc", completion=SHORT), Completion("b", "inc", completion="No.")]
    options = ScoreOptions(policy=lambda verdict, completion: None)
    sandrl.score(completions, {"inc": INC}, job=job, options=options, emit=told.append)
    warned = [event.message for event in told if isinstance(event, Warned)]
    assert warned == ["the reward function returned None for all 2 completions"]


def test_a_trainer_hears_of_a_failing_function_when_the_batch_is_written_down(job: Job) -> None:
    kept: list[str] = []

    def fails_once(verdict: Verdict, completion: Completion) -> float:
        kept.append(completion.id)
        return 1.0 if len(kept) > 1 else float("nan")

    function = sandrl.reward_function([INC], job=job, reward=fails_once, on_infrastructure_error="zero")
    with pytest.raises(sandrl.UsageError, match=r"1 of 2 completions have no reward: .*fails_once, .* returned nan"):
        function(["Add one."] * 2, [SHORT, LONG])
    assert function.last_report is not None
    assert [result.reward for result in function.last_report.results] == [None, 1.0]
    assert function(["Add one."] * 2, [SHORT, LONG]) == [1.0, 1.0]
