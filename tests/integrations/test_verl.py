"""The reward function of verl, called as its reward managers call one."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from sandrl.errors import InfrastructureError, InputError, UsageError
from sandrl.integrations import verl
from tests.support.stopping import stopping_sandboxes

RIGHT, WRONG = "<answer>def f(x): return x + 1</answer>", "<answer>def f(x): return 2 * x</answer>"
ASSERTS = {"assert_case": ["assert f(1) == 2", "assert f(2) == 3"]}
PAIRS = {"inputs": [[1], [2]], "outputs": [2, 3], "fn_name": "f"}
STDIN = {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "3\n"]}
PROGRAM = "```python\nprint(int(input()) + 1)\n```"
METHOD = "```python\nclass Solution:\n    def f(self, x: int) -> int:\n        return x + 1\n```"


def _call_with_kwargs(raw_fn: Callable[..., Any], extra_kwargs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """What verl 0.9 wraps a plain custom reward function in (`verl/trainer/ppo/reward.py`)."""
    return raw_fn(*args, **{**kwargs, **extra_kwargs})


async def _call_with_kwargs_async(
    raw_fn: Callable[..., Any], extra_kwargs: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """And a coroutine function."""
    return await raw_fn(*args, **{**kwargs, **extra_kwargs})


def row(answer: str, truth: object, **extra_info: Any) -> dict[str, Any]:
    info = {**extra_info, "num_turns": None, "rollout_reward_scores": {}}
    return {"data_source": "code", "solution_str": answer, "ground_truth": truth, "extra_info": info}


@pytest.mark.parametrize(
    ("truth", "answer"),
    [
        (ASSERTS, RIGHT),
        (json.dumps(ASSERTS), RIGHT),
        ('["assert f(1) == 2"]', RIGHT),
        ("assert f(1) == 2", RIGHT),
        (PAIRS, RIGHT),
        (json.dumps(PAIRS), METHOD),
        (STDIN, PROGRAM),
        ({"prompt": "Add one.", "tests": ["assert f(1) == 2"]}, RIGHT),
        ({"question": "Add one.", "input_output": json.dumps(PAIRS)}, RIGHT),
    ],
)
def test_tests_and_rows_of_many_shapes_are_scored(place: str | None, truth: object, answer: str) -> None:
    score = partial(_call_with_kwargs, verl.compute_score, {"service": place})
    assert score(**row(answer, truth))["score"] == 1.0
    assert score(**row("I cannot.", truth))["score"] == 0.0


def test_a_name_is_that_of_a_problem_of_the_set(
    place: str | None, problem_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verl.compute_score(**row(RIGHT, "inc"), problems=problem_file, service=place)["score"] == 1.0
    with pytest.raises(InputError, match="there is no problem 'incc'"):
        verl.compute_score(**row(RIGHT, "incc"), problems=problem_file, service=place)
    with pytest.raises(InputError, match="'inc' is neither tests nor the name of a known problem"):
        verl.compute_score(**row(RIGHT, "inc"), service=place)
    monkeypatch.setenv("SANDRL_PROBLEMS", problem_file)
    assert verl.compute_score(**row(RIGHT, "inc"), service=place)["score"] == 1.0


def test_answers_may_use_names_as_on_leetcode_unless_the_prompt_is_known_to_promise_none() -> None:
    answer = "```python\ndef f(x: List[int]) -> int:\n    return x[0] + 1\n```"
    truth = {"inputs": [[[1]], [[2]]], "outputs": [2, 3], "fn_name": "f"}
    promising = "Complete:\n\nclass Solution:\n    def f(self, x: List[int]) -> int:\n"
    scores = [
        verl.compute_score(**row(answer, truth, **info))["score"]
        for info in ({}, {"prompt": promising}, {"question": promising}, {"prompt": "Write `f(x)`."})
    ]
    assert scores == [1.0, 1.0, 1.0, 0.0]
    assert verl.compute_score(**row(answer, truth, prompt="Write `f(x)`."), prelude="standard")["score"] == 1.0


def test_arrays_of_a_parquet_file_are_tests_like_lists() -> None:
    numpy = pytest.importorskip("numpy", reason="not installed: numpy (make test-integrations)")
    inputs = numpy.empty(2, dtype=object)
    inputs[:] = [numpy.array([1]), numpy.array([2])]
    truth = {"inputs": inputs, "outputs": numpy.array([2, 3]), "fn_name": "f"}
    assert verl.compute_score(**row(RIGHT, truth))["score"] == 1.0
    assert verl.compute_score(**row(WRONG, truth))["score"] == 0.0


def test_calls_from_32_threads_get_their_own_scores_with_the_same_keys(place: str | None) -> None:
    score = partial(_call_with_kwargs, verl.compute_score, {"service": place, "timeout_seconds": 10})
    rows = [row(f"{RIGHT if number % 3 else WRONG} {number}", ASSERTS) for number in range(96)]
    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(lambda each: score(**each), rows))
    assert [result["score"] for result in results] == [float(number % 3 > 0) for number in range(96)]
    # verl takes the keys of the first row, and makes an array of each.
    assert {tuple(result) for result in results} == {("score", "acc", "checks_passed", "unscorable", "status")}
    assert [result["checks_passed"] for result in results[:3]] == [0.5, 1.0, 1.0]
    assert {result["status"] for result in results} == {"passed", "failed"}


async def test_calls_from_one_event_loop_are_awaited_because_verl_sees_a_coroutine_function(
    place: str | None,
) -> None:
    score = partial(_call_with_kwargs_async, verl.compute_score_async, {"service": place})
    assert inspect.iscoroutinefunction(score)
    rows = [row(f"{RIGHT if number % 2 else WRONG} {number}", PAIRS) for number in range(64)]
    results = await asyncio.gather(*(score(**each) for each in rows))
    assert [result["score"] for result in results] == [0.0, 1.0] * 32


def test_a_batch_is_scored_in_the_order_of_its_rows(place: str | None) -> None:
    answers = [RIGHT, WRONG, PROGRAM, "nothing"]
    truths = [ASSERTS, json.dumps(PAIRS), STDIN, STDIN]
    infos: list[dict[str, Any]] = [{"rollout_reward_scores": {}} for _ in answers]
    results = verl.compute_scores(
        data_sources=["code"] * 4, solution_strs=answers, ground_truths=truths, extra_infos=infos, service=place
    )
    assert [result["score"] for result in results] == [1.0, 0.0, 1.0, 0.0]
    assert [result["status"] for result in results] == ["passed", "failed", "passed", "no_code"]
    with pytest.raises(UsageError, match="same length"):
        verl.compute_scores(["code"], [RIGHT], [], [None], service=place)


async def test_what_cannot_be_scored_is_an_error_or_the_number_that_was_asked_for(
    place: str | None, problem_file: str
) -> None:
    options: dict[str, Any] = {"problems": problem_file, "service": place}
    call = row("<answer>def f(x): return None</answer>", "broken")
    with pytest.raises(InputError, match="broken could not be scored: invalid_problem"):
        verl.compute_score(**call, **options)
    with pytest.raises(InputError, match="could not be scored"):
        await verl.compute_score_async(**call, **options)
    result = verl.compute_score(**call, **options, unscorable=-1)
    assert (result["score"], result["acc"], result["unscorable"]) == (-1.0, 0.0, 1.0)
    assert result["status"] == "invalid_problem"


def test_a_mistyped_option_is_refused_and_what_verl_adds_is_not() -> None:
    with pytest.raises(UsageError, match="unscoreable: is not an option for scoring"):
        verl.compute_score(**row(RIGHT, ASSERTS), unscoreable=0.0)
    with pytest.raises(UsageError, match="finite number"):
        verl.compute_score(**row(RIGHT, ASSERTS), unscorable=float("nan"))
    added: dict[str, Any] = {"reward_router_address": "127.0.0.1:1", "reward_model_tokenizer": object()}
    assert verl.compute_score(**row(RIGHT, ASSERTS), **added)["score"] == 1.0


def test_an_answer_without_sandboxes_is_an_error_or_the_number_that_was_asked_for() -> None:
    options: dict[str, Any] = {"sandboxes": {"tags": ["verl"]}, "retries": 0}
    with stopping_sandboxes("verl"):
        with pytest.raises(InfrastructureError):
            verl.compute_score(**row(RIGHT, ASSERTS), **options)
        document = verl.compute_score(**row(RIGHT, ASSERTS), **options, unscorable=-1)
    assert (document["score"], document["status"], document["unscorable"]) == (-1.0, "infrastructure", 1.0)
