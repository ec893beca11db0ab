"""Which options are refused to sets of tasks."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.config.scoring import RewardConfig
from sandrl.errors import UsageError
from sandrl.problems import Problem
from sandrl.problems.tasks.task import Environment, Task, TaskStep
from sandrl.scoring.options import check_use

_TASK = Problem("t", "do it", task=Task("t", "test", "digest", Environment("image"), (TaskStep("do it"),)))
_OTHER = Problem("p", "do it", tests=("assert f(1) == 2",))


@pytest.mark.parametrize(
    "chosen", [{"image": "python:3.11"}, {"hash_seeds": 2}, {"packages": ("numpy",)}, {"second_opinion": 0.5}]
)
def test_what_is_only_about_code_is_refused_where_all_problems_are_tasks(chosen: dict[str, Any]) -> None:
    config = RewardConfig(completions="c.jsonl", problems="p", **chosen)
    with pytest.raises(UsageError, match=next(iter(chosen))) as raised:
        check_use(config, [_TASK])
    assert raised.value.fields == tuple(chosen)
    check_use(config, [_TASK, _OTHER])
    check_use(config, [])


def test_what_tasks_use_is_not_refused() -> None:
    chosen: dict[str, Any] = {"require_isolated": True, "retries": 1, "concurrency": 2, "pass_env": ("HOME",)}
    check_use(RewardConfig(completions="c.jsonl", problems="p", **chosen), [_TASK])
