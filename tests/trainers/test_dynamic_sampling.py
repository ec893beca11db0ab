"""Dynamic sampling and masks of truncated completions, as they reach the optimizer of TRL's trainer."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import TrainingError, UsageError
from sandrl.runs import RunReader
from sandrl.runs.metrics import GENERATED_GROUPS, MISSING_GROUPS, REPLACED_GROUPS, TRUNCATED
from tests.trainers.conftest import Train, TrainHere
from tests.trainers.test_processes import LAUNCHER
from tests.trainers.test_resumption import completions, cut

SMALL: dict[str, Any] = {
    "model": "tiny",
    "num_problems": 12,
    "batch_size": 8,
    "samples": 4,
    "steps": 4,
    "eval_problems": 0,
    "save_steps": 1,
    "keep_checkpoints": 20,
    "runtime": "local",
}


@dataclass
class Pass:
    """What one pass of the optimizer was given: of each completion its text, its advantage and its trained tokens."""

    texts: list[str]
    advantages: list[float]
    tokens: list[int]
    items: float


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Pass]:
    """What reaches the loss of TRL's trainer while it trains."""
    import trl

    seen: list[Pass] = []
    compute = trl.GRPOTrainer._compute_loss

    def watch(trainer: Any, model: Any, inputs: Any) -> Any:
        if trainer.model.training:
            texts = trainer.processing_class.batch_decode(inputs["completion_ids"], skip_special_tokens=True)
            mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
            tokens, items = mask.sum(dim=1).tolist(), float(inputs["num_items_in_batch"])
            seen.append(Pass(texts, inputs["advantages"].tolist(), tokens, items))
        return compute(trainer, model, inputs)

    monkeypatch.setattr(trl.GRPOTrainer, "_compute_loss", watch)
    return seen


def weights(run: Path, step: int) -> bytes:
    return (run / "checkpoints" / f"checkpoint-{step}" / "model.safetensors").read_bytes()


def test_no_group_with_equal_rewards_reaches_the_optimizer(train_here: TrainHere, passes: list[Pass]) -> None:
    run = train_here(**SMALL, dynamic_sampling=2)
    reader = RunReader(run)
    rows = [row for row in reader.trajectories().rows if not row.held_out]
    assert len(passes) == 4
    was_replaced = False
    for step, (given, metrics) in enumerate(zip(passes, reader.metrics().rows, strict=True)):
        # The rewards are binary: an advantage of 0 would be one of a group whose rewards are equal.
        assert all(
            bool(tokens) == bool(advantage) for tokens, advantage in zip(given.tokens, given.advantages, strict=True)
        )
        assert given.items == sum(given.tokens)
        sampled = Counter(str(row.completion) for row in rows if row.step == step)
        assert not Counter(given.texts) - sampled
        groups = {row.task_id for row in rows if row.step == step}
        generated, replaced, missing = (
            metrics.metrics[name] or 0 for name in (GENERATED_GROUPS, REPLACED_GROUPS, MISSING_GROUPS)
        )
        assert len(groups) == generated == metrics.metrics["reward/groups"]
        assert generated <= 2 + 2 * 2
        assert sum(not tokens for tokens in given.tokens) == 4 * missing
        was_replaced = was_replaced or replaced > 0
        assert metrics.metrics["completions/clipped_ratio"] == pytest.approx(
            sum(row.is_cut_off for row in rows if row.step == step) / len([row for row in rows if row.step == step])
        )
        lengths = [row.tokens["completion"] for row in rows if row.step == step]
        assert metrics.metrics["completions/mean_length"] == pytest.approx(sum(lengths) / len(lengths))
        assert metrics.metrics["completions/max_length"] == max(lengths)
        assert metrics.metrics["completions/min_length"] == min(lengths)
    assert was_replaced


def test_nothing_is_learnt_from_a_step_whose_groups_all_have_equal_rewards(
    train_here: TrainHere, tmp_path: Path, passes: list[Pass]
) -> None:
    rewards = tmp_path / "rewards.py"
    rewards.write_text("def none(verdict, completion):\n    return 0.0\n", encoding="utf-8")
    # An entropy term would move the policy without any reward, and so would weights that decay.
    given = {**SMALL, "steps": 2, "set": {"entropy_coef": 0.1}, "reward": f"{rewards}:none"}
    with pytest.raises(TrainingError, match="nothing was trained"):
        train_here(**given, dynamic_sampling=1, run_name="masked")
    run = RunReader(tmp_path / "runs" / "masked")
    assert [row.metrics[MISSING_GROUPS] for row in run.metrics().rows] == [2, 2]
    assert [row.metrics[GENERATED_GROUPS] for row in run.metrics().rows] == [4, 4]
    assert all(not sum(each.tokens) for each in passes)
    assert [row.metrics["grad_norm"] for row in run.metrics().rows] == [0, 0]
    assert weights(run.path, 1) == weights(run.path, 2)


@pytest.mark.parametrize("passes_of_generation", [{}, {"steps_per_generation": 2, "num_iterations": 2}])
def test_a_resumed_run_takes_the_same_groups_and_ends_with_the_same_weights(
    train_here: TrainHere, passes_of_generation: dict[str, int]
) -> None:
    # After step 3 an epoch of TRL's own sampler begins, which only counts.
    given = {**SMALL, "steps": 6, "num_problems": 6, "dynamic_sampling": 1, "set": passes_of_generation}
    whole = train_here(**given, run_name="whole")
    expected = completions(whole, attempt=1)
    for step in (2, 3):
        resumed = train_here(resume=cut(whole, step))
        assert completions(resumed, attempt=2) == {each: made for each, made in expected.items() if each >= step}
        assert weights(resumed, 6) == weights(whole, 6)
        for row, other in zip(RunReader(whole).metrics().rows, RunReader(resumed).metrics().rows, strict=True):
            assert row.metrics["loss"] == other.metrics["loss"]
            assert row.metrics.get(GENERATED_GROUPS) == other.metrics.get(GENERATED_GROUPS)


def test_episodes_with_tools_are_replaced_too(train_here: TrainHere, passes: list[Pass]) -> None:
    run = train_here(**{**SMALL, "steps": 2}, rollout="tools", dynamic_sampling=1)
    reader = RunReader(run)
    rows = reader.metrics().rows
    assert sum(row.metrics[REPLACED_GROUPS] or 0 for row in rows) + sum(
        row.metrics[MISSING_GROUPS] or 0 for row in rows
    )
    episodes = reader.trajectories().rows
    assert all(row.messages and row.episode is not None for row in episodes)
    for step, (given, metrics) in enumerate(zip(passes, rows, strict=True)):
        assert all(
            bool(tokens) == bool(advantage) for tokens, advantage in zip(given.tokens, given.advantages, strict=True)
        )
        calls = [int(str(row.episode["tool_calls"])) for row in episodes if row.step == step and row.episode]
        assert metrics.metrics["tools/call_frequency"] == pytest.approx(sum(calls) / len(calls))


def test_truncated_completions_have_no_gradient_and_are_counted(train_here: TrainHere, passes: list[Pass]) -> None:
    run = train_here(**{**SMALL, "steps": 2}, max_tokens=14, mask_truncated=True)
    reader = RunReader(run)
    rows = reader.trajectories().rows
    for step, (given, metrics) in enumerate(zip(passes, reader.metrics().rows, strict=True)):
        cut_off = Counter(row.completion for row in rows if row.step == step and row.is_cut_off)
        assert Counter(text for text, tokens in zip(given.texts, given.tokens, strict=True) if not tokens) == cut_off
        assert metrics.metrics[TRUNCATED] == cut_off.total() == 8 * (metrics.metrics["completions/clipped_ratio"] or 0)
    assert any(row.is_cut_off for row in rows)


def test_options_without_an_effect_are_refused(train_here: TrainHere) -> None:
    with pytest.raises(UsageError, match="dynamic_sampling"):
        train_here(**{**SMALL, "num_problems": 2}, dynamic_sampling=1)
    with pytest.raises(UsageError, match="mask_truncated"):
        train_here(**SMALL, set={"mask_truncated_completions": True})


@pytest.mark.slow
def test_two_processes_replace_the_same_groups_and_go_on_with_them(train: Train) -> None:
    # Groups of three over two processes: some are in both, and a round has an even number of groups.
    given = {**SMALL, "batch_size": 12, "samples": 3, "num_problems": 20, "steps": 3, "dynamic_sampling": 1}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    done = train(*words, name="whole", launcher=LAUNCHER)
    assert done.code == 0, done.stderr
    rows = RunReader(done.run).metrics().rows
    assert [row.metrics[GENERATED_GROUPS] for row in rows] == [row.metrics["reward/groups"] for row in rows]
    assert sum(row.metrics[REPLACED_GROUPS] or 0 for row in rows)
    expected = completions(done.run, attempt=1)
    copy = cut(done.run, 1)
    resumed = train("--resume", copy, launcher=LAUNCHER)
    assert resumed.code == 0, resumed.stderr
    assert completions(copy, attempt=2) == {each: expected[each] for each in (1, 2)}
    losses = [json.loads(line) for line in (copy / "metrics.jsonl").read_text("utf-8").splitlines()]
    by_step = {row["step"]: row["metrics"].get("loss") for row in losses}
    assert by_step == {row.step: row.metrics.get("loss") for row in rows}
