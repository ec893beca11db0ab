"""Which checkpoint `init_from` names, and what of an earlier run's configuration a new run takes over."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from sandrl.errors import InputError, UsageError
from sandrl.runs import RunReader, RunWriter
from sandrl.runs.config import ORIGIN, Origin
from sandrl.runs.index import RunEntry
from sandrl.runs.overview import overview
from sandrl.settings import Settings, load_settings
from sandrl.trainers.checkpoints import mark_whole
from sandrl.trainers.config import resolve
from sandrl.trainers.origin import InitialWeights, initial_weights


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(), runs_dir=tmp_path / "runs", state_dir=tmp_path / "state")


def trained(settings: Settings, *steps: int, command: str = "grpo", name: str = "first", **given: JsonValue) -> Path:
    """A run as training leaves it, with a checkpoint for each of these steps."""
    options: dict[str, JsonValue] = resolve(given).document() if command in ("grpo", "unsloth") else {}
    with RunWriter.create(
        settings.runs_dir,
        command=command,
        job_id="job-0a1b2c3d",
        name=name,
        options=options,
        state_dir=settings.state_dir,
    ) as writer:
        for step in steps:
            folder = Path(str(given.get("output_dir") or writer.path / "checkpoints"))
            (folder / f"checkpoint-{step}").mkdir(parents=True)
            (folder / f"checkpoint-{step}" / "config.json").write_text("{}", encoding="utf-8")
            mark_whole(folder, step, run=writer.path)
        return writer.path


def found(settings: Settings, word: object, **given: JsonValue) -> InitialWeights:
    beginning = initial_weights({"init_from": str(word), **given}, settings)
    assert beginning is not None
    return beginning


def test_a_run_by_its_name_or_path_means_its_last_whole_checkpoint(settings: Settings) -> None:
    run = trained(settings, 10, 20)
    (run / "checkpoints" / "checkpoint-30").mkdir()
    checkpoint = str(run / "checkpoints" / "checkpoint-20")
    for word in ("first", run, "latest"):
        assert found(settings, word).origin == Origin(run_id="first", step=20, checkpoint=checkpoint)


def test_a_checkpoint_is_taken_as_it_is_and_names_its_run_wherever_it_lies(settings: Settings, tmp_path: Path) -> None:
    run = trained(settings, 10, 20, output_dir=str(tmp_path / "elsewhere"), max_tokens=77)
    checkpoint = tmp_path / "elsewhere" / "checkpoint-10"
    beginning = found(settings, checkpoint)
    assert beginning.origin == Origin(run_id="first", step=10, checkpoint=str(checkpoint))
    assert beginning.defaults()["max_tokens"] == 77
    (run / "config.json").unlink()
    gone = found(settings, checkpoint)
    assert (gone.origin.run_id, gone.origin.step, gone.defaults()) == (None, 10, {})
    assert str(gone.origin) == f"after 10 steps ({checkpoint})"


def test_what_belongs_to_one_run_is_not_taken_over(settings: Settings, tmp_path: Path) -> None:
    trained(settings, 10, output_dir=str(tmp_path / "out"), run_name="first", tags=["a"], samples=4)
    defaults = found(settings, "first").defaults()
    assert not {"model", "init_from", "run_name", "runs_dir", "output_dir", "tags"} & defaults.keys()
    assert (defaults["samples"], defaults["extract"], defaults["problems"]) == (4, "exact", "tiny")


def test_the_model_may_be_repeated_and_no_other_given(settings: Settings) -> None:
    checkpoint = str(trained(settings, 10) / "checkpoints" / "checkpoint-10")
    assert found(settings, "first", model="tiny").choice() == {"init_from": checkpoint, "model": checkpoint}
    assert found(settings, "first", model=checkpoint).origin.step == 10
    with pytest.raises(UsageError, match=r"^model: init_from already selects the weights, run first after") as caught:
        initial_weights({"init_from": "first", "model": "org/model"}, settings)
    assert caught.value.fields == ("model", "init_from")


def test_a_run_without_weights_to_begin_with_is_refused(settings: Settings, tmp_path: Path) -> None:
    unfinished = trained(settings)
    (unfinished / "checkpoints" / "checkpoint-10").mkdir(parents=True)
    trained(settings, command="eval", name="measured")
    (tmp_path / "folder").mkdir()
    expected = {
        "first": "has no complete checkpoint",
        "firts": "there is no run 'firts'; did you mean 'first'?",
        "measured": "is a run of `sandrl eval`, which saves no checkpoints",
        str(unfinished / "checkpoints" / "checkpoint-10"): "is neither a run nor a complete checkpoint of a run",
        str(tmp_path / "folder"): "is neither a run nor a complete checkpoint of a run",
        str(tmp_path / "nowhere"): "is not a run directory",
    }
    for word, message in expected.items():
        with pytest.raises(InputError, match=re.escape(message)):
            initial_weights({"init_from": word}, settings)


def test_a_run_shows_which_weights_it_began_with(settings: Settings) -> None:
    origin = Origin(run_id="first", step=10, checkpoint="/runs/first/checkpoints/checkpoint-10")
    options: dict[str, JsonValue] = {ORIGIN: origin.model_dump(mode="json")}
    with RunWriter.create(settings.runs_dir, command="grpo", job_id="job-0a1b2c3d", options=options) as writer:
        entry = RunEntry("second", writer.path, RunReader(writer.path).config.created_at)
    assert overview(entry).origin == origin
