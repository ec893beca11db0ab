"""State in the run directory that a resumed run needs, and the options that a resumed run may change."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sandrl.config.grpo import GrpoConfig
from sandrl.config.model import Config
from sandrl.errors import UsageError
from sandrl.runs import find_run
from sandrl.settings import Settings

CHECKPOINTS = "checkpoints"


def checkpoint_directory(config: GrpoConfig, run: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return run / CHECKPOINTS if config.output_dir is None else Path(config.output_dir).absolute()


def run_to_resume(resume: str, given: Collection[str], settings: Settings) -> Path:
    """The directory of the run to go on with.

    Args:
        resume: Its name or path.
        given: The fields that stand on the command line.
        settings: What the environment says.

    Raises:
        UsageError: If there is none, or it is to be somewhere else.
    """
    if {"run_name", "runs_dir"} & set(given):
        message = "resume continues a run in its own directory: leave out run_name and runs_dir"
        raise UsageError(message, fields=("resume", "run_name", "runs_dir"))
    return find_run(resume, settings.state_dir, settings.runs_dir)


def check_same(run: Path, before: Config, after: Config, *, may_change: Collection[str] = ()) -> None:
    """Makes sure that a run goes on as it was begun.

    Args:
        run: Its directory.
        before: The configuration it was begun with.
        after: The one it would go on with.
        may_change: The fields that may differ.

    Raises:
        UsageError: If another one differs.
    """
    key = changed_key(before, after, may_change=may_change)
    if key is not None:
        raise UsageError(
            f"{key} has changed since the run {run.name!r} was started, so it cannot be resumed with it",
            hint="leave it out, or start a new run",
            fields=(key,),
        )


def changed_key(before: Config, after: Config, *, may_change: Collection[str] = ()) -> str | None:
    """The first field, or the first key of a table, whose values differ; None if both are the same."""
    for name in type(before).model_fields:
        one, other = getattr(before, name), getattr(after, name)
        if one != other and name not in may_change:
            if not isinstance(one, dict):
                return name
            return next(str(key) for key in {**one, **other} if one.get(key) != other.get(key))
    return None
