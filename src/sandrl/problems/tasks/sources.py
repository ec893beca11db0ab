"""Which directories are tasks, and the reader of each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sandrl.errors import InputError
from sandrl.problems.tasks import harbor, terminal_bench
from sandrl.problems.tasks.task import Task

_READERS = {harbor.CONFIG: harbor.read_harbor_task, terminal_bench.CONFIG: terminal_bench.read_terminal_bench_task}
_MOST_DEPTH = 4
_MOST_SEEN = 200_000


def read_task(directory: str | Path) -> Task:
    """Reads a task directory of any format.

    Raises:
        InputError: If it is none, or something in it is wrong or cannot be run here.
    """
    for name, read in _READERS.items():
        if (Path(directory) / name).is_file():
            try:
                return read(directory)
            except InputError as error:
                raise error if error.hint else _with_hint(error) from None
    message = "is not a directory" if not Path(directory).is_dir() else f"has none of {', '.join(_READERS)}"
    raise InputError(message, path=directory, hint="name the directory of a task, as Harbor or Terminal-Bench have it")


def _with_hint(error: InputError) -> InputError:
    hint = "correct the file, or leave the task out (`skip_bad_rows`)"
    return InputError(error.reason, path=error.path, line=error.line, field=error.field, hint=hint, fields=error.fields)


def find_tasks(directory: Path) -> list[tuple[str, Path]]:
    """The tasks in a directory, which may be one itself, with names: in a folder of tasks, those of their directories.

    A name that several have is the path instead. Hidden directories are left out, and a task has no tasks in it.

    Raises:
        InputError: If a directory cannot be read, or there are too many.
    """
    root = directory.resolve()
    found = sorted(_tasks_in(root, 0, Counter()), key=lambda path: os.fsencode(path))
    if found == [root]:
        return [(_text(root.name), root)]
    counts = Counter(path.name for path in found)
    return [(_text(path.name if counts[path.name] == 1 else str(path.relative_to(root))), path) for path in found]


def _tasks_in(directory: Path, depth: int, seen: Counter[str]) -> Iterator[Path]:
    if any((directory / name).is_file() for name in _READERS):
        yield directory
        return
    if depth == _MOST_DEPTH:
        return
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                seen["entries"] += 1
                if seen["entries"] > _MOST_SEEN:
                    message = f"has more than {_MOST_SEEN} files and directories that may be tasks"
                    raise InputError(message, path=directory, hint="name a directory in it")
                # A link may lead anywhere; the tasks that it means are named by their own place.
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    yield from _tasks_in(directory / entry.name, depth + 1, seen)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=directory) from error


# A name that is no UTF-8 is written so that it is.
def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace") or "task"
