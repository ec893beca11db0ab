"""What a training run keeps in its run directory for the one that goes on with it."""

from __future__ import annotations

from pathlib import Path

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import InputError, UsageError
from sandrl.runs import RunReader

CHECKPOINTS = "checkpoints"
PROBLEMS_DIGEST = "problems_digest"


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
    if config.command != command:
        raise InputError(f"is a run of `sandrl {config.command}`, which `sandrl {command}` cannot go on with", path=run)
    fields = {name: value for name, value in config.options.items() if name in GrpoConfig.model_fields}
    try:
        return GrpoConfig.model_validate(fields)
    except ValueError as error:
        raise InputError("is a run of another version of sandrl", path=run) from error


def check_unchanged(run: Path, digest: str, source: str) -> None:
    """Makes sure that a run goes on with what it was begun with.

    Args:
        run: Its directory.
        digest: Stands for the content of what it would go on with.
        source: What that is, as an option names it.

    Raises:
        UsageError: If they have changed.
    """
    if RunReader(run).config.options.get(PROBLEMS_DIGEST) != digest:
        raise UsageError(
            f"the run {run.name!r} cannot go on: {source} has other content now",
            hint="begin a new run",
        )
