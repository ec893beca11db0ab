"""A run that goes on from a checkpoint makes what the uninterrupted run made, completion by completion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.trainers.checkpoints import load_part
from tests.trainers.conftest import Train, TrainHere
from tests.trainers.test_processes import LAUNCHER

# An epoch of the problems has two steps; three epochs are trained.
EPOCHS: dict[str, Any] = {
    "model": "tiny",
    "num_problems": 4,
    "batch_size": 8,
    "samples": 4,
    "steps": 6,
    "eval_problems": 0,
    "save_steps": 1,
    "keep_checkpoints": 20,
    "runtime": "local",
}

Completions = dict[int, list[tuple[str, str]]]


def completions(run: Path, *, attempt: int) -> Completions:
    """What an attempt has sampled, by step."""
    found: Completions = {}
    # Each process has a file of its own; the reader shows the latest attempt alone.
    for path in run.glob("trajectories*.jsonl"):
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            if row["attempt"] == attempt:
                found.setdefault(row["step"], []).append((row["task_id"], row["completion"]))
    return {step: sorted(each) for step, each in found.items()}


def cut(whole: Path, step: int) -> Path:
    """A copy of a run as it was after so many steps."""
    copy = whole.with_name(f"{whole.name}-{step}")
    shutil.copytree(whole, copy)
    for checkpoint in (copy / "checkpoints").glob("checkpoint-*"):
        if int(checkpoint.name.removeprefix("checkpoint-")) > step:
            shutil.rmtree(checkpoint)
    return copy


def test_every_epoch_is_a_permutation_of_its_own_and_a_resumed_one_the_same(train_here: TrainHere) -> None:
    whole = train_here(**EPOCHS, run_name="whole")
    expected = completions(whole, attempt=1)
    epochs = [{name for name, _ in expected[step] + expected[step + 1]} for step in (0, 2, 4)]
    assert [len(each) for each in epochs] == [4, 4, 4]
    assert len({tuple(name for name, _ in expected[step]) for step in (0, 2, 4)}) > 1
    for step in (2, 3):
        resumed = completions(train_here(resume=cut(whole, step)), attempt=2)
        assert resumed == {each: expected[each] for each in range(step, 6)}


def test_completions_that_were_generated_for_later_steps_are_kept(train_here: TrainHere) -> None:
    # Four optimizer steps for each generation: two batches, each used twice.
    passes = {"num_iterations": 2, "steps_per_generation": 2}
    whole = train_here(**{**EPOCHS, "batch_size": 4, "steps": 8, "set": passes}, run_name="whole")
    expected = RunReader(whole).metrics().rows
    resumed = train_here(resume=cut(whole, 3))
    assert completions(resumed, attempt=2).keys() == {4}
    assert completions(resumed, attempt=2)[4] == completions(whole, attempt=1)[4]
    for row, other in zip(expected, RunReader(resumed).metrics().rows, strict=True):
        assert row.metrics["loss"] == pytest.approx(other.metrics["loss"], abs=1e-6)
        assert row.metrics["grad_norm"] == pytest.approx(other.metrics["grad_norm"], abs=1e-6)


def test_what_a_process_has_kept_is_loaded_onto_a_processor_with_a_number(tmp_path: Path) -> None:
    import torch

    # That of a process among several.
    kept = {"step": 3, "inputs": [torch.arange(4)]}
    torch.save(kept, tmp_path / "kept.pt")
    loaded = load_part(tmp_path / "kept.pt", torch.device("cpu", 0))
    assert (loaded["step"], loaded["inputs"][0].tolist()) == (3, [0, 1, 2, 3])


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True])
def test_resumed_at_any_step_of_three_epochs_a_run_equals_an_uninterrupted_one(
    train_here: TrainHere, lora: bool
) -> None:
    given = {**EPOCHS, "num_problems": 8, "steps": 12, "lora": lora, "learning_rate": 4e-3 if lora else 4e-4}
    whole = train_here(**given, run_name="whole")
    expected = completions(whole, attempt=1)
    weights = "adapter_model.safetensors" if lora else "model.safetensors"
    for step in range(1, 12):
        resumed = train_here(resume=cut(whole, step))
        assert completions(resumed, attempt=2) == {each: expected[each] for each in range(step, 12)}
        last = Path("checkpoints") / "checkpoint-12" / weights
        assert (resumed / last).read_bytes() == (whole / last).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True])
def test_two_processes_go_on_with_the_same_completions(train: Train, lora: bool) -> None:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in EPOCHS.items()]
    done = train(*words, *(("--lora",) if lora else ()), name="whole", launcher=LAUNCHER)
    assert done.code in (0, 1), done.stderr
    expected = completions(done.run, attempt=1)
    for step in range(1, 6):
        copy = cut(done.run, step)
        resumed = train("--resume", copy, launcher=LAUNCHER)
        assert resumed.code in (0, 1), resumed.stderr
        assert completions(copy, attempt=2) == {each: expected[each] for each in range(step, 6)}
