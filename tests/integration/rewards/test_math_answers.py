"""Mathematical answers, judged by the real math-verify in real sandboxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import sandrl
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Completion, Problem
from sandrl.problems.math_answers import MATH_VERIFY
from sandrl.sandboxes import Job, SandboxRequest, new_job_id
from sandrl.settings import load_settings
from tests.support.math_pairs import MISJUDGED, PAIRS, Pair
from tests.support.wheels import Index, use


@pytest.fixture(scope="module")
def math_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    index = Index(tmp_path_factory.mktemp("index"))
    index.add_installed("math-verify", "latex2sympy2-extended", "antlr4-python3-runtime")
    with pytest.MonkeyPatch.context() as monkeypatch:
        use(monkeypatch, index)
        connection = SandboxRequest(runtime="local", packages=(MATH_VERIFY,)).connect(load_settings())
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=900) as job:
        yield job


def judged(pairs: Sequence[Pair], job: Job) -> list[ScoredCompletion]:
    problems = {str(n): Problem(str(n), "?", answer=pair.answer) for n, pair in enumerate(pairs)}
    texts = [Completion(str(n), str(n), completion=pair.text) for n, pair in enumerate(pairs)]
    return list(sandrl.score(texts, problems, job=job))


def test_right_answers_pass_and_wrong_ones_fail_apart_from_what_decides(math_job: Job) -> None:
    pairs = [PAIRS[0], PAIRS[1], PAIRS[26], PAIRS[54], PAIRS[103]]
    results = judged(pairs, math_job)
    assert [result.reward for result in results] == [float(pair.is_right) for pair in pairs]
    assert {result.trust for result in results} == {"isolated"}


HOSTILE = (
    "9^{9^{9^{9^9}}}",
    "34 + 0 \\cdot 10^{10^{9}}",
    "\\prod_{k=1}^{1000000000} k",
    "(" * 2000 + "34" + ")" * 1000,
    "34, 35",
)


def test_hostile_answers_neither_hang_nor_earn_and_cost_no_other_its_reward(math_job: Job) -> None:
    problem = Problem("a", "?", answer="34")
    texts = [f"\\boxed{{{each}}}" for each in HOSTILE]
    texts += ["\\boxed{34} or \\boxed{35}", "\n".join(map(str, range(100))), "\\boxed{34}"]
    results = list(
        sandrl.score(
            [Completion(str(n), "a", completion=text) for n, text in enumerate(texts)], {"a": problem}, job=math_job
        )
    )
    assert [result.reward for result in results] == [0.0] * (len(texts) - 1) + [1.0]
    assert {result.status for result in results[:-1]} == {"failed"}


def test_identical_answers_are_judged_once_however_their_reasoning_differs(math_job: Job) -> None:
    texts = ["First 1, so \\boxed{2}.", "It is clear that \\boxed{2}"]
    completions = [Completion(text, "a", completion=text) for text in texts]
    report = sandrl.score(completions, {"a": Problem("a", "?", answer="2")}, job=math_job)
    assert ([result.reward for result in report], report.summary.executions) == ([1.0, 1.0], 1)


def test_without_math_verify_no_answer_has_a_reward(job: Job) -> None:
    completions = [Completion(text, "a", completion=f"\\boxed{{{text}}}") for text in ("1", "2")]
    results = list(sandrl.score(completions, {"a": Problem("a", "?", answer="2")}, job=job))
    assert [(result.reward, result.status) for result in results] == [(None, "invalid_problem")] * 2
    assert "math-verify" in results[0].detail


def test_a_math_verify_that_fails_on_the_right_answer_gives_no_reward(
    math_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "import math_verify\ndef check(given, expected, output): raise OSError('broken')\n"
    monkeypatch.setattr("sandrl.problems.problem.MATH_CHECKER", broken)
    results = list(
        sandrl.score([Completion("x", "a", completion="2")], {"a": Problem("a", "?", answer="2")}, job=math_job)
    )
    assert [(result.reward, result.status) for result in results] == [(None, "invalid_problem")]
    assert "OSError: broken" in results[0].detail


@pytest.mark.slow
def test_math_verify_is_right_about_all_pairs_but_those_that_are_named(math_job: Job) -> None:
    results = judged(PAIRS, math_job)
    assert all(result.reward is not None for result in results)
    wrong = {pair.text for pair, result in zip(PAIRS, results, strict=True) if bool(result.reward) != pair.is_right}
    assert wrong == MISJUDGED.keys()
