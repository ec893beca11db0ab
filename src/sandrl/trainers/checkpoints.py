"""Checkpoints that are whole, and finding the last of them.

The design decision: a process can be killed in the middle of writing a checkpoint, and a part of one looks like one. So
the last thing written is a marker, when every process has written its part; without it a checkpoint does not exist.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from sandrl.files import write_whole

_MARKER = "sandrl-checkpoint.json"
_NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint.

    Attributes:
        step: How many steps the policy in it has had.
        path: A directory that transformers loads as a model, and its trainer resumes from.
    """

    step: int
    path: Path


def mark_whole(directory: Path, step: int) -> Checkpoint:
    """Says that the checkpoint of a step is whole; every process must have written its part."""
    checkpoint = Checkpoint(step, directory / f"checkpoint-{step}")
    write_whole(checkpoint.path / _MARKER, json.dumps({"schema": 1, "step": step}).encode("ascii") + b"\n")
    return checkpoint


def last_checkpoint(directory: Path) -> Checkpoint | None:
    """The whole checkpoint with the most steps; None if there is none."""
    found = (_checkpoint(path) for path in directory.glob("checkpoint-*"))
    return max((each for each in found if each is not None), key=lambda each: each.step, default=None)


def _checkpoint(path: Path) -> Checkpoint | None:
    name = _NAME.fullmatch(path.name)
    return Checkpoint(int(name[1]), path) if name and (path / _MARKER).is_file() else None
