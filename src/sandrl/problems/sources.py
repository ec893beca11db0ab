"""What the word given to `--problems` stands for: a set that comes with sandrl or has a name, a hub dataset, or a file.

The design decision: a source is found out from the word alone, without opening anything, except that a file which
exists is that file. What is left to the loader is rows, wherever they came from.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sandrl.config.words import BUNDLED
from sandrl.errors import InputError
from sandrl.jsonl import STANDARD_INPUT, BadRow, Row, read_rows
from sandrl.problems import mbpp, tiny
from sandrl.problems.hub import HubDataset, read_hub, read_parquet
from sandrl.problems.problem import Problem

Rows: TypeAlias = Iterable[Row | BadRow]

TOY = "toy"
"""Five programs that every model can write: what a first run is tried on."""

DATA = Path(__file__).with_name("data")
DEMO_PROBLEMS = DATA / "demo_problems.jsonl"

HUMANEVAL = "humaneval"
HUMANEVAL_DATASET = HubDataset("openai/openai_humaneval", revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544")

# What ends in one of these is meant as a file, there or not.
_SUFFIXES = (".jsonl", ".gz", ".json", ".parquet")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_WHAT_WORKS = (
    "use `bundled`, `toy`, `tiny`, `mbpp`, `humaneval`, a dataset of the hub (owner/name), or a .jsonl, .jsonl.gz or"
    " .parquet file"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows of problems come from.

    Attributes:
        read: Reads them.
        mbpp_split: The split to keep, where the rows are MBPP's.
    """

    read: Callable[[], Rows]
    mbpp_split: str | None = None


def find_source(name: str | Path) -> Source:
    """Finds out what a name stands for.

    Args:
        name: `bundled`, `toy` or `tiny`; `mbpp`, `humaneval` or `owner/name` of the hub; a file, or `-` for standard
            input. A split may follow after a colon, except on `bundled` and `toy`.

    Raises:
        InputError: If it stands for nothing, or the split is none.
    """
    if name == BUNDLED:
        return Source(_bundled)
    if name == TOY:
        return Source(lambda: read_rows(DATA / "toy_problems.jsonl"))
    if isinstance(name, Path) or name == STANDARD_INPUT:
        return _file(Path(name))
    if name in _NAMED:
        return _NAMED[name](None)
    if _is_file(name):
        return _file(Path(name))
    bare, _, split = name.partition(":")
    if bare in _NAMED:
        return _NAMED[bare](split)
    if _is_file(bare):
        return _file(Path(bare), mbpp_split=_checked_split(split))
    if _REPOSITORY.fullmatch(bare):
        return _hub(HubDataset(bare), split or None)
    raise InputError(f"no problem set or file is called {name!r}", hint=_WHAT_WORKS)


def _is_file(name: str) -> bool:
    return Path(name).exists() or Path(name).suffix in _SUFFIXES


def _bundled() -> Rows:
    return itertools.chain(read_rows(DATA / "bundled_problems.jsonl"), read_rows(DEMO_PROBLEMS))


def _file(path: Path, mbpp_split: str | None = None) -> Source:
    read = read_parquet if path.suffix == ".parquet" else read_rows
    return Source(lambda: read(path), mbpp_split)


def _hub(dataset: HubDataset, split: str | None) -> Source:
    return Source(lambda: one_split(read_hub(dataset), split, dataset.repository))


def _tiny(split: str | None) -> Source:
    problems = tiny.tiny_problems(split)
    return Source(lambda: (Row(number, _row(problem)) for number, problem in enumerate(problems, 1)))


def _row(problem: Problem) -> dict[str, Any]:
    return {
        "task_id": problem.task_id,
        "prompt": problem.prompt,
        "tests": list(problem.tests),
        "entry_point": problem.entry_point,
        "reference": problem.reference,
    }


def _mbpp(split: str | None) -> Source:
    """The whole set in the order of its task ids, which a local copy has too; a split is picked from it by them."""

    def read() -> Rows:
        rows = itertools.chain.from_iterable(read_hub(mbpp.HUB_DATASET).values())
        return sorted(rows, key=lambda row: int(row.value["task_id"]))

    return Source(read, None if split is None else _checked_split(split))


_NAMED: dict[str, Callable[[str | None], Source]] = {
    tiny.NAME: _tiny,
    mbpp.NAME: _mbpp,
    mbpp.HUB_DATASET.repository: _mbpp,
    HUMANEVAL: lambda split: _hub(HUMANEVAL_DATASET, split),
    HUMANEVAL_DATASET.repository: lambda split: _hub(HUMANEVAL_DATASET, split),
}


def _checked_split(split: str) -> str:
    if split not in mbpp.SPLITS:
        raise InputError(f"MBPP has no split {split!r}", hint="its splits are " + ", ".join(mbpp.SPLITS))
    return split


def one_split(splits: dict[str, list[Row]], wanted: str | None, repository: str) -> list[Row]:
    """The rows of the split that was asked for, or of the only one there is.

    Raises:
        InputError: If there is none of that name, or none was named and there are several.
    """
    if wanted is None and len(splits) == 1:
        [rows] = splits.values()
        return rows
    if wanted in splits:
        return splits[wanted]
    message = "has several splits; name one" if wanted is None else f"has no split {wanted!r}"
    choices = ", ".join(f"{repository}:{split}" for split in splits)
    raise InputError(message, path=repository, hint=f"use {choices}")
