"""Follows the log of a run: its last lines, then new ones until its job ends.

Files are polled and read from the place where reading stopped, because a run may be on a network file system, which
reports no changes. A line counts once its line break is written: no row is read in part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from sandrl.files import open_regular
from sandrl.runs.directory import is_running
from sandrl.runs.rows import LogRow

POLL_SECONDS = 0.2
_BLOCK_BYTES = 1 << 16


def follow_log(directory: Path, *, lines: int) -> Iterator[LogRow]:
    """Reads a run's log, of all its processes: its last `lines`, then new ones until no job writes the run any more.

    Yields:
        Rows, the old ones by their time; what cannot be read is left out.
    """
    places: dict[Path, int] = {}
    known: list[LogRow] = []
    for file in _files(directory):
        rows, places[file] = _last_rows(file, lines)
        known += rows
    yield from sorted(known, key=lambda row: row.time)[len(known) - min(lines, len(known)) :]
    while True:
        # Before the files are read: what a job writes last is read once more after it has ended.
        goes_on = is_running(directory)
        fresh: list[LogRow] = []
        for file in _files(directory):
            rows, places[file] = _rows_from(file, places.get(file, 0))
            fresh += rows
        yield from sorted(fresh, key=lambda row: row.time)
        if not goes_on:
            return
        time.sleep(POLL_SECONDS)


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{LogRow.file}*.jsonl"))


def _rows_from(file: Path, place: int) -> tuple[list[LogRow], int]:
    # The whole rows after a place, and the place after them.
    rows: list[LogRow] = []
    try:
        with os.fdopen(open_regular(file), "rb") as stream:
            stream.seek(place)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                place += len(line)
                rows += _parsed(line)
    except OSError:
        return rows, place
    return rows, place


def _last_rows(file: Path, lines: int) -> tuple[list[LogRow], int]:
    # The last whole rows, read from the end, and the place after them.
    try:
        with os.fdopen(open_regular(file), "rb") as stream:
            start = end = stream.seek(0, os.SEEK_END)
            tail = b""
            while start and tail.count(b"\n") <= lines:
                size = min(start, max(_BLOCK_BYTES, len(tail)))
                start -= size
                stream.seek(start)
                tail = stream.read(size) + tail
    except OSError:
        return [], 0
    whole, _, unfinished = tail.rpartition(b"\n")
    chosen = whole.split(b"\n")[-lines:] if lines and whole else []
    return [row for line in chosen for row in _parsed(line)], end - len(unfinished)


def _parsed(line: bytes) -> list[LogRow]:
    try:
        return [LogRow.model_validate_json(line)] if line.strip() else []
    except ValidationError:
        return []
