"""Writes runs as a folder of files that every static host can serve, and that opens from a disk.

A page that is opened from a disk may read scripts next to it and nothing else. So each document is a script of one
call, `sandrlData(name, text)`, with the document compressed and base64-encoded, so that text from a model cannot end
the string that contains it. Trajectories are stored in pieces, and a piece is read when one of its trajectories is
opened. The folder is written under another name first, so a reader of an earlier export sees the old version or the new
one.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.errors import InputError, ServiceError, UsageError
from sandrl.runs import RunReader
from sandrl.runs.cards import card_document
from sandrl.runs.comparison import all_options, selection_of
from sandrl.runs.report.document import problem_document, trajectory_document
from sandrl.runs.report.page import Source, empty_page, packed
from sandrl.viewer.comparison import compared_runs, pairing_part, run_part
from sandrl.viewer.library import Library
from sandrl.viewer.run import RunView
from sandrl.viewer.selection import each_brief

CHUNK = 200
"""How many trajectories a piece has."""

MOST_PAIRED = 40
"""Of how many runs each is compared with each other one."""

_MARK = "sandrl-export.json"
_MARK_TEXT = '{"schema": 1, "made_by": "sandrl view --export"}\n'


@dataclass(frozen=True, slots=True)
class Export:
    """What was written, and the ids of runs that cannot be read (`left_out`)."""

    index: Path
    runs: int
    left_out: tuple[str, ...]


def write_export(library: Library, folder: Path, *, only: str | None = None) -> Export:
    """Writes runs as files, in place of an earlier export; only the run with this key, if one is given.

    Raises:
        UsageError: If there is something else in the folder, or there are no runs that can be read.
        ServiceError: If it cannot be written.
    """
    folder = folder.absolute()
    _check(folder)
    entries = library.entries()
    keys = [key for key in entries if only in (None, key)]
    if not keys:
        raise UsageError("there are no runs to export", hint="create one, for example with sandrl reward")
    new = folder.with_name(f".{folder.name}.{os.urandom(4).hex()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        (new / "data").mkdir(parents=True)
        (new / _MARK).write_text(_MARK_TEXT, encoding="utf-8")
        (new / "index.html").write_text(empty_page(Source.FILES), encoding="utf-8")
        left_out = []
        briefs = []
        for key in keys:
            try:
                _write_run(library.open(key, entries), new / "data")
            except InputError:
                left_out.append(entries[key].run_id)
            briefs.append(library.brief(key, entries))
        if len(left_out) == len(keys):
            raise UsageError(
                f"no run to export can be read: {', '.join(left_out)}",
                hint="list the runs and their states: sandrl runs ls",
            )
        _write(new / "data", "runs", {"runs": briefs})
        _write(new / "data", "comparisons", _comparisons([library.open(key, entries) for key in keys], left_out))
        _put(new, folder)
    except OSError as error:
        message = f"export {folder}: cannot be written: {error.strerror}"
        raise ServiceError(message, hint="select another directory with `export`", fields=("export",)) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Export(folder / "index.html", len(keys), tuple(left_out))


def _check(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        what = "is not a directory"
    elif folder.is_dir() and not _is_replaceable(folder):
        what = "contains other files, which would be lost"
    else:
        return
    raise UsageError(f"export {folder}: {what}", hint="select a new or an empty directory", fields=("export",))


def _is_replaceable(folder: Path) -> bool:
    # Whether a folder is empty, or an earlier export to which nothing was added at its top.
    names = {path.name for path in folder.iterdir()}
    return not names or (_MARK in names and names <= {_MARK, "index.html", "data"})


def _put(new: Path, folder: Path) -> None:
    new.chmod(0o755)
    old = new.with_name(f"{new.name}.old")
    with suppress(FileNotFoundError):
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        with suppress(FileNotFoundError):
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_run(run: RunView, data: Path) -> None:
    while not run.columns.refresh().is_complete:
        pass
    _write(data, run.key, run.document())
    with run.columns.opened() as database:
        rows = list(each_brief(database))
        _write(data, f"{run.key}-rows", {"rows": rows, "chunk": CHUNK})
        if cards := RunReader(run.path).cards().rows:
            _write(data, f"{run.key}-cards", {"all_cards": [card_document(each) for each in cards]})
        numbers = [number for (number,) in database.execute("SELECT number FROM rows ORDER BY number")]
        for at, first in enumerate(range(0, len(numbers), CHUNK)):
            trajectories, problems = [], dict[str, Any]()
            for number, brief in zip(numbers[first : first + CHUNK], rows[first : first + CHUNK], strict=True):
                row = run.columns.read(database, number)
                whole = {**brief} if row is None else trajectory_document(row)
                trajectories.append({**whole, "key": brief["key"]})
                digest = brief["problem"]
                if digest is not None and digest not in problems:
                    problem = run.columns.problem(database, digest)
                    problems |= {} if problem is None else {digest: problem_document(problem)}
            _write(data, f"{run.key}-t{at}", {"trajectories": trajectories, "problems": problems})


def _comparisons(runs: list[RunView], left_out: list[str]) -> dict[str, Any]:
    # Each run compared with each one after it, as pages compare those that a reader chooses.
    readable = [run for run in runs if run.path.name not in left_out]
    used = []
    for run in readable:
        with run.columns.opened() as database:
            used += [] if selection_of(database) is None else [run]
    compared, pairs = dict[str, Any](), dict[str, Any]()
    for at, run in enumerate(used):
        found = compared_runs(used[at:] if len(used) <= MOST_PAIRED else [run])
        assert found is not None
        compared[run.key] = run_part(found.runs[0])
        pairs |= {f"{run.key} {used[at + each.run].key}": pairing_part(each) for each in found.pairings}
    options = {run.key: all_options(RunReader(run.path).config) for run in readable}
    return {"options": options, "compared": compared, "pairs": pairs}


def _write(data: Path, name: str, document: dict[str, Any]) -> None:
    call = f"sandrlData({json.dumps(name)}, {json.dumps(packed(document))});\n"
    (data / f"{name}.js").write_text(call, encoding="ascii")
