"""The meaning of the word given to `--problems`: a named set, a dataset of the hub, or a file.

The word alone decides, and no file is opened; only an existing file or directory takes precedence. A named set is one
entry of a table, from which loading, the splits for training, messages and shell completion are derived.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from sandrl.config.words import BUNDLED, TINY
from sandrl.errors import InputError
from sandrl.jsonl import STANDARD_INPUT, BadRow, Row, read_rows
from sandrl.problems import tiny
from sandrl.problems.formats import own_row
from sandrl.problems.formats.python_tests import MBPP
from sandrl.problems.hub import HubDataset, read_hub
from sandrl.problems.published import HUMANEVAL_DATASET, MBPP_DATASET, PUBLISHED
from sandrl.problems.tables import file_set, is_file_name, read_directory, read_file
from sandrl.problems.tasks.registry import GIT, HARBOR, found_tasks
from sandrl.problems.tasks.sources import find_tasks
from sandrl.suggestions import VALUES, near

Rows: TypeAlias = Iterable[Row | BadRow]
RowsT = TypeVar("RowsT", bound=Iterable[Row])

DATA = Path(__file__).with_name("data")
DEMO_PROBLEMS = DATA / "demo_problems.jsonl"
TRAIN, TEST = "train", "test"

MBPP_SPLITS = {"train": range(601, 975), "test": range(11, 511), "validation": range(511, 601), "prompt": range(1, 11)}
"""The task ids of each split of MBPP (arXiv:2108.07732, appendix A); a local copy of the set has the same splits."""

_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows of problems come from; those without an id are numbered in `name`.

    Attributes:
        has_tasks: Whether a row may name the directory of a task on this machine: not in a set that others publish.
    """

    read: Callable[[], Rows]
    name: str = ""
    has_tasks: bool = True


@dataclass(frozen=True, slots=True)
class NamedSet:
    """A set of problems that has a name.

    Attributes:
        title: A few words about it, for shell completion.
        open: Returns its source; of a split, or of the whole set for None.
        repository: The dataset of the hub that it is; that name means the same set.
    """

    name: str
    title: str
    open: Callable[[str | None], Source]
    splits: tuple[str, ...] = ()
    repository: str = ""

    def source(self, split: str | None) -> Source:
        if split is not None and split not in self.splits:
            hint = f"use one of its splits: {', '.join(self.splits)}" if self.splits else f"leave out :{split}"
            raise InputError(f"the set {self.name} has no split {split!r}", hint=hint)
        return self.open(split)


def find_source(name: str | Path) -> Source:
    """Finds out what a name stands for: a named set or `owner/name`, perhaps with `:split`, a file, or `-`.

    A name that begins with `harbor:` or `git+` is that of a set of tasks (`sandrl.problems.tasks.registry`).
    """
    if isinstance(name, Path) or name == STANDARD_INPUT:
        return _file(Path(name))
    if (named := named_set(name)) is not None:
        return named.source(None)
    if name.startswith((HARBOR, GIT)):
        return Source(lambda: _rows_of(found_tasks(name)))
    if _is_file(name):
        return _file(Path(name))
    bare, _, split = name.partition(":")
    if (named := named_set(bare)) is not None:
        return named.source(split)
    if split and Path(bare).is_dir():
        if find_tasks(Path(bare)):
            raise InputError(f"is a directory of tasks, which has no split {split!r}", path=bare)
        return Source(lambda: read_directory(Path(bare), split))
    if _is_file(bare):
        if split not in MBPP_SPLITS:
            raise InputError(f"MBPP has no split {split!r}", hint="use one of its splits: " + ", ".join(MBPP_SPLITS))
        return Source(lambda: _of_mbpp_split(read_file(Path(bare)), split, name), file_set(bare))
    if _REPOSITORY.fullmatch(bare):
        return _from_hub(HubDataset(bare), split or None)
    meant = near(bare, [each.name for each in NAMED_SETS], VALUES)
    raise InputError(
        f"there is no problem set or file {name!r}{meant}",
        hint=f"use {', '.join(f'`{each.name}`' for each in NAMED_SETS)}, a dataset of the hub (owner/name), or a"
        " .jsonl, .jsonl.gz, .json, .csv or .parquet file, or a directory of them or of tasks",
    )


def named_set(name: str) -> NamedSet | None:
    """Returns the set of a name, or of a dataset of the hub; None if there is no such set."""
    return _BY_NAME.get(name)


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


def _is_file(name: str) -> bool:
    return Path(name).exists() or is_file_name(name)


def _file(path: Path) -> Source:
    if path.is_dir():
        tasks = find_tasks(path)
        return Source((lambda: _rows_of(tasks)) if tasks else (lambda: read_directory(path)))
    return Source(lambda: read_file(path), "stdin" if str(path) == STANDARD_INPUT else file_set(path))


def _rows_of(tasks: list[tuple[str, Path]]) -> Rows:
    for number, (name, directory) in enumerate(tasks, 1):
        yield Row(number, {"task_id": name, "task": str(directory)}, str(directory))


def _from_hub(dataset: HubDataset, split: str | None) -> Source:
    name = dataset.repository.rpartition("/")[2]
    numbered = f"{name}:{split}" if split else name
    return Source(lambda: one_split(read_hub(dataset), split, dataset.repository), numbered, has_tasks=False)


def _of_mbpp_split(rows: Rows, split: str, name: str) -> Rows:
    is_empty = True
    for row in rows:
        if isinstance(row, BadRow):
            yield row
        elif not MBPP.recognises(row.value):
            reason = f"is not a row of MBPP, so it cannot belong to the split {split!r}"
            hint = f"leave out :{split} to use the whole file"
            yield BadRow(row.line, InputError(reason, path=name, line=row.line, hint=hint))
        else:
            task_id = str(row.value.get("task_id"))
            if not (task_id.isdecimal() and int(task_id) in MBPP_SPLITS[split]):
                continue
            yield row
        is_empty = False
    if is_empty:
        raise InputError(f"no row belongs to the split {split!r}", path=name)


def _tiny(split: str | None) -> Source:
    tasks = tiny.tasks(split)
    return Source(lambda: (Row(number, own_row(task.to_problem())) for number, task in enumerate(tasks, 1)))


# The whole set in the order of its task ids, which a local copy has too; a split is picked from it by them.
def _mbpp(split: str | None) -> Source:
    def read() -> Rows:
        rows = itertools.chain.from_iterable(read_hub(MBPP_DATASET).values())
        found = sorted(rows, key=lambda row: int(row.value["task_id"]))
        return found if split is None else _of_mbpp_split(found, split, f"mbpp:{split}")

    return Source(read, has_tasks=False)


def _of_files(*names: str) -> Callable[[str | None], Source]:
    return lambda _: Source(lambda: itertools.chain.from_iterable(read_rows(DATA / name) for name in names))


def _published(name: str, title: str, dataset: HubDataset, splits: tuple[str, ...] = ()) -> NamedSet:
    splits = splits or tuple(dataset.files)
    return NamedSet(name, title, lambda split: _from_hub(dataset, split), splits, dataset.repository)


NAMED_SETS = (
    NamedSet(BUNDLED, "come with sandrl", _of_files("bundled_problems.jsonl", DEMO_PROBLEMS.name)),
    NamedSet("toy", "five programs for a first run", _of_files("toy_problems.jsonl")),
    NamedSet(TINY, "generated one-line functions", _tiny, tiny.SPLITS),
    NamedSet("mbpp", "from the dataset hub", _mbpp, tuple(MBPP_SPLITS), MBPP_DATASET.repository),
    _published("humaneval", "from the dataset hub", HUMANEVAL_DATASET, (TEST,)),
    *(_published(name, title, dataset) for name, (title, dataset) in PUBLISHED.items()),
)

_BY_NAME = {name: each for each in NAMED_SETS for name in (each.name, each.repository) if name}
