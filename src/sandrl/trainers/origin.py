"""The initial weights of a new run: a given checkpoint of an earlier run, or its last one.

The directory of the checkpoint becomes the model of the new run, so training, resuming and evaluating load it like any
other model. Settings that a checkpoint does not contain (problems, extraction, maximum completion length) come from the
configuration of the earlier run, as the lowest layer of the new configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import InputError, UsageError
from sandrl.runs import RunReader, find_run
from sandrl.runs.config import Origin
from sandrl.runs.resumption import saved_config
from sandrl.settings import Settings
from sandrl.trainers.checkpoints import checkpoint_directory, last_checkpoint, read_marker

COMMANDS = ("grpo", "unsloth")
"""The commands whose runs keep such checkpoints."""

OF_ONE_RUN = frozenset(
    {"model", "init_from", "run_name", "runs_dir", "output_dir", "tags", "budget", "notify", "chat_template"}
)
"""What a run does not take over from the run that its weights are from; a checkpoint has its own chat template."""


@dataclass(frozen=True, slots=True)
class InitialWeights:
    """The checkpoint that a run begins with, and the configuration of the run that saved it; None if that is gone."""

    origin: Origin
    config: GrpoConfig | None

    def defaults(self) -> dict[str, JsonValue]:
        """What the new run takes over."""
        document = {} if self.config is None else self.config.document()
        return {name: value for name, value in document.items() if name not in OF_ONE_RUN}

    def choice(self) -> dict[str, JsonValue]:
        """What says in the new run's configuration where its weights are from."""
        return {"init_from": self.origin.checkpoint, "model": self.origin.checkpoint}


def initial_weights(given: Mapping[str, JsonValue], settings: Settings) -> InitialWeights | None:
    """Finds the weights that `init_from` of the given fields names; None if it is not given.

    Raises:
        InputError: If there is no such run or checkpoint.
        UsageError: If a model is given beside it that is another.
    """
    word = given.get("init_from")
    if word is None:
        return None
    beginning = _find(str(word), settings)
    model, known = given.get("model"), {beginning.origin.checkpoint}
    if beginning.config is not None:
        known.add(beginning.config.model)
    if model is not None and model not in known:
        raise UsageError(
            f"model: init_from already selects the weights, {beginning.origin}, but {model} is a different model",
            hint="leave out `model` or `init_from`",
            fields=("model", "init_from"),
        )
    return beginning


def _find(word: str, settings: Settings) -> InitialWeights:
    path = Path(word).expanduser().absolute()
    marker = read_marker(path)
    if marker is not None:
        # The run that it lies in, or else the one that saved it.
        run = _run_at(path.parent.parent) or (None if marker.run is None else _run_at(marker.run))
        run_id, config = (None, None) if run is None else (run.config.run_id, _config(run))
        return InitialWeights(Origin(run_id=run_id, step=marker.step, checkpoint=str(path)), config)
    run = _run_at(path)
    if run is None and os.sep in word and path.is_dir():
        raise InputError(
            "is neither a run nor a complete checkpoint of a run",
            path=word,
            hint="to train any other model directory, use `model`",
            fields=("model",),
        )
    run = run or RunReader(find_run(word, settings.state_dir, settings.runs_dir))
    config = _config(run)
    last = last_checkpoint(checkpoint_directory(config, run.path))
    if last is None:
        hint = f"sandrl {run.config.command} --resume {run.config.run_id} resumes that run itself"
        raise InputError("has no complete checkpoint", path=run.path, hint=hint)
    return InitialWeights(Origin(run_id=run.config.run_id, step=last.step, checkpoint=str(last.path)), config)


def _run_at(path: Path) -> RunReader | None:
    try:
        return RunReader(path)
    except InputError:
        return None


def _config(run: RunReader) -> GrpoConfig:
    command = run.config.command
    if command not in COMMANDS:
        message = f"is a run of `sandrl {command}`, which saves no checkpoints"
        hint = "give a run of " + " or ".join(f"`sandrl {name}`" for name in COMMANDS)
        raise InputError(message, path=run.path, hint=hint)
    return saved_config(GrpoConfig, run, command)
