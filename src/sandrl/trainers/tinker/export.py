"""Saves the model of a training with the embedded service where `from_pretrained` of transformers reads it."""

from __future__ import annotations

from pathlib import Path

from sandrl.config.art import ArtTrainConfig
from sandrl.errors import InputError
from sandrl.events import Emit, ignore
from sandrl.files import new_directory
from sandrl.models import libraries
from sandrl.runs import RunReader, find_run
from sandrl.runs.resumption import saved_config
from sandrl.settings import Settings
from sandrl.trainers.art.checks import COMMAND
from sandrl.trainers.art.libraries import check_installed
from sandrl.trainers.tinker.embedded import STATE, embedded_model
from sandrl.trainers.tinker.options import EXTRA


def export_model(name: str, target: Path, settings: Settings, *, emit: Emit = ignore) -> None:
    """Saves the model that a run of `sandrl art train` has after its last step, adapters merged, in a new directory.

    Raises:
        InputError: If there is no such run, it has no such model, or the directory has files.
        MissingExtraError: If the extra of the service is not installed.
    """
    run = find_run(name, settings.state_dir, settings.runs_dir)
    steps = sorted((run / STATE).glob("*/sampler_weights/step_*"), key=lambda place: place.name)
    if not steps:
        hint = "name a run of `sandrl art train --backend embedded` with a step"
        raise InputError("has no model that the embedded Tinker service has trained", path=run, hint=hint)
    config = saved_config(ArtTrainConfig, RunReader(run), COMMAND)
    check_installed(EXTRA)
    from sandrl.trainers.tinker.checkpoints import read_checkpoint
    from sandrl.trainers.tinker.models import ModelInTraining
    from sandrl.trainers.tinker.weights import Base

    with libraries.kept_quiet():
        about, content = read_checkpoint(steps[-1])
        base = Base(embedded_model(config, settings, makes=True, emit=emit), is_offline=config.is_tiny)
        model = ModelInTraining(base, about.config, everything=not config.lora)
        model.load(content, optimizer=False)
        base.module.load_state_dict(model.whole(), strict=False)
        with new_directory(target) as directory:
            base.module.save_pretrained(directory)
            base.tokenizer.save_pretrained(directory)
