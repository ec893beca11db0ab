"""The environment of SkyRL-Gym, made by its registry as SkyRL makes one for each rollout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sandrl.errors import InfrastructureError, InputError, UsageError
from sandrl.integrations import skyrl_gym as adapter
from tests.support.stopping import stopping_sandboxes

pytestmark = pytest.mark.needs("skyrl_gym")

RIGHT, WRONG = "<answer>def f(x): return x + 1</answer>", "<answer>def f(x): return 2 * x</answer>"
PROMPT = [{"role": "user", "content": "Add one: `f(x)`."}]
Make = Callable[..., Any]


@pytest.fixture
def make(place: str | None, problem_file: str) -> Iterator[Make]:
    """Makes an environment of a row."""
    import skyrl_gym

    adapter.register(problems=problem_file, service=place)

    def env(truth: object, **options: Any) -> Any:
        row = {"reward_spec": {"ground_truth": truth}, "data_source": "code", "max_turns": 1}
        made = skyrl_gym.make("sandrl", env_config=options, extras=row)
        assert made.init(PROMPT) == (PROMPT, {})
        return made

    yield env
    skyrl_gym.envs.deregister("sandrl")


def test_a_step_scores_the_answer_and_ends_the_episode(make: Make) -> None:
    env = make("inc")
    step = env.step(RIGHT)
    assert (step["reward"], step["done"], step["observations"]) == (1.0, True, [])
    assert step["metadata"]["status"] == "passed"
    assert make({"assert_case": ["assert f(1) == 3"]}).step(RIGHT)["reward"] == 0.0


def test_environments_of_many_threads_share_the_backend_and_their_metrics_are_averaged(make: Make) -> None:
    from skyrl_gym.metrics import aggregate_for_environment

    def play(number: int) -> tuple[float, dict[str, Any]]:
        env = make("inc")
        reward = env.step(f"{RIGHT if number % 4 else WRONG} {number}")["reward"]
        return reward, env.get_metrics()

    with ThreadPoolExecutor(16) as pool:
        played = list(pool.map(play, range(32)))
    assert [reward for reward, _ in played] == [float(number % 4 > 0) for number in range(32)]
    averages = aggregate_for_environment("sandrl", [metrics for _, metrics in played])
    assert averages == {"passed": 0.75, "checks_passed": 0.875, "unscorable": 0.0}


def test_what_cannot_be_scored_is_an_error_or_the_number_that_was_asked_for(make: Make) -> None:
    answer = "<answer>def f(x): return None</answer>"
    env = make("broken")
    with pytest.raises(InputError, match="invalid_problem"):
        env.step(answer)
    env = make("broken", unscorable=-0.5)
    assert env.step(answer)["reward"] == -0.5
    assert env.get_metrics() == {"passed": 0.0, "checks_passed": 0.0, "unscorable": 1.0}


def test_an_answer_without_sandboxes_is_an_error_or_the_number_that_was_asked_for() -> None:
    def env(tag: str, **options: Any) -> Any:
        extras = {"reward_spec": {"ground_truth": {"assert_case": ["assert f(1) == 2"]}}}
        return adapter.CodeEnv({"sandboxes": {"tags": [tag]}, "retries": 0, **options}, extras)

    with stopping_sandboxes("skyrl"):
        with pytest.raises(InfrastructureError):
            env("skyrl").step(RIGHT)
        assert env("skyrl", unscorable=-1).step(RIGHT)["reward"] == -1.0


def test_options_of_scoring_are_options_of_the_environment(make: Make) -> None:
    assert make("inc", reward="fraction").step(WRONG)["reward"] == 0.5
    with pytest.raises(UsageError, match="rewrad"):
        make("inc", rewrad="fraction")


def test_a_row_without_a_ground_truth_is_refused() -> None:
    with pytest.raises(InputError, match="ground_truth"):
        adapter.CodeEnv(env_config={}, extras={"reward_spec": {"method": "rule"}})
    with pytest.raises(UsageError, match="unscorable"):
        adapter.register("another", unscorable="zero")
