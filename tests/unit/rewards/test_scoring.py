"""The parts of scoring that need no sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.events.results import Status, Trust
from sandrl.problems import Completion, Problem
from sandrl.rewards.extraction import Extraction, extract_code
from sandrl.rewards.limits import Limits
from sandrl.rewards.policies import binary, reward_of
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.rewards.verdict import Verdict

PROMPT = 'from typing import List\n\n\ndef total(xs: List[int]) -> int:\n    """Sum."""\n'
HUMANEVAL = Problem("HumanEval/0", PROMPT, tests=("assert total([1]) == 1",), entry_point="total")
PLAIN = Problem("p", "Add one.", tests=("assert f(1) == 2",))


@pytest.mark.parametrize("completion", [Completion("c", "p", code=" \n"), Completion("c", "p", completion="no idea")])
def test_nothing_to_run_is_no_code(completion: Completion) -> None:
    assert extract_code(completion, PLAIN) is None


def test_code_in_a_row_is_joined_to_its_prompt_like_an_answer_in_a_text() -> None:
    body = "    return sum(xs)\n"
    code = extract_code(Completion("c", "h", code=body), HUMANEVAL)
    assert code == extract_code(Completion("c", "h", completion=f"```python\n{body}```"), HUMANEVAL)
    assert code == f"{PROMPT.rstrip()}\n{body.rstrip()}"


def test_an_asked_for_extraction_is_not_second_guessed() -> None:
    assert extract_code(Completion("c", "h", completion="    return sum(xs)\n"), HUMANEVAL, Extraction.FENCE) is None


def verdict(status: Status = Status.PASSED, passed: int = 1, total: int = 1, **times: Any) -> Verdict:
    return Verdict(status, Trust.IN_PROCESS, passed, total, **times)


@pytest.mark.parametrize("status", Status)
def test_a_reward_is_none_exactly_where_nothing_can_be_said_about_the_code(status: Status) -> None:
    reward = reward_of(verdict(status), Completion("c", "p"))
    assert (reward is None) == (status in {"invalid_problem", "not_isolated", "infrastructure", "reward_error"})
    assert reward in (None, 0.0, 1.0)
    assert (reward == 1.0) == (status is Status.PASSED)


@pytest.mark.parametrize(("passed", "total"), [(0, 0), (1, 2)])
def test_passing_nothing_or_not_everything_earns_nothing(passed: int, total: int) -> None:
    assert binary(verdict(passed=passed, total=total), Completion("c", "p")) == 0.0


def test_a_sandbox_lives_longer_than_the_slowest_problem_may_take() -> None:
    slow = Problem("slow", "", check="exit_status", timeout_seconds=1000)
    assert lifetime_seconds({"slow": slow, "p": PLAIN}, Limits(timeout_seconds=10)) > 1000
    assert lifetime_seconds({"p": PLAIN}, Limits(timeout_seconds=2000)) > 2000
