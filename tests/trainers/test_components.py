"""What is rewarded besides correctness: its way into the metrics, and what it does to TRL's advantages."""

from __future__ import annotations

import json
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
from tests.support.scripted_model import Answer, Question, Says, ScriptedModel
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


def test_grades_of_a_model_are_trained_on_and_what_has_none_is_left_out(train_here: TrainHere) -> None:
    def grade(question: Question) -> Answer:
        document = json.loads(question.messages[1]["content"])
        points = len(document["answer"]) % 10
        return Says("?") if points == 9 else Says(json.dumps({"id": document["id"], "points": points}))

    given: dict[str, Any] = {"model": "tiny", "problems": "toy", "steps": 1, "batch_size": 8, "samples": 4}
    given |= {"eval_problems": 0, "runtime": "local", "run_name": "graded"}
    with ScriptedModel(grade) as judge:
        reader = RunReader(train_here(**given, judge_base_url=judge.base_url, judge_weight=0.5))
    rows = reader.trajectories().rows
    assert len(rows) == 8
    for row in rows:
        points = len(row.completion or "") % 10
        assert row.components == ({} if points == 9 else {"judge": pytest.approx(0.05 * points)})
        assert (row.reward is None, row.status == "judge_error") == (points == 9, points == 9)
    [step] = reader.metrics().rows
    trained = [row.reward + math.fsum(row.components.values()) for row in rows if row.reward is not None]
    assert step.metrics["training_reward/mean"] == pytest.approx(math.fsum(trained) / len(trained))
    assert step.metrics["unscorable"] == 8 - len(trained)


def test_groups_are_ranked_and_a_group_whose_ranking_fails_is_left_out(train_here: TrainHere) -> None:
    lost: list[str] = []

    def rank(question: Question) -> Answer:
        document = json.loads(question.messages[1]["content"])
        if document["task"] in (lost or [document["task"]]):
            lost[:] = [document["task"]]
            return Says("?")
        points = [len(answer) % 11 for answer in document["answers"]]
        return Says(json.dumps({"id": document["id"], "points": points}))

    given: dict[str, Any] = {"model": "tiny", "problems": "toy", "steps": 1, "batch_size": 8, "samples": 4}
    given |= {"eval_problems": 4, "runtime": "local", "run_name": "ranked"}
    with ScriptedModel(rank) as judge:
        reader = RunReader(train_here(**given, judge_base_url=judge.base_url, judge_weight=0.5, judge_ranking=True))
    rows = [row for row in reader.trajectories().rows if not row.held_out]
    assert len(rows) == 8
    [without] = {row.task_id for row in rows if row.reward is None}
    for row in rows:
        points = len(row.completion or "") % 11
        is_lost = row.task_id == without
        assert row.components == ({} if is_lost else {"ranking": pytest.approx(0.05 * points)})
        assert (row.reward is None, row.status == "judge_error") == (is_lost, is_lost)
    step = next(row for row in reader.metrics().rows if row.step == 0)
    trained = [row.reward + math.fsum(row.components.values()) for row in rows if row.reward is not None]
    assert step.metrics["training_reward/mean"] == pytest.approx(math.fsum(trained) / 4)
    assert step.metrics["component/ranking"] == pytest.approx(
        math.fsum(row.components["ranking"] for row in rows if row.components) / 4
    )
    assert step.metrics["unscorable"] == 4
    assert not any(row.components for row in reader.trajectories().rows if row.held_out)


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


@pytest.mark.parametrize(
    ("case", "scaling", "group", "expected"),
    [
        # Without components a group of equal outcomes teaches nothing.
        ("plain", "group", 0, [0, 0, 0, 0]),
        ("plain", "batch", 0, [0, 0, 0, 0]),
        ("plain", "none", 1, [0.75, -0.25, -0.25, -0.25]),
        ("plain", "group", 1, [1.5, -0.5, -0.5, -0.5]),
        # With group scaling a component alone has the full size, whatever its weight.
        ("format 0.1", "group", 0, [0.866, 0.866, -0.866, -0.866]),
        ("format 0.01", "group", 0, [0.866, 0.866, -0.866, -0.866]),
        ("format 0.1", "none", 0, [0.05, 0.05, -0.05, -0.05]),
        ("format 0.01", "none", 0, [0.005, 0.005, -0.005, -0.005]),
        # Where one of four passes, the only one without the form, a smaller component does not change the order.
        ("format against correctness", "group", 1, [1.5, -0.5, -0.5, -0.5]),
        ("format against correctness", "none", 1, [0.675, -0.225, -0.225, -0.225]),
        # A length penalty sets correct completions against one another; a long pass still leads short failures.
        ("length, all pass", "group", 0, [1.162, 0.387, -0.387, -1.162]),
        ("length, all pass", "none", 0, [0.075, 0.025, -0.025, -0.075]),
        ("length, all pass", "none", 1, [0.6, -0.2, -0.2, -0.2]),
        # A timeout penalty raises other failures where nothing passes, unless all of them time out.
        ("timeout", "group", 0, [-1.5, 0.5, 0.5, 0.5]),
        ("timeout", "none", 0, [-0.15, 0.05, 0.05, 0.05]),
        ("timeout", "group", 1, [0, 0, 0, 0]),
        # An unscorable completion has no advantage, and no part in the mean.
        ("unscorable", "none", 0, [0.0, 2 / 3, -1 / 3, -1 / 3]),
        ("unscorable", "group", 0, [0.0, 1.154, -0.577, -0.577]),
    ],
)
def test_the_advantages_of_a_group_follow_from_its_rewards_and_components(
    advantages: Advantages, case: str, scaling: str, group: int, expected: list[float]
) -> None:
    assert advantages(case, scaling)[group * GROUP : (group + 1) * GROUP] == approx(expected)


def test_with_batch_scaling_a_component_alone_keeps_its_size(advantages: Advantages) -> None:
    # The other group, where one of four passes, sets the scale of the batch.
    for size in (0.1, 0.01):
        batch = advantages(f"format {size}", "batch")
        assert batch[:GROUP] == approx([batch[0], batch[0], -batch[0], -batch[0]])
        assert 0.9 * size < batch[0] < 1.7 * size
        assert batch[GROUP] > 1.5
    lead, *others = advantages("format against correctness", "batch")[GROUP:]
    assert lead > 0 > max(others)
