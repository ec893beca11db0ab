"""Decides whether a run can be resumed: by this command, and with unchanged content.

Training and evaluation use the same check, so that a run whose rows would come from two different inputs is refused
with the same message everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sandrl.config.layers import ConfigT, resolve
from sandrl.digests import digest_of
from sandrl.errors import InputError, UsageError
from sandrl.runs.index import find_run
from sandrl.runs.reader import RunReader
from sandrl.settings import Settings, split_runtime

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


def run_to_resume(name: str, given: Mapping[str, Any], file: Mapping[str, Any], settings: Settings) -> Path:
    """Finds the run that is to be resumed, by its name, its directory or `latest`.

    Args:
        given: What the user has asked for besides; `file` is what a file says.

    Raises:
        UsageError: If there is no such run, or it was given a name.
    """
    if "run_name" in given:
        message = "run_name: a resumed run already has a name; leave this option out"
        raise UsageError(message, fields=("run_name",))
    return find_run(name, settings.state_dir, {**file, **given}.get("runs_dir") or settings.runs_dir)


def resumed_config(
    model: type[ConfigT], run: RunReader, command: str, fixed: Iterable[str], *layers: Mapping[str, Any]
) -> ConfigT:
    """What a run was asked to do, with what is asked for now and may be another.

    Args:
        fixed: The fields of which the run keeps its value.
        layers: What is asked for, the later one first.

    Raises:
        InputError: If the run is one of another command.
        UsageError: If something is asked for that the run does otherwise.
    """
    saved = saved_config(model, run, command)
    asked = resolve(model, saved.document(), *layers)
    for name in fixed:
        before, now = getattr(saved, name), getattr(asked, name)
        if before != now:
            raise UsageError(
                f"{name}: the run {run.path.name!r} has {_shown(before)}, not {_shown(now)}",
                hint="leave the option out to keep the run's value, or start a new run without `resume`",
                fields=(name, "resume"),
            )
    if any("image" in layer for layer in layers):
        return asked
    options = run.config.options
    # The image that the run's sandboxes had; that of one runtime means nothing to the other.
    is_same = split_runtime(str(asked.document()["runtime"]))[0] in ("auto", options.get("runtime_kind"))
    return resolve(model, asked.document(), {"image": options.get("runtime_image") if is_same else None})


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


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
