"""Batches that are scored before all of their completions are known, in real sandboxes."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from sandrl.errors import InterruptedRunError
from sandrl.events import CompletionFinished, Event, ExecutionFinished
from sandrl.events.results import ScoredCompletion, Status
from sandrl.problems import Completion, Problem
from sandrl.rewards import RewardFunction, ScoreOptions, VerdictCache
from sandrl.rewards.function import FunctionOptions, step_opinions
from sandrl.runs import MetricsRecorder
from sandrl.sandboxes import Interrupt, Job

PROBLEMS = {
    "double": Problem("double", "Write `f(n)`: twice n.", tests=("assert f(2) == 4",)),
    "forever": Problem("forever", "Wait.", tests=("assert f() is None",)),
}
RIGHT, WRONG, BROKEN = "def f(n): return 2 * n", "def f(n): return n", "def f(n"
SLOW = "import time\ndef f(): time.sleep(60)"


def answer(code: str) -> str:
    return f"<answer>{code}</answer>"


def entries(cache: Path) -> int:
    return sum(path.is_file() for path in cache.rglob("*"))


def await_entries(cache: Path, count: int) -> None:
    """Waits until so many verdicts are known."""
    while entries(cache) < count:
        time.sleep(0.01)


def ask(texts: list[str], task_id: str = "double") -> tuple[list[str], list[str], list[str]]:
    """What a trainer passes for these completions of a problem."""
    return [PROBLEMS[task_id].prompt] * len(texts), texts, [task_id] * len(texts)


def test_completions_are_judged_before_they_are_asked_for_and_counted_once(job: Job, tmp_path: Path) -> None:
    cache, told, recorder = tmp_path / "cache", list[ScoredCompletion](), MetricsRecorder()
    events: list[Event] = []

    def tell(event: Event) -> None:
        events.append(event)
        recorder(event)

    with RewardFunction(
        PROBLEMS, job=job, cache=VerdictCache(cache), emit=tell, on_result=lambda result, _: told.append(result)
    ) as function:
        batch = function.begin(3)
        batch.add(Completion("", "double", completion=answer(WRONG)))
        batch.add(Completion("", "double", completion=answer(RIGHT)))
        await_entries(cache, 2)
        assert not told
        assert not any(isinstance(event, ExecutionFinished | CompletionFinished) for event in events)
        prompts, texts, task_id = ask([answer(RIGHT), answer(BROKEN), answer(WRONG), answer(RIGHT), "No."])
        assert function.finish(batch, prompts, texts, task_id=task_id) == [1.0, 0.0, 0.0, 1.0, 0.0]
        report = function.last_report
        assert report is not None
        # The next batch knows the verdicts.
        assert function(prompts, texts, task_id=task_id) == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert [result.index for result in report.results] == [0, 1, 2, 3, 4]
    assert [result.id for result in report.results] == [f"double#{number}" for number in range(5)]
    assert Counter(result.index for result in told[:5]) == Counter(range(5))
    metrics = recorder.take().metrics
    assert metrics["completions"] == 10
    assert metrics["executions"] == metrics["aviato/executions"] == 2 + report.results[1].sandboxes
    assert metrics["completions"] == sum(metrics[name] or 0 for name in ("executed", "cache_hits", "no_code"))


def test_what_the_trainer_does_not_have_is_not_counted(job: Job, tmp_path: Path) -> None:
    recorder = MetricsRecorder()
    with RewardFunction(PROBLEMS, job=job, cache=VerdictCache(tmp_path), emit=recorder) as function:
        batch = function.begin(0)
        batch.add(Completion("", "double", completion=answer(WRONG)))
        await_entries(tmp_path, 1)
        prompts, texts, task_id = ask([answer(RIGHT)])
        assert function.finish(batch, prompts, texts, task_id=task_id) == [1.0]
    metrics = recorder.take().metrics
    assert (metrics["completions"], metrics["executions"], metrics["aviato/executions"]) == (1, 1, 1)


def test_a_batch_waits_for_the_one_before_it_and_an_evaluation_for_both(job: Job) -> None:
    with RewardFunction(PROBLEMS, job=job) as function:
        first, second = function.begin(0), function.begin(1)
        function.complete(second, *ask([answer(RIGHT), answer(WRONG)]))
        function.complete(first, *ask([answer(WRONG)]))
        prompts, texts, task_id = ask([answer(f"{RIGHT}  # evaluation")])
        assert function(prompts, texts, task_id=task_id) == [1.0]
        prompts, texts, task_id = ask([answer(WRONG)])
        assert function.finish(first, prompts, texts, task_id=task_id) == [0.0]
        prompts, texts, task_id = ask([answer(RIGHT), answer(WRONG)])
        assert function.finish(second, prompts, texts, task_id=task_id) == [1.0, 0.0]


def test_second_opinions_belong_to_the_completions_of_the_trainer(job: Job) -> None:
    events: list[Event] = []
    options = FunctionOptions(ScoreOptions(second_opinion=step_opinions(1.0)))
    with RewardFunction(PROBLEMS, options, job=job, emit=events.append) as function:
        batch = function.begin(0)
        batch.add(Completion("", "double", completion=answer(WRONG)))
        prompts, texts, task_id = ask([answer(RIGHT), answer(WRONG)])
        assert function.finish(batch, prompts, texts, task_id=task_id) == [1.0, 0.0]
        report = function.last_report
    assert report is not None
    assert [result.second_opinion and result.second_opinion.status for result in report.results] == [
        None,
        Status.FAILED,
    ]


def test_a_request_to_cancel_ends_a_batch_that_is_asked_for(job: Job) -> None:
    interrupt = Interrupt()
    with RewardFunction(PROBLEMS, job=job, interrupt=interrupt) as function:
        batch = function.begin(0)
        batch.add(Completion("", "forever", completion=answer(SLOW)))
        prompts, texts, task_id = ask([answer(SLOW)], "forever")
        interrupt.request(2)
        interrupt.request(2)
        with pytest.raises(InterruptedRunError, match="1 of 1 completions of the batch were not scored"):
            function.finish(batch, prompts, texts, task_id=task_id)


def test_a_batch_that_is_given_up_leaves_the_job_to_the_next(job: Job) -> None:
    with RewardFunction(PROBLEMS, job=job) as function:
        batch = function.begin(0)
        batch.add(Completion("", "forever", completion=answer(SLOW)))
        function.abandon()
        prompts, texts, task_id = ask([answer(RIGHT)])
        assert function(prompts, texts, task_id=task_id) == [1.0]
