"""Identical completions in real sandboxes: judged once, and every count adds up."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.events.results import CheckStatus, Status
from sandrl.problems import Case, Completion, Problem
from sandrl.rewards import Components, Limits, ScoreOptions, ScoreReport, VerdictCache, score
from sandrl.sandboxes import Job
from sandrl.scoring.policies import fraction

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
ENDLESS = "import time\ntime.sleep(60)"


def score_codes(
    job: Job, *codes: str, options: ScoreOptions | None = None, cache: VerdictCache | None = None
) -> ScoreReport:
    completions = [Completion(f"c{number}", "inc", code=code) for number, code in enumerate(codes)]
    report = score(completions, {"inc": INC}, job=job, options=options or ScoreOptions(concurrency=4), cache=cache)
    summary = report.summary
    assert summary.n == len(codes) == summary.executed + summary.cache_hits + summary.no_code
    assert summary.executions == summary.executed + summary.retries + summary.reruns
    return report


def test_identical_completions_are_judged_once_although_they_start_together(job: Job) -> None:
    report = score_codes(job, RIGHT, WRONG, RIGHT, RIGHT, WRONG, " ")
    assert [result.reward for result in report.results] == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert [result.cached for result in report.results] == [False, False, True, True, True, False]
    assert {report.results[index].sandbox_id for index in (0, 2, 3)} == {report.results[0].sandbox_id}
    summary = report.summary
    assert (summary.executed, summary.cache_hits, summary.no_code) == (2, 3, 1)
    assert summary.hit_rate == 0.6


def test_without_caching_each_runs_for_itself(job: Job) -> None:
    report = score_codes(job, RIGHT, RIGHT, options=ScoreOptions(caching=False))
    assert (report.summary.executed, report.summary.cache_hits) == (2, 0)


def test_timeouts_are_not_kept_and_nobody_waits_for_a_row_of_them(job: Job) -> None:
    options = ScoreOptions(limits=Limits(timeout_seconds=0.5), concurrency=4)
    report = score_codes(job, ENDLESS, ENDLESS, ENDLESS, options=options)
    assert {result.status for result in report.results} == {Status.TIMEOUT}
    assert (report.summary.executed, report.summary.cache_hits) == (3, 0)
    assert [result.sandboxes for result in report.results] == [1, 1, 1]


def test_a_directory_carries_verdicts_into_the_next_run(job: Job, tmp_path: Path) -> None:
    first = score_codes(job, RIGHT, WRONG, cache=VerdictCache(tmp_path))
    second = score_codes(job, RIGHT, WRONG, cache=VerdictCache(tmp_path))
    assert (first.summary.cache_hits, second.summary.cache_hits, second.summary.executions) == (0, 2, 0)
    for one, other in zip(first.results, second.results, strict=True):
        assert (one.status, one.reward, one.trust, one.detail) == (
            other.status,
            other.reward,
            other.trust,
            other.detail,
        )
        assert other.sandbox_id is None, "nothing ran in this run"


PRINTED = Problem("inc", "Add one.", cases=tuple(Case(f"{x}\n", f"{x + 1}\n") for x in range(3)))
PRINTS = "x = int(input())\nprint(x + 1 if x != 1 else 0)"


def test_a_binary_reward_needs_nothing_after_the_first_failure_and_others_need_all(job: Job) -> None:
    cache = VerdictCache()

    def checks_of(code: str, options: ScoreOptions) -> tuple[str, float | None, bool]:
        [result] = score(
            [Completion("c", "inc", code=code)], {"inc": PRINTED}, job=job, options=options, cache=cache
        ).results
        letters = {CheckStatus.PASSED: "p", CheckStatus.FAILED: "f", CheckStatus.NOT_RUN: "-"}
        return "".join(letters[check.status] for check in result.checks), result.reward, result.cached

    binary, all_checks = ScoreOptions(all_checks=False), ScoreOptions()
    shares = ScoreOptions(policy=fraction, all_checks=False)
    timed = ScoreOptions(components=Components(timeout_penalty=0.5), all_checks=False)
    assert checks_of(PRINTS, binary) == ("pf-", 0.0, False)
    assert checks_of(PRINTS, binary) == ("pf-", 0.0, True)
    # It says too little for a fraction; one on all checks serves every reward.
    assert checks_of(PRINTS, shares) == ("pfp", 2 / 3, False)
    for options in (binary, all_checks, shares, timed):
        assert checks_of(PRINTS, options) == ("pfp", 2 / 3 if options is shares else 0.0, True)
    assert checks_of("print(int(input()) + 1)", binary) == ("ppp", 1.0, False)
    assert checks_of("print(int(input()) + 1)", shares) == ("ppp", 1.0, True)


@pytest.mark.parametrize("require_isolated", [False, True])
def test_a_verdict_in_one_process_does_not_serve_those_who_require_isolation(job: Job, require_isolated: bool) -> None:
    from sandrl.rewards import Judge

    problem = Problem("id", "", tests=("import logging\nlogging.getLogger().setLevel(10)\nassert f() == 10",))
    cache = VerdictCache()
    answers = [Completion("a", "id", code="import logging\ndef f():\n    return logging.getLogger().level\n")]
    seen = []
    for required in (require_isolated, not require_isolated):
        judge = Judge(require_isolated=required)
        [result] = score(answers, {"id": problem}, job=job, judge=judge, cache=cache).results
        seen.append((result.status, result.reward))
    expected = [(Status.PASSED, 1.0), (Status.NOT_ISOLATED, None)]
    assert seen == (expected[::-1] if require_isolated else expected)
