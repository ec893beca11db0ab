"""What is rewarded besides correctness: its way into the metrics, and what it does to TRL's advantages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from sandrl.events.results import Status
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion
from sandrl.runs import RunReader
from sandrl.runs.statistics import training_reward
from sandrl.scoring.policies import Components, binary
from tests.trainers.conftest import TrainHere, take_trl_step

# Those of libraries are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

GROUP = 4
ANSWER = Completion("c", "t", completion="x")
PASSED, FAILED, TIMEOUT = (
    Verdict(status, None, int(status is Status.PASSED), 1) for status in (Status.PASSED, Status.FAILED, Status.TIMEOUT)
)
PLAIN, WRAPPED, LONG = "f", "<answer>f</answer>", "x" * 4000

Advantages: TypeAlias = Callable[[str, str], list[float]]
# Of a group's advantages the first three digits: TRL adds 1e-4 to the deviation.
approx = partial(pytest.approx, rel=0.02, abs=1e-6)


def trained_on(*completions: tuple[Verdict, str] | None, **weights: float) -> list[float | None]:
    """What is trained on for completions with these verdicts; None for one that cannot be scored."""
    components = Components(**weights)
    return [
        None if each is None else training_reward(binary(each[0], ANSWER), components.of(each[1], each[0]))
        for each in completions
    ]


ONE_PASSES = ((PASSED, PLAIN), (FAILED, PLAIN), (FAILED, PLAIN), (FAILED, PLAIN))
HALF_WRAPPED = ((FAILED, WRAPPED), (FAILED, WRAPPED), (FAILED, PLAIN), (FAILED, PLAIN))

CASES: Mapping[str, list[float | None]] = {
    "plain": trained_on(*HALF_WRAPPED, *ONE_PASSES),
    "format 0.1": trained_on(*HALF_WRAPPED, *ONE_PASSES, format_reward=0.1),
    "format 0.01": trained_on(*HALF_WRAPPED, *ONE_PASSES, format_reward=0.01),
    "format against correctness": trained_on(
        *HALF_WRAPPED, (PASSED, PLAIN), *[(FAILED, WRAPPED)] * 3, format_reward=0.1
    ),
    "length, all pass": trained_on(
        *[(PASSED, "x" * length) for length in (1000, 2000, 3000, 4000)],
        (PASSED, LONG),
        *[(FAILED, "")] * 3,
        length_penalty=0.2,
    ),
    "timeout": trained_on((TIMEOUT, ""), *[(FAILED, "")] * 3, *[(TIMEOUT, "")] * 4, timeout_penalty=0.2),
    "unscorable": trained_on(None, (PASSED, ""), (FAILED, ""), (FAILED, ""), *ONE_PASSES),
}
"""The rewards of two groups of four; in the second one of four passes, where nothing else is said."""


def test_components_alone_are_a_gradient_and_the_metrics_add_up(train_here: TrainHere) -> None:
    """Where no completion passes, rewards are all 0.0, and lengths differ."""
    given: dict[str, Any] = {"model": "tiny", "problems": "toy", "steps": 1, "batch_size": 8, "samples": 4}
    given |= {"eval_problems": 0, "learning_rate": 4e-3, "lr_schedule": "constant", "runtime": "local"}
    done = train_here(**given, length_penalty=1.0, format_reward=0.5, run_name="components")
    reader = RunReader(done)
    [row] = reader.metrics().rows
    metrics = {name: value for name, value in row.metrics.items() if value is not None}
    trained = [
        math.fsum((each.reward, *each.components.values()))
        for each in reader.trajectories().rows
        if each.reward is not None
    ]
    assert len(trained) == 8
    assert metrics["reward/mean"] == 0.0
    assert metrics["training_reward/mean"] == pytest.approx(math.fsum(trained) / 8)
    parts = ("reward/mean", "component/length", "component/format")
    assert metrics["training_reward/mean"] == pytest.approx(math.fsum(metrics[name] for name in parts))
    assert metrics["training_reward/std"] > 0.0
    assert metrics["reward/zero_variance_groups"] == 0
    assert metrics["grad_norm"] > 0.0


@pytest.fixture(scope="module")
def advantages(tiny_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Advantages:
    """What TRL's own trainer makes of the rewards of two groups of four, by the case and the kind of scaling."""
    import trl

    found: dict[tuple[str, str], list[float]] = {}
    now: list[float | None] = []

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output: Any = None
            for name, rewards in CASES.items():
                for scaling in ("group", "batch", "none"):
                    self.scale_rewards = scaling
                    now[:] = rewards
                    output = super()._generate_and_score_completions(inputs)
                    found[name, scaling] = output["advantages"].tolist()
            return output

    def chosen(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
        return list(now)

    rows = [{"prompt": [{"role": "user", "content": f"Write f{number}."}]} for number in range(2)]
    sizes = {"per_device_train_batch_size": 2 * GROUP, "num_generations": GROUP, "max_completion_length": 4}
    folder = tmp_path_factory.mktemp("trained")
    take_trl_step(Trainer, chosen, rows, tiny_directory, folder, **sizes, shuffle_dataset=False)
    return lambda case, scaling: found[case, scaling]


def test_without_components_a_group_of_equal_outcomes_teaches_nothing(advantages: Advantages) -> None:
    for scaling in ("group", "batch", "none"):
        assert advantages("plain", scaling)[:GROUP] == [0.0] * GROUP
    assert advantages("plain", "none")[GROUP:] == approx([0.75, -0.25, -0.25, -0.25])
    assert advantages("plain", "group")[GROUP:] == approx([1.5, -0.5, -0.5, -0.5])


@pytest.mark.parametrize("weight", ["0.1", "0.01"])
def test_with_group_scaling_a_component_alone_has_the_full_size_whatever_its_weight(
    advantages: Advantages, weight: str
) -> None:
    size = float(weight)
    assert advantages(f"format {weight}", "group")[:GROUP] == approx([0.866, 0.866, -0.866, -0.866])
    assert advantages(f"format {weight}", "none")[:GROUP] == approx([size / 2, size / 2, -size / 2, -size / 2])
    # The other group, where one of four passes, sets the scale of the batch.
    batch = advantages(f"format {weight}", "batch")
    assert batch[:GROUP] == approx([batch[0], batch[0], -batch[0], -batch[0]])
    assert 0.9 * size < batch[0] < 1.7 * size
    assert batch[GROUP] > 1.5


def test_where_one_of_four_passes_a_smaller_component_does_not_change_the_order(advantages: Advantages) -> None:
    # The one that passes is the only one without the form.
    for scaling in ("group", "batch", "none"):
        lead, *others = advantages("format against correctness", scaling)[GROUP:]
        assert lead > 0 > max(others)
    assert advantages("format against correctness", "group")[GROUP:] == approx([1.5, -0.5, -0.5, -0.5])
    assert advantages("format against correctness", "none")[GROUP:] == approx([0.675, -0.225, -0.225, -0.225])


def test_a_length_penalty_sets_correct_completions_against_one_another(advantages: Advantages) -> None:
    short, *_, long = advantages("length, all pass", "group")[:GROUP]
    assert [short, long] == approx([1.162, -1.162])
    short, *_, long = advantages("length, all pass", "none")[:GROUP]
    assert [short, long] == approx([0.075, -0.075])
    # A long pass still leads short failures, by one less the penalty.
    lead, *others = advantages("length, all pass", "none")[GROUP:]
    assert lead - others[0] == approx(0.8)


def test_a_timeout_penalty_raises_other_failures_where_nothing_passes(advantages: Advantages) -> None:
    assert advantages("timeout", "group")[:GROUP] == approx([-1.5, 0.5, 0.5, 0.5])
    assert advantages("timeout", "none")[:GROUP] == approx([-0.15, 0.05, 0.05, 0.05])
    assert advantages("timeout", "group")[GROUP:] == [0.0] * GROUP, "all of them time out"


def test_an_unscorable_completion_has_no_advantage_and_no_part_in_the_mean(advantages: Advantages) -> None:
    assert advantages("unscorable", "none")[:GROUP] == approx([0.0, 2 / 3, -1 / 3, -1 / 3])
    assert advantages("unscorable", "group")[:GROUP] == approx([0.0, 1.154, -0.577, -0.577])
