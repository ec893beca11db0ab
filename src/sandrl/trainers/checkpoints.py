"""Finds the last complete checkpoint, and removes old ones.

A process can be killed while it writes a checkpoint, and a partial checkpoint looks like a complete one. The last file
written is therefore a marker, after every process has written its part; a checkpoint without the marker is ignored.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from sandrl.config.grpo import GrpoConfig
from sandrl.files import write_whole
from sandrl.models import libraries

CHECKPOINTS = "checkpoints"
"""The directory of the checkpoints, in the run directory."""

_MARKER = "sandrl-checkpoint.json"
_NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint after so many steps: a directory that transformers loads, and TRL resumes from."""

    step: int
    path: Path


class Marker(BaseModel):
    """What is written last into a checkpoint: after how many steps, and the directory of the run that saved it."""

    step: int
    run: Path | None = None


def checkpoint_directory(config: GrpoConfig, run: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return run / CHECKPOINTS if config.output_dir is None else Path(config.output_dir).absolute()


def mark_whole(directory: Path, step: int, *, run: Path) -> Checkpoint:
    """Says that the checkpoint of a step is whole; every process must have written its part."""
    checkpoint = Checkpoint(step, directory / f"checkpoint-{step}")
    content = {"schema": 1, "step": step, "run": str(run.absolute())}
    write_whole(checkpoint.path / _MARKER, json.dumps(content).encode("ascii") + b"\n")
    return checkpoint


def read_marker(path: Path) -> Marker | None:
    """What a checkpoint says of itself, whatever its directory is called; None if it is no whole one."""
    try:
        return Marker.model_validate_json((path / _MARKER).read_bytes())
    except (OSError, ValidationError):
        return None


def last_checkpoint(directory: Path) -> Checkpoint | None:
    """The whole checkpoint with the most steps; None if there is none."""
    return max(_whole(directory), key=lambda each: each.step, default=None)


def load_part(path: Path, device: Any) -> Any:
    """What a process has added to a checkpoint with `torch.save`, with its tensors on a device of torch."""
    # Processes number the processor, too, and torch loads nothing onto a processor with a number.
    place = "cpu" if device.type == "cpu" else device
    return libraries.load("torch").load(path, map_location=place, weights_only=True)


def remove_old(directory: Path, most: int, *, besides: Path | None) -> None:
    """Removes all complete checkpoints but the last ones, `most` in number, and one that stays whatever its age."""
    for checkpoint in sorted(_whole(directory), key=lambda each: each.step)[:-most]:
        if checkpoint.path != besides:
            # First of all, it is whole no more: a process can be killed in the middle of this, too.
            (checkpoint.path / _MARKER).unlink(missing_ok=True)
            shutil.rmtree(checkpoint.path, ignore_errors=True)


def _whole(directory: Path) -> Iterator[Checkpoint]:
    found = (_checkpoint(path) for path in directory.glob("checkpoint-*"))
    return (each for each in found if each is not None)


def _checkpoint(path: Path) -> Checkpoint | None:
    name = _NAME.fullmatch(path.name)
    return Checkpoint(int(name[1]), path) if name and (path / _MARKER).is_file() else None
