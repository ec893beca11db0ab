"""Training that goes further than it was begun for: more steps of a run, and adapters of another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError, UsageError
from sandrl.runs import RunReader
from sandrl.settings import load_settings
from sandrl.trainers.plan import check_plan, make_plan
from tests.trainers.conftest import TrainHere
from tests.trainers.test_resumption import EPOCHS, completions

WEIGHTS = Path("checkpoints") / "checkpoint-6" / "model.safetensors"


def test_steps_may_be_raised_and_the_optimizer_is_kept(train_here: TrainHere) -> None:
    whole = train_here(**EPOCHS, run_name="whole")
    raised = train_here(**{**EPOCHS, "steps": 4}, run_name="raised")
    train_here(resume=raised, steps=6)
    expected = completions(whole, attempt=1)
    assert completions(raised, attempt=2) == {4: expected[4], 5: expected[5]}
    assert (raised / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    assert RunReader(raised).config.options["steps"] == 6
    with pytest.raises(UsageError, match="steps: the run 'raised' has 6; steps can be raised, not lowered to 5"):
        train_here(resume=raised, steps=5)


def test_the_adapters_of_a_checkpoint_need_their_base(train_here: TrainHere, tmp_path: Path) -> None:
    given = {**EPOCHS, "steps": 1, "batch_size": 16, "samples": 8, "lora": True, "lora_rank": 4}
    first = train_here(**{**given, "learning_rate": 4e-3, "lr_schedule": "constant"}, run_name="first")
    checkpoint = first / "checkpoints" / "checkpoint-1"
    common: dict[str, Any] = {**EPOCHS, "problems": "tiny", "extract": "exact", "max_tokens": 48}
    common |= {"model": str(checkpoint), "steps": 1, "batch_size": 16, "samples": 8}
    settings = load_settings()
    config = check_plan(make_plan(common, settings), settings).config
    assert (config.lora, config.lora_rank) == (True, 4)
    described = checkpoint / "adapter_config.json"
    content = {**json.loads(described.read_text("utf-8")), "base_model_name_or_path": "/no/such/model"}
    described.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match="contains adapters whose base model is missing: there is no model '/no/such/"):
        check_plan(make_plan(common, settings), settings)


FURTHER: dict[str, Any] = {"steps": 1, "batch_size": 16, "samples": 8, "eval_problems": 0}
FURTHER |= {"learning_rate": 4e-3, "lr_schedule": "constant"}


def weights_of(path: Path) -> dict[str, Any]:
    """The weights in a checkpoint, or of a policy."""
    from safetensors.torch import load_file

    [file] = path.glob("*model.safetensors")
    return dict(load_file(file))


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


@pytest.mark.parametrize("lora", [False, True])
def test_a_run_begins_with_the_weights_of_another_and_its_defaults(train_here: TrainHere, lora: bool) -> None:
    settings = load_settings()
    first = train_here(**FURTHER, lora=lora, lora_rank=4, format_reward=0.1, run_name="first", tags=["mine"])
    begun = first / "checkpoints" / "checkpoint-1"
    same = train_here(init_from=str(first), learning_rate=0.0, run_name="same")
    assert equal(weights_of(same / "checkpoints" / "checkpoint-1"), weights_of(begun))
    run = RunReader(same)
    origin = {"run_id": "first", "step": 1, "checkpoint": str(begun)}
    assert run.config.options["origin"] == origin
    assert {name: run.config.options[name] for name in ("model", "init_from", "problems", "extract", "tags")} == {
        "model": str(begun),
        "init_from": str(begun),
        "problems": "tiny",
        "extract": "exact",
        "tags": [],
    }
    assert (run.config.options["max_tokens"], run.config.options["format_reward"]) == (48, 0.1)
    assert (run.config.options["lora"], run.config.options["lora_rank"]) == (lora, 4)
    assert run.metrics().rows[0].step == 0, "it counts its own steps"

    further = train_here(init_from=str(begun), run_name="further")
    before = weights_of(begun)
    trained = weights_of(further / "checkpoints" / "checkpoint-1")
    assert before.keys() == trained.keys()
    assert not equal(before, trained)
    chained = make_plan({"init_from": str(further), "steps": 2}, settings).config
    assert (chained.steps, chained.problems, chained.learning_rate) == (2, "tiny", 4e-3)
    plan = check_plan(make_plan({"init_from": str(further)}, settings), settings)
    assert str(plan.origin) == f"run further after 1 steps ({further}/checkpoints/checkpoint-1)"


def test_a_run_that_began_with_other_weights_is_resumed_from_its_own(train_here: TrainHere) -> None:
    first = train_here(**FURTHER, run_name="first")
    given: dict[str, Any] = {"init_from": str(first), "steps": 2, "save_steps": 1}
    whole = train_here(**given, run_name="whole")
    parts = train_here(**{**given, "steps": 1}, run_name="parts")
    train_here(resume=parts, steps=2)
    weights = Path("checkpoints") / "checkpoint-2"
    assert equal(weights_of(parts / weights), weights_of(whole / weights))
    assert RunReader(parts).config.options["init_from"] == str(first / "checkpoints" / "checkpoint-1")
    with pytest.raises(UsageError, match="resume continues a run with its own weights, and init_from starts a"):
        train_here(resume=parts, init_from=str(first))
    settings = load_settings()
    request = make_plan({}, settings, resume=str(parts), file={"init_from": str(first)})
    assert check_plan(request, settings).first_step == 2
