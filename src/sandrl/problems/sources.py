"""The meaning of the word given to `--problems`: a named set, a dataset of the hub, or a file.

The word alone decides, and nothing is opened; only an existing file takes precedence. The loader receives rows, from
every kind of source.
"""

from __future__ import annotations

import re
from pathlib import Path

from sandrl.errors import InputError
from sandrl.jsonl import STANDARD_INPUT
from sandrl.problems import mbpp
from sandrl.problems.hub import HubDataset
from sandrl.problems.named import NAMED_SETS, Source, from_hub, named_set
from sandrl.problems.tables import file_set, is_file_name, read_directory, read_file
from sandrl.suggestions import VALUES, near

_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]+")
_WHAT_WORKS = (
    f"use {', '.join(f'`{each.name}`' for each in NAMED_SETS)}, a dataset of the hub (owner/name), or a .jsonl,"
    " .jsonl.gz, .json, .csv or .parquet file, or a directory of them"
)


def find_source(name: str | Path) -> Source:
    """Finds out what a name stands for.

    Raises:
        InputError: If it stands for nothing, or there is no such split.
    """
    if isinstance(name, Path) or name == STANDARD_INPUT:
        return _file(Path(name))
    if (named := named_set(name)) is not None:
        return named.source(None)
    if _is_file(name):
        return _file(Path(name))
    bare, _, split = name.partition(":")
    if (named := named_set(bare)) is not None:
        return named.source(split)
    if split and Path(bare).is_dir():
        return Source(lambda: read_directory(Path(bare), split))
    if _is_file(bare):
        return _file(Path(bare), mbpp_split=_checked_split(split))
    if _REPOSITORY.fullmatch(bare):
        return from_hub(HubDataset(bare), split or None)
    meant = near(bare, [each.name for each in NAMED_SETS], VALUES)
    raise InputError(f"there is no problem set or file {name!r}{meant}", hint=_WHAT_WORKS)


def _is_file(name: str) -> bool:
    return Path(name).exists() or is_file_name(name)


def _file(path: Path, mbpp_split: str | None = None) -> Source:
    if path.is_dir():
        return Source(lambda: read_directory(path))
    name = "stdin" if str(path) == STANDARD_INPUT else file_set(path)
    return Source(lambda: read_file(path), mbpp_split, name)


def _checked_split(split: str) -> str:
    if split not in mbpp.SPLITS:
        raise InputError(f"MBPP has no split {split!r}", hint="use one of its splits: " + ", ".join(mbpp.SPLITS))
    return split
