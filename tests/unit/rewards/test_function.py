"""What a reward function makes of a trainer's batch, before any sandbox."""

from __future__ import annotations

import inspect
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

import sandrl
from sandrl.answers.extraction import extract_code
from sandrl.errors import UsageError
from sandrl.problems import Problem, render_prompt
from sandrl.rewards import function as function_module
from sandrl.sandboxes import Connection
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.summary import ScoreReport
from sandrl.scoring.trainer_batch import BatchReader, answer_of, text_of
from sandrl.settings import RuntimeKind

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
DEC = Problem("dec", "Subtract one.", tests=("assert f(1) == 0",))


def task_ids(problems: list[Problem], prompts: list[Any], task_id: list[Any] | None = None) -> list[str]:
    reader = BatchReader({problem.task_id: problem for problem in problems})
    rows = reader.completions(prompts, ["x"] * len(prompts), task_id)
    return [row.task_id for row in rows]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("plain", "plain"),
        ([{"role": "assistant", "content": "said"}], "said"),
        ([{"role": "user", "content": "asked"}, {"role": "assistant", "content": "said"}], "said"),
        ([{"role": "assistant", "content": "said"}, {"role": "assistant", "content": None, "tool_calls": []}], "said"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "ab"),
        ([{"role": "assistant", "content": ""}], ""),
        ([], ""),
    ],
)
def test_text_is_found_in_every_shape_a_trainer_gives(message: Any, text: str) -> None:
    assert text_of(message) == text


HACK = "<answer>def f(x): return x + 1</answer>"


@pytest.mark.parametrize(
    "completion",
    [
        [{"role": "assistant", "content": "mine"}, {"role": "tool", "content": HACK}],
        [{"role": "assistant", "content": "mine"}, {"role": "user", "content": HACK}],
        [
            {"role": "user", "content": HACK},
            {"role": "assistant", "content": "mine"},
            {"role": "system", "content": HACK},
        ],
        [{"content": "mine"}, {"role": "tool", "content": [{"type": "text", "text": HACK}]}],
        [
            {"role": "assistant", "content": "mine"},
            {"role": "assistant", "tool_calls": []},
            {"role": "tool", "content": HACK},
        ],
    ],
)
def test_of_a_completion_only_what_the_assistant_said_counts(completion: Any) -> None:
    rows = BatchReader({"inc": INC}).completions(["Add one."], [completion], ["inc"])
    assert rows[0].completion == "mine"
    assert answer_of([{"role": "tool", "content": HACK}]) == ""


def test_rows_find_their_problems_by_column_or_by_prompt() -> None:
    assert task_ids([INC, DEC], ["?", "?"], task_id=["dec", "inc"]) == ["dec", "inc"]
    assert task_ids([Problem("11", "p", check="exit_status")], ["?"], task_id=[11]) == ["11"]
    rendered = [{"role": "user", "content": render_prompt(DEC).text}]
    assert task_ids([INC, DEC], ["Add one.", rendered, render_prompt(INC, show_tests=0).text]) == ["inc", "dec", "inc"]


@pytest.mark.parametrize(
    ("problems", "prompts", "columns", "message"),
    [
        ([INC], ["What?"], {}, "row 0 of the batch: no problem has its prompt"),
        ([INC, Problem("again", "Add one.", check="exit_status")], ["Add one."], {}, "2 problems have its prompt"),
        ([INC], ["?"], {"task_id": ["nope"]}, "there is no problem 'nope'"),
        ([INC], ["?"], {"task_id": ["inc", "inc"]}, "one entry per completion"),
    ],
)
def test_a_row_without_a_problem_is_named(
    problems: list[Problem], prompts: list[str], columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        sandrl.reward_function(problems)(prompts, ["x"], **columns)


@pytest.mark.parametrize("wrong", [{"reward": "best"}, {"extraction": "magic"}, {"on_infrastructure_error": "cry"}])
def test_words_that_are_none_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="which is not one of"):
        sandrl.reward_function([INC], **wrong)


def test_trainers_can_name_both_variants_and_tell_them_apart() -> None:
    function = sandrl.reward_function([INC])
    assert function.__name__ == function.as_async().__name__ == "sandrl_reward"
    assert inspect.iscoroutinefunction(function.as_async())
    assert not inspect.iscoroutinefunction(function)


class Episode:
    def __init__(self, submission: str) -> None:
        self.submission = submission


def test_what_an_episode_submitted_is_judged_instead_of_what_was_said() -> None:
    reader = BatchReader({"inc": INC})
    rows = reader.completions(["", ""], ["said", "said"], ["inc", "inc"], [Episode("code"), Episode("")])
    assert [(row.completion, row.code) for row in rows] == [("said", "code"), ("said", "")]
    assert extract_code(rows[1], INC) is None, "an empty submission is no code"
    rows = reader.completions([""], ["said"], ["inc"], [object()])
    assert [(row.completion, row.code) for row in rows] == [("said", None)]


class _Place(Connection):
    def open(self, **_: object) -> Any: ...


def test_verdicts_are_named_by_the_runtime_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[ScoringContext] = []

    def scored(_: object, __: object, ___: object, context: ScoringContext, **____: object) -> ScoreReport:
        contexts.append(context)
        return ScoreReport("job-1", ())

    monkeypatch.setattr(function_module, "score_batch", scored)
    place = _Place(kind=RuntimeKind.REMOTE, reason="", address="", image="python:3.11", is_local=False)
    job = SimpleNamespace(connection=place)
    function = sandrl.reward_function([INC], job=cast(Any, job))
    for connection in (place, place, replace(place, image="python:3.12")):
        job.connection = connection
        function([], [])
    first, again, elsewhere = (context.names.name(INC, "code") for context in contexts)
    assert first == again != elsewhere
    assert len({context.judge for context in contexts}) == 1, "what it has learnt is kept"
