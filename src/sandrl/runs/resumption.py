"""Decides whether a run can be resumed: by this command, and with unchanged content.

Training and evaluation use the same check, so that a run whose rows would come from two different inputs is refused
with the same message everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from sandrl.config.layers import ConfigT
from sandrl.digests import digest_of
from sandrl.errors import InputError, UsageError
from sandrl.runs.reader import RunReader

PROBLEMS_DIGEST = "problems_digest"
"""The option of a run that stands for the content of its problems."""


def content_digest(content: object) -> str:
    """Stands for plain content: 16 hex digits that change whenever it does."""
    return digest_of_all([content])


def digest_of_all(contents: Iterable[object]) -> str:
    """The same for contents that come one after the other, and are never in memory together."""
    return digest_of(contents).hex()[:16]


def saved_config(model: type[ConfigT], run: RunReader, command: str) -> ConfigT:
    """The configuration that a run was begun with.

    Raises:
        InputError: If the run is one of another command, or of another version of sandrl.
    """
    config = run.config
    if config.command != command:
        message = f"is a run of `sandrl {config.command}`, which `sandrl {command}` cannot resume"
        hint = f"name a run of sandrl {command}; list the runs with their commands: sandrl runs ls"
        raise InputError(message, path=run.path, hint=hint)
    try:
        return model.model_validate({k: v for k, v in config.options.items() if k in model.model_fields})
    except ValidationError as error:
        raise InputError("was made by an incompatible version of sandrl", path=run.path) from error


def check_unchanged(run: Path, digest: str, source: str, *, noun: str = "run") -> None:
    """Makes sure, by a digest, that a run goes on with the content it was begun with; messages call this `source`.

    Raises:
        UsageError: If they have changed.
    """
    if RunReader(run).config.options.get(PROBLEMS_DIGEST) != digest:
        raise UsageError(
            f"the run {run.name!r} cannot be resumed: the content of {source} has changed",
            hint=f"start a new {noun}",
        )
