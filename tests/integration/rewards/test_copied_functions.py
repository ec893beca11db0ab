"""A reward function that was used, with components of a user's own, and its copies in other processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sandrl
from sandrl.problems import Problem
from sandrl.rewards import Components, RewardFunction, VerdictCache
from sandrl.sandboxes import Connection, Job, new_job_id
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.settings import RuntimeKind

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
RIGHT, WRONG = (f"<answer>def f(x):\n    return x + {number}\n</answer>" for number in (1, 2))


def brief(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
    return [None if "lost" in str(text) else 0.1 for text in completions]


async def slow(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
    await asyncio.sleep(0)
    return [-1.0] * len(completions)


def answers(function: RewardFunction, texts: list[str]) -> list[float | None]:
    """Runs in another process."""
    with function:
        return function(["Add one."] * len(texts), texts)


def test_functions_of_a_users_own_are_added_to_the_reward_and_mask_it(job: Job) -> None:
    function = sandrl.reward_function([INC], job=job, components=[Components(format_reward=0.5), brief, (slow, 0.25)])
    texts = [RIGHT, WRONG, f"{RIGHT} lost"]
    assert function(["Add one."] * 3, texts) == [1.35, 0.35, None]
    assert asyncio.run(function.as_async()(["Add one."] * 3, texts)) == [1.35, 0.35, None]


def test_a_completion_without_a_reward_has_none_whatever_its_components_give(job: Job) -> None:
    environments = [SimpleNamespace(loss="its sandbox was lost")]
    masked = sandrl.reward_function([INC], job=job, components=[brief])
    assert masked(["Add one."], [RIGHT], environments=environments) == [None]
    zero = sandrl.reward_function(
        [INC], job=job, components=[brief], on_infrastructure_error="zero", fallback_reward=-0.5
    )
    assert zero(["Add one."], [RIGHT], environments=environments) == [-0.4]


def test_a_used_function_can_be_pickled_into_a_worker_process_which_makes_its_own_sandboxes(tmp_path: Path) -> None:
    texts = [RIGHT, WRONG, f"{RIGHT} lost"]
    with sandrl.reward_function([INC], components=[brief], runtime="local", cache=tmp_path / "cache") as function:
        assert answers(pickle.loads(pickle.dumps(function)), texts) == [1.1, 0.1, None]
        assert function(["Add one."] * 3, texts) == [1.1, 0.1, None]
        job = function._job
        assert job is not None
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(answers, (function, texts)) == [1.1, 0.1, None]
        assert function._job is job
        copy = pickle.loads(pickle.dumps(function))
        assert copy._job is None
        assert copy._cache.directory == tmp_path / "cache"
        assert function(["Add one."], [RIGHT.replace("x + 1", "1 + x")]) == [1.1]


def test_the_copy_of_a_function_whose_job_was_given_has_the_runtime_and_packages_of_the_job(
    connection: Connection,
) -> None:
    has_packages = replace(connection, packages=Packages(asked=("alpha", "beta==2.0")))
    with Job(has_packages, job_id=new_job_id(), max_lifetime_seconds=60) as job:
        copy = pickle.loads(pickle.dumps(RewardFunction({"inc": INC}, job=job, cache=VerdictCache())))
    assert copy._job is None
    assert copy._options.sandboxes.runtime == RuntimeKind.LOCAL
    assert copy._options.sandboxes.image == connection.image
    assert copy._options.sandboxes.packages == ("alpha", "beta==2.0")
