"""Right answers of many kinds: all are rewarded, whatever they answer with and however their checks ask.

`honest.jsonl` holds problems with a reference each: dataclasses, enums, operators, contexts, coroutines, exceptions of
one's own, printed text, globals, generators. Its `prompt` names the trust that the verdict must have at least: where it
is `isolated`, a change that needs one process for it lowers a guard.
"""

from __future__ import annotations

from pathlib import Path

from sandrl.events.results import Trust
from sandrl.problems import load_problems, reference_completions
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.sandboxes import Job

PATH = Path(__file__).parents[2] / "support" / "honest.jsonl"


def test_right_answers_of_many_kinds_are_rewarded(job: Job) -> None:
    problems = load_problems(str(PATH)).problems
    assert len(problems) > 100
    options = ScoreOptions(limits=Limits(timeout_seconds=10.0), concurrency=4)
    report = score(reference_completions(problems.values()), problems, job=job, options=options)
    assert [(result.task_id, result.status, result.detail) for result in report.results if result.reward != 1.0] == []
    lowered = [
        result.task_id
        for result in report.results
        if problems[result.task_id].prompt == Trust.ISOLATED and result.trust is not Trust.ISOLATED
    ]
    assert lowered == []
