"""An index of a run's completions in columns: lists, filters, groups and counts without reading the run again.

A list of a million completions needs for each some numbers, two names, and the place of its row. These are kept in a
SQLite database in the user's cache, never in the run directory. The database is filled in one pass, a batch at a time,
so that indexed rows can be shown before the end is reached; the pass resumes where it stopped when the files have
grown. Rows of an attempt that a later one has replaced are removed, as readers of the run ignore them. The database can
always be built again: if it does not match its run, or is damaged, it is deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandrl.errors import InputError, SandrlError
from sandrl.events.results import is_cut_off, passes
from sandrl.files import open_regular
from sandrl.runs.reader import MAX_LINE_BYTES, row_files
from sandrl.runs.rows import OpinionRow, ProblemRow, TrajectoryRow
from sandrl.settings import private_directory

LONGEST_DETAIL = 120
"""Characters of a row's detail that the index keeps."""

NO_STEP = -1
"""The step of rows outside of steps."""

_VERSION = 2
"""Raised whenever the columns change: a database of another version is made again."""

_BATCH_ROWS = 4_000
_BATCH_BYTES = 8 << 20
_HEAD_BYTES = 256
_MOST_NAMES = 50_000
_WAIT_SECONDS = 60.0

_TABLES = """
CREATE TABLE state (version INTEGER NOT NULL, run TEXT NOT NULL);
CREATE TABLE files (
    number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, inode INTEGER NOT NULL, head BLOB NOT NULL,
    read_bytes INTEGER NOT NULL, damaged INTEGER NOT NULL);
CREATE TABLE names (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE rows (
    number INTEGER PRIMARY KEY, file INTEGER NOT NULL, offset INTEGER NOT NULL, step INTEGER NOT NULL,
    attempt INTEGER NOT NULL, rank INTEGER NOT NULL, held_out INTEGER NOT NULL, greedy INTEGER NOT NULL,
    place INTEGER NOT NULL, repeat INTEGER NOT NULL DEFAULT 0, status INTEGER NOT NULL, is_pass INTEGER NOT NULL,
    reward REAL, passed INTEGER NOT NULL, total INTEGER NOT NULL, seconds REAL NOT NULL, executions INTEGER NOT NULL,
    cached INTEGER NOT NULL, time REAL NOT NULL, task INTEGER NOT NULL, problem INTEGER, id TEXT NOT NULL,
    detail TEXT NOT NULL, cut_off INTEGER NOT NULL, disagrees INTEGER NOT NULL DEFAULT 0);
CREATE INDEX rows_by_place ON rows (step, held_out, place, rank, greedy, repeat);
CREATE INDEX rows_by_status ON rows (status, held_out, disagrees, cut_off);
CREATE INDEX rows_by_task ON rows (task, held_out, step);
CREATE TABLE attempts (
    step INTEGER, held_out INTEGER, place INTEGER, rank INTEGER, attempt INTEGER NOT NULL,
    PRIMARY KEY (step, held_out, place, rank)) WITHOUT ROWID;
CREATE TABLE problems (digest TEXT PRIMARY KEY, file INTEGER NOT NULL, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE opinions (
    step INTEGER, held_out INTEGER, place INTEGER, rank INTEGER, greedy INTEGER, attempt INTEGER, id TEXT,
    file INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (step, held_out, place, rank, greedy, attempt, id)) WITHOUT ROWID;
CREATE TABLE kept (name TEXT PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL);
"""

_INSERT = """
INSERT INTO rows (file, offset, step, attempt, rank, held_out, greedy, place, status, is_pass, reward, passed, total,
    seconds, executions, cached, time, task, problem, id, detail, cut_off)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

# A unit is what a resumed job does again as a whole: see `sandrl.runs.reader`.
_REMEMBER_ATTEMPT = """
INSERT INTO attempts VALUES (:step, :held_out, :place, :rank, :attempt)
ON CONFLICT DO UPDATE SET attempt = max(attempt, excluded.attempt)
"""
_DROP_EARLIER = """
DELETE FROM rows WHERE step = :step AND held_out = :held_out AND attempt < :attempt
    AND (:place < 0 OR (place = :place AND rank = :rank))
"""
_DROP_LATE = """
DELETE FROM rows WHERE number IN (
    SELECT r.number FROM rows r JOIN attempts a ON a.step = r.step AND a.held_out = r.held_out
        AND a.place = iif(r.step >= 0, -1, r.place) AND a.rank = iif(r.step >= 0, -1, r.rank)
    WHERE r.number >= :first AND r.attempt < a.attempt)
"""
# Where a step has several calls for rewards, the positions of completions begin again with each.
_COUNT_REPEATS = """
UPDATE rows SET repeat = new.repeat FROM (
    SELECT r.number AS number, row_number() OVER (PARTITION BY step, held_out, place, rank, greedy ORDER BY number) - 1
        + coalesce((SELECT max(o.repeat) + 1 FROM rows o WHERE o.step = r.step AND o.held_out = r.held_out
            AND o.place = r.place AND o.rank = r.rank AND o.greedy = r.greedy AND o.number < :first), 0) AS repeat
    FROM rows r WHERE r.number >= :first) AS new
WHERE rows.number = new.number AND new.repeat > 0
"""
_PUT_OPINION = "INSERT OR REPLACE INTO opinions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FIND_OPINION = """
SELECT files.name, o.offset FROM opinions o JOIN files ON files.number = o.file WHERE o.step = ? AND o.held_out = ?
    AND o.place = ? AND o.rank = ? AND o.greedy = ? AND o.attempt = ? AND o.id = ?
"""
_MARK_DISAGREEMENT = """
UPDATE rows SET disagrees = 1 WHERE step = ? AND held_out = ? AND place = ? AND rank = ? AND greedy = ? AND attempt = ?
    AND id = ?
"""

_KEY = re.compile(r"(-|\d{1,15})\.(\d{1,15})(?:r(\d{1,9}))?(h)?(g)?(?:\.(\d{1,15}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a completion stands in its run: what its key says.

    Attributes:
        step: The step, from 0; None outside of training.
        held_out: Whether it was made to evaluate the policy.
        greedy: Whether it has the likeliest token everywhere.
        repeat: How many rows before it have the same place.
    """

    step: int | None
    index: int
    rank: int = 0
    held_out: bool = False
    greedy: bool = False
    repeat: int = 0

    @property
    def key(self) -> str:
        """The key: the same in a report, a view and an export, and for as long as the run grows."""
        return row_key(
            NO_STEP if self.step is None else self.step, self.index, self.rank, self.held_out, self.greedy, self.repeat
        )

    @classmethod
    def of_key(cls, key: str) -> RowPlace | None:
        """The place that a key names; None if it is no key."""
        found = _KEY.fullmatch(key)
        if found is None:
            return None
        step, index, rank, held_out, greedy, repeat = found.groups()
        return cls(
            None if step == "-" else int(step),
            int(index),
            int(rank or 0),
            bool(held_out),
            bool(greedy),
            int(repeat or 0),
        )


def row_key(step: int, index: int, rank: int, held_out: int, greedy: int, repeat: int) -> str:
    """The key of a row by its columns."""
    end = f"{f'r{rank}' if rank else ''}{'h' * bool(held_out)}{'g' * bool(greedy)}{f'.{repeat}' if repeat else ''}"
    return f"{'-' if step < 0 else step}.{index}{end}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a run is indexed.

    Attributes:
        total_bytes: The size of the run's files of completions.
        version: Changes whenever rows have come or gone.
    """

    rows: int
    total_bytes: int
    read_bytes: int
    damaged: int
    is_truncated: bool
    version: int

    @property
    def is_complete(self) -> bool:
        """Whether everything is indexed but a line that is unfinished."""
        return self.read_bytes >= self.total_bytes


# What SQLite can hold.
_Whole: TypeAlias = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]


class _IndexedRow(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    time: datetime
    rank: _Whole = 0
    step: _Whole | None = None
    attempt: _Whole = 1
    index: _Whole
    id: str
    task_id: str
    reward: float | None
    status: str
    passed: _Whole = 0
    total: _Whole = 0
    duration_seconds: float
    sandboxes: _Whole = 0
    cached: bool = False
    held_out: bool = False
    greedy: bool = False
    detail: str = ""
    finish_reason: str | None = None
    problem: str | None = None


_ReadLine: TypeAlias = Callable[[sqlite3.Connection, int, int, bytes], None]


class RunColumns:
    """The index of a run.

    Attributes:
        rows_known: How many completions were in the index when it was last looked at.
    """

    def __init__(self, run: Path, cache_dir: Path) -> None:
        self.run = run
        self._real = os.path.realpath(run)
        self.path = (
            _folder(cache_dir) / f"{hashlib.sha256(os.fsencode(self._real)).hexdigest()[:24]}.{_VERSION}.sqlite3"
        )
        self._names: dict[str, int] = {}
        self._mutex = threading.Lock()
        self._ended_unfinished: dict[str, int] = {}
        self._is_made = False
        self.rows_known = 0

    def refresh(self, seconds: float = 0.25, *, is_waiting: bool = True) -> Progress:
        """Reads on where the index ends, for so many seconds at most, but at least one batch.

        Where another thread is reading, it waits for it, or leaves the work to it.

        Raises:
            InputError: If a file cannot be read at all.
        """
        if not self._mutex.acquire(blocking=is_waiting):
            return self.progress()
        try:
            return self._refresh(seconds)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
                raise
            # Damaged, or of something else: what it had can be made again.
            self._remove()
            return self._refresh(seconds)
        finally:
            self._mutex.release()

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """The database, for reading; it has the tables even if nothing is indexed yet."""
        if not self._is_made:
            self.refresh(0.0)
        with closing(_connected(self.path)) as database:
            database.execute("PRAGMA query_only = 1")
            yield database

    def progress(self) -> Progress:
        """How much is indexed now."""
        with self.opened() as database:
            return self._progress(database)

    def read(self, database: sqlite3.Connection, number: int) -> TrajectoryRow | None:
        """A whole row, with its second opinion; None if its line cannot be read."""
        place = "SELECT files.name, offset FROM rows JOIN files ON files.number = file WHERE rows.number = ?"
        try:
            row = TrajectoryRow.model_validate_json(self._line_at(database, place, (number,)))
        except ValidationError:
            return None
        with suppress(ValidationError):
            own = (*_place_of(row), row.attempt, row.id)
            opinion = OpinionRow.model_validate_json(self._line_at(database, _FIND_OPINION, own)).opinion
            row = row.model_copy(update={"second_opinion": opinion})
        return row

    def problem(self, database: sqlite3.Connection, digest: str | None) -> ProblemRow | None:
        """A problem that completions answer; None if the run does not keep it."""
        place = "SELECT files.name, offset FROM problems JOIN files ON files.number = file WHERE digest = ?"
        with suppress(ValidationError):
            return ProblemRow.model_validate_json(self._line_at(database, place, (digest,)))
        return None

    def kept(self, database: sqlite3.Connection, name: str) -> Any:
        """What was computed from the rows that are indexed now, and kept; None if nothing was."""
        query = "SELECT value FROM kept JOIN state ON state.version = kept.version WHERE name = ?"
        found = database.execute(query, (name,)).fetchone()
        return None if found is None else json.loads(found[0])

    def keep(self, name: str, version: int, value: object) -> None:
        """Keeps what was computed from the rows of a version of the index, as JSON."""
        with suppress(sqlite3.Error), closing(_connected(self.path)) as database:
            database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (name, version, json.dumps(value)))

    def _line_at(self, database: sqlite3.Connection, query: str, values: tuple[object, ...]) -> bytes:
        found = database.execute(query, values).fetchone()
        if found is not None:
            with suppress(OSError), os.fdopen(open_regular(self.run / found[0]), "rb") as stream:
                stream.seek(found[1])
                return stream.readline(MAX_LINE_BYTES)
        return b""

    def _refresh(self, seconds: float) -> Progress:
        until = time.monotonic() + seconds
        with closing(_connected(self.path)) as database:
            # Another process may fill the same index: whoever has the lock goes on where the other one stopped.
            database.execute("BEGIN IMMEDIATE")
            if not self._fits(database):
                database.rollback()
                self._empty(database)
                database.execute("BEGIN IMMEDIATE")
            is_read = True
            for file in row_files(self.run, TrajectoryRow.file):
                is_read = self._read_on(database, file, until)
                if not is_read:
                    break
            if is_read:
                self._read_lines(database, OpinionRow.file, self._read_opinion)
                self._read_lines(database, ProblemRow.file, self._read_problem)
            database.commit()
            self._is_made = True
            return self._progress(database)

    def _fits(self, database: sqlite3.Connection) -> bool:
        # Whether the index is of this run, and its files have only grown.
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'kept'").fetchone():
            return False
        if database.execute("SELECT run FROM state").fetchone() != (self._real,):
            return False
        known = database.execute("SELECT name, inode, head, read_bytes FROM files").fetchall()
        return all(self._has_grown(*each) for each in known)

    def _has_grown(self, name: str, inode: int, head: bytes, read_bytes: int) -> bool:
        try:
            with os.fdopen(open_regular(self.run / name), "rb") as stream:
                status = os.fstat(stream.fileno())
                return status.st_ino == inode and status.st_size >= read_bytes and stream.read(len(head)) == head
        except OSError:
            return False

    def _empty(self, database: sqlite3.Connection) -> None:
        self._names.clear()
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in tables:
            database.execute(f'DROP TABLE "{name}"')
        database.executescript(_TABLES)
        database.execute("INSERT INTO state VALUES (1, ?)", (self._real,))

    def _remove(self) -> None:
        self._names.clear()
        for end in ("", "-wal", "-shm"):
            with suppress(OSError):
                Path(f"{self.path}{end}").unlink()

    def _progress(self, database: sqlite3.Connection) -> Progress:
        (version,) = database.execute("SELECT version FROM state").fetchone()
        (rows,) = database.execute("SELECT count(*) FROM rows").fetchone()
        known = {
            name: (read, damaged)
            for name, read, damaged in database.execute("SELECT name, read_bytes, damaged FROM files")
        }
        total = read = 0
        is_truncated = False
        for file in row_files(self.run, TrajectoryRow.file):
            with suppress(OSError):
                size = file.stat().st_size
                # An unfinished line is all there is to read as long as it does not grow.
                is_unfinished = self._ended_unfinished.get(file.name) == size
                is_truncated |= is_unfinished
                total += size
                read += size if is_unfinished else known.get(file.name, (0, 0))[0]
        self.rows_known = rows
        return Progress(rows, total, read, sum(damaged for _, damaged in known.values()), is_truncated, version)

    def _read_on(self, database: sqlite3.Connection, file: Path, until: float) -> bool:
        # Indexes what a file has got; returns whether that was all of it.
        try:
            stream = os.fdopen(open_regular(file), "rb")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=file) from error
        with stream:
            number, offset = self._file(database, file.name, stream)
            stream.seek(offset)
            while True:
                batch = _Batch(number, offset)
                is_end = batch.read(stream)
                if batch.end > offset:
                    self._write(database, batch)
                    offset = batch.end
                if is_end:
                    if batch.is_unfinished:
                        self._ended_unfinished[file.name] = stream.tell()
                    return True
                if time.monotonic() >= until:
                    return False

    def _write(self, database: sqlite3.Connection, batch: _Batch) -> None:
        (first,) = database.execute("SELECT coalesce(max(number), 0) + 1 FROM rows").fetchone()
        database.executemany(_INSERT, (self._columns(database, batch.file, *each) for each in batch.rows))
        again = {_unit(row): row.attempt for _, row in sorted(batch.rows, key=_attempt) if row.attempt > 1}
        for (step, held_out, place, rank), attempt in again.items():
            unit = {"step": step, "held_out": held_out, "place": place, "rank": rank, "attempt": attempt}
            database.execute(_REMEMBER_ATTEMPT, unit)
            database.execute(_DROP_EARLIER, unit)
        database.execute(_DROP_LATE, {"first": first})
        database.execute(_COUNT_REPEATS, {"first": first})
        database.execute(
            "UPDATE files SET read_bytes = ?, damaged = damaged + ? WHERE number = ?",
            (batch.end, batch.damaged, batch.file),
        )
        database.execute("UPDATE state SET version = version + 1")

    def _columns(self, database: sqlite3.Connection, file: int, offset: int, row: _IndexedRow) -> tuple[Any, ...]:
        return (
            file, offset, NO_STEP if row.step is None else row.step, row.attempt, row.rank, row.held_out, row.greedy,
            row.index, self._name(database, row.status), passes(row.status, row.passed, row.total), row.reward,
            row.passed, row.total, row.duration_seconds, row.sandboxes, row.cached, row.time.timestamp(),
            self._name(database, row.task_id), None if row.problem is None else self._name(database, row.problem),
            row.id, row.detail[:LONGEST_DETAIL], is_cut_off(row.finish_reason),
        )  # fmt: skip

    def _name(self, database: sqlite3.Connection, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            database.execute("INSERT OR IGNORE INTO names (name) VALUES (?)", (name,))
            (number,) = database.execute("SELECT number FROM names WHERE name = ?", (name,)).fetchone()
            self._names[name] = number
        return number

    def _read_opinion(self, database: sqlite3.Connection, number: int, offset: int, line: bytes) -> None:
        row = OpinionRow.model_validate_json(line)
        own = (*_place_of(row), row.attempt, row.id)
        database.execute(_PUT_OPINION, (*own, number, offset))
        if row.opinion.is_disagreement:
            database.execute(_MARK_DISAGREEMENT, own)

    def _read_problem(self, database: sqlite3.Connection, number: int, offset: int, line: bytes) -> None:
        digest = ProblemRow.model_validate_json(line).digest
        database.execute("INSERT OR REPLACE INTO problems VALUES (?, ?, ?)", (digest, number, offset))

    def _read_lines(self, database: sqlite3.Connection, kind: str, read: _ReadLine) -> None:
        for file in row_files(self.run, kind):
            with suppress(OSError), os.fdopen(open_regular(file), "rb") as stream:
                number, begin = self._file(database, file.name, stream)
                offset = begin
                stream.seek(offset)
                while (line := stream.readline(MAX_LINE_BYTES)).endswith(b"\n"):
                    # Numbers that SQLite cannot hold overflow.
                    with suppress(ValidationError, OverflowError):
                        read(database, number, offset, line)
                    offset += len(line)
                if offset > begin:
                    database.execute("UPDATE files SET read_bytes = ? WHERE number = ?", (offset, number))
                    database.execute("UPDATE state SET version = version + 1")

    def _file(self, database: sqlite3.Connection, name: str, stream: IO[bytes]) -> tuple[int, int]:
        # The number of a file, and how much of it has been read.
        known = database.execute("SELECT number, read_bytes FROM files WHERE name = ?", (name,)).fetchone()
        if known is not None:
            return int(known[0]), int(known[1])
        made = database.execute(
            "INSERT INTO files (name, inode, head, read_bytes, damaged) VALUES (?, ?, ?, 0, 0)",
            (name, os.fstat(stream.fileno()).st_ino, stream.read(_HEAD_BYTES)),
        )
        return int(made.lastrowid or 0), 0


class _Batch:
    def __init__(self, file: int, offset: int) -> None:
        self.file = file
        self.end = offset
        self.rows: list[tuple[int, _IndexedRow]] = []
        self.damaged = 0
        self.is_unfinished = False

    def read(self, stream: IO[bytes]) -> bool:
        # Reads as many rows as make a batch; returns whether the end of the file was reached.
        begin = self.end
        while len(self.rows) < _BATCH_ROWS and self.end - begin < _BATCH_BYTES:
            line = stream.readline(MAX_LINE_BYTES + 2)
            if not line:
                return True
            size = len(line)
            is_long = size > MAX_LINE_BYTES
            while is_long and not line.endswith(b"\n") and (line := stream.readline(1 << 16)):
                size += len(line)
            row = None if is_long else _parsed(line)
            if not line.endswith(b"\n") and row is None:
                # Its writer was killed in the middle of it, or is just writing it.
                self.is_unfinished = True
                return True
            if row is not None:
                self.rows.append((self.end, row))
            elif not line.isspace():
                self.damaged += 1
            self.end += size
        return False


def _parsed(line: bytes) -> _IndexedRow | None:
    try:
        return _IndexedRow.model_validate_json(line)
    except ValidationError:
        return None


def _place_of(row: TrajectoryRow | OpinionRow) -> tuple[int, bool, int, int, bool]:
    return (NO_STEP if row.step is None else row.step, row.held_out, row.index, row.rank, row.greedy)


def _attempt(each: tuple[int, _IndexedRow]) -> int:
    return each[1].attempt


def _unit(row: _IndexedRow) -> tuple[int, bool, int, int]:
    return (NO_STEP, row.held_out, row.index, row.rank) if row.step is None else (row.step, row.held_out, -1, -1)


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA cache_size = -16000")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _folder(cache_dir: Path) -> Path:
    # Where indexes are; without a usable cache they last as long as the temporary directory.
    for base in (cache_dir, Path(tempfile.gettempdir(), f"sandrl-{os.geteuid()}-columns")):
        with suppress(SandrlError):
            return private_directory(private_directory(base) / "columns")
    raise InputError(
        "no directory can be written for the index of a run",
        path=cache_dir,
        hint="set SANDRL_CACHE_DIR to a writable directory",
    )
