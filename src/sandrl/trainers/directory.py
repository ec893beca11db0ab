"""What a training run keeps in its run directory for the one that goes on with it."""

from __future__ import annotations

from pathlib import Path

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import InputError
from sandrl.runs import RunReader
from sandrl.runs.resumption import check_command

CHECKPOINTS = "checkpoints"


def checkpoint_directory(config: GrpoConfig, run: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return run / CHECKPOINTS if config.output_dir is None else Path(config.output_dir).absolute()


def saved_config(run: Path, command: str) -> GrpoConfig:
    """The configuration that a run was begun with.

    Args:
        run: Its directory.
        command: The command that is to go on with it.

    Raises:
        InputError: If it is a run of another command.
    """
    config = RunReader(run).config
    check_command(run, config.command, command)
    fields = {name: value for name, value in config.options.items() if name in GrpoConfig.model_fields}
    try:
        return GrpoConfig.model_validate(fields)
    except ValueError as error:
        raise InputError("is a run of another version of sandrl", path=run) from error
