"""The sets of problems that have a name: the sets that are part of sandrl, and popular sets of the hub.

A set is one entry here. Loading, the splits for training, messages and shell completion are derived from it, so a new
set changes no other module.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from sandrl.config.words import BUNDLED, TINY
from sandrl.errors import InputError
from sandrl.jsonl import BadRow, Row, read_rows
from sandrl.problems import mbpp, tiny
from sandrl.problems.formats import own_row
from sandrl.problems.hub import HubDataset, read_hub
from sandrl.problems.published import PUBLISHED

Rows: TypeAlias = Iterable[Row | BadRow]
RowsT = TypeVar("RowsT", bound=Iterable[Row])

DATA = Path(__file__).with_name("data")
DEMO_PROBLEMS = DATA / "demo_problems.jsonl"
TRAIN, TEST = "train", "test"


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows of problems come from.

    Attributes:
        mbpp_split: The split to keep, where the rows are MBPP's.
        name: What rows without an id are numbered in.
    """

    read: Callable[[], Rows]
    mbpp_split: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class NamedSet:
    """A set of problems that has a name.

    Attributes:
        open: Returns its source; of a split, or of the whole set for None.
        repository: The dataset of the hub that it is; that name means the same set.
    """

    name: str
    title: str
    open: Callable[[str | None], Source]
    splits: tuple[str, ...] = ()
    repository: str = ""

    @property
    def is_for_training(self) -> bool:
        """Whether it has a split to train on and one to test on."""
        return {TRAIN, TEST}.issubset(self.splits)

    def source(self, split: str | None) -> Source:
        """Returns the source of a split, or of the whole set for None."""
        if split is not None and split not in self.splits:
            hint = f"use one of its splits: {', '.join(self.splits)}" if self.splits else f"leave out :{split}"
            raise InputError(f"the set {self.name} has no split {split!r}", hint=hint)
        return self.open(split)


def named_set(name: str) -> NamedSet | None:
    """Returns the set of a name, or of a dataset of the hub; None if there is no such set."""
    return _BY_NAME.get(name)


def from_hub(dataset: HubDataset, split: str | None) -> Source:
    """Returns the source of a dataset's split; None stands for the only one."""
    name = dataset.repository.rpartition("/")[2]
    return Source(
        lambda: one_split(read_hub(dataset), split, dataset.repository), name=f"{name}:{split}" if split else name
    )


def one_split(splits: Mapping[str, RowsT], wanted: str | None, repository: str) -> RowsT:
    """The rows of the split that was asked for, or of the only one there is."""
    if wanted is None and len(splits) == 1:
        [rows] = splits.values()
        return rows
    if wanted is not None and wanted in splits:
        return splits[wanted]
    message = "has several splits; name one" if wanted is None else f"has no split {wanted!r}"
    choices = ", ".join(f"{repository}:{split}" for split in splits)
    raise InputError(message, path=repository, hint=f"use {choices}")


def _bundled() -> Rows:
    return itertools.chain(read_rows(DATA / "bundled_problems.jsonl"), read_rows(DEMO_PROBLEMS))


def _tiny(split: str | None) -> Source:
    problems = tiny.tiny_problems(split)
    return Source(lambda: (Row(number, own_row(problem)) for number, problem in enumerate(problems, 1)))


# The whole set in the order of its task ids, which a local copy has too; a split is picked from it by them.
def _mbpp(split: str | None) -> Source:
    def read() -> Rows:
        rows = itertools.chain.from_iterable(read_hub(mbpp.HUB_DATASET).values())
        return sorted(rows, key=lambda row: int(row.value["task_id"]))

    return Source(read, split)


def _humaneval(split: str | None) -> Source:
    return from_hub(_HUMANEVAL, split)


_HUMANEVAL = HubDataset("openai/openai_humaneval", revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544")

NAMED_SETS = (
    NamedSet(BUNDLED, "come with sandrl", lambda _: Source(_bundled)),
    NamedSet("toy", "five programs for a first run", lambda _: Source(lambda: read_rows(DATA / "toy_problems.jsonl"))),
    NamedSet(TINY, "generated one-line functions", _tiny, tiny.SPLITS),
    NamedSet(mbpp.NAME, "from the dataset hub", _mbpp, tuple(mbpp.SPLITS), mbpp.HUB_DATASET.repository),
    NamedSet("humaneval", "from the dataset hub", _humaneval, (TEST,), _HUMANEVAL.repository),
    *(
        NamedSet(each.name, each.title, partial(from_hub, each.dataset), each.splits, each.dataset.repository)
        for each in PUBLISHED
    ),
)

_BY_NAME = {name: each for each in NAMED_SETS for name in (each.name, each.repository) if name}
