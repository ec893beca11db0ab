from __future__ import annotations

from sandrl.problems import demo_completions, demo_problems

TASK_IDS = ["slow-sum", "string-ops", "delayed-error", "syntax-error", "slow-list"]


def test_the_demo_set_has_five_problems() -> None:
    assert list(demo_problems()) == TASK_IDS


def test_every_demo_problem_has_a_reference_and_one_completion() -> None:
    assert all(problem.reference for problem in demo_problems().values())
    assert [completion.id for completion in demo_completions()] == TASK_IDS


def test_the_completions_sleep_as_announced() -> None:
    sleeps = [
        text.partition("sleep(")[2][:1] for text in (completion.completion or "" for completion in demo_completions())
    ]
    assert sleeps == ["2", "", "1", "", "3"]
