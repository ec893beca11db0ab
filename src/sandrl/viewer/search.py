"""Searches the texts of a run's completions, which are in no index: the files are read, for a limited time.

The searched part is remembered, so that the same query continues where its time ended, and rows that were written
meanwhile are searched when they exist.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import IO, Any

from sandrl.files import open_regular
from sandrl.runs.columns import RunColumns
from sandrl.runs.reader import MAX_LINE_BYTES

BUDGET_SECONDS = 0.6
"""How long one answer may search."""

_BATCH = 2_000
_TEXTS = ("task_id", "id", "status", "detail", "completion", "code", "stdout", "stderr")
_CHECK_TEXTS = ("name", "detail", "got", "expected")


class TextSearch:
    """A search for words that all occur in the texts of a row, in upper or lower case.

    Attributes:
        found: The numbers of the rows that have them, in their order.
    """

    def __init__(self, text: str) -> None:
        self._words = text.lower().split()
        self._needles = [json.dumps(word, ensure_ascii=False)[1:-1] for word in self._words]
        self._mutex = threading.Lock()
        self._last = 0
        self.found = array("q")
        self.searched = 0
        self.is_complete = False

    def go_on(self, columns: RunColumns, database: sqlite3.Connection, where: str, values: list[object]) -> None:
        """Searches on in the rows that fulfil an SQL condition, for some time at most."""
        until = time.monotonic() + BUDGET_SECONDS
        with self._mutex, ExitStack() as stack:
            files = _Files(columns, database, stack)
            query = f"SELECT number, file, offset FROM rows WHERE number > ? AND {where} ORDER BY number LIMIT {_BATCH}"
            self.is_complete = False
            while True:
                batch = database.execute(query, (self._last, *values)).fetchall()
                for number, file, offset in batch:
                    if self._has(files.line(file, offset)):
                        self.found.append(number)
                if batch:
                    self._last = batch[-1][0]
                    self.searched += len(batch)
                if len(batch) < _BATCH:
                    self.is_complete = True
                    return
                if time.monotonic() >= until:
                    return

    def _has(self, line: bytes) -> bool:
        text = line.decode("utf-8", "replace").lower()
        # Few rows have the words anywhere in their line; only of these it is looked where.
        if not all(needle in text or (not needle.isascii() and "\\u" in text) for needle in self._needles):
            return False
        # A damaged row may have anything anywhere.
        with suppress(ValueError, RecursionError, TypeError, AttributeError):
            texts = "\n".join(_texts(json.loads(line))).lower()
            return all(word in texts for word in self._words)
        return False


class _Files:
    def __init__(self, columns: RunColumns, database: sqlite3.Connection, stack: ExitStack) -> None:
        self._names = dict(database.execute("SELECT number, name FROM files"))
        self._run = columns.run
        self._stack = stack
        self._streams: dict[int, IO[bytes] | None] = {}

    def line(self, file: int, offset: int) -> bytes:
        if file not in self._streams:
            self._streams[file] = None
            with suppress(OSError, KeyError):
                descriptor = open_regular(self._run / self._names[file])
                self._streams[file] = self._stack.enter_context(os.fdopen(descriptor, "rb", buffering=1 << 18))
        stream = self._streams[file]
        if stream is None:
            return b""
        try:
            stream.seek(offset)
            return stream.readline(MAX_LINE_BYTES)
        except OSError:
            return b""


def _texts(row: dict[str, Any]) -> Iterator[str]:
    yield from (text for name in _TEXTS if isinstance(text := row.get(name), str))
    yield from (text for text in row.get("failures") or () if isinstance(text, str))
    for check in row.get("checks") or ():
        yield from (text for name in _CHECK_TEXTS if isinstance(text := check.get(name), str))
    for message in (each for part in (row, *(row.get("branches") or ())) for each in part.get("messages") or ()):
        yield str(message.get("content") or "")
        yield from (f"{call.get('name')} {call.get('arguments')}" for call in message.get("tool_calls") or ())
