"""Rows from arrays of JSON, tables of CSV and directories of shards, one row in memory at a time.

No file is read whole, so that a large set needs only the memory of its largest row. A cell of CSV is text; a cell that
holds an array or an object as JSON (or as Python writes it, as pandas does) becomes that array or object.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from sandrl.errors import InputError
from sandrl.jsonl import (
    MAX_PROBLEM_BYTES,
    READ_FAILURES,
    BadRow,
    Row,
    as_text,
    last_field,
    object_decoder,
    opened,
    read_failure,
    read_rows,
    type_name,
)
from sandrl.problems.formats.texts import python_value
from sandrl.problems.hub import read_parquet

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".csv", ".parquet")
"""The endings of names of files of problems."""

_NO_TASKS = "a directory of tasks has them up to four levels below, each with `task.toml` or `task.yaml`"
# What `datasets` writes beside its shards.
_NO_SHARDS = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})


def read_file(path: Path) -> Iterator[Row | BadRow]:
    """Reads a file of problems in the way that its name says; another name is that of JSON lines."""
    readers: dict[str, Callable[[Path], Iterator[Row | BadRow]]] = {
        ".json": read_json, ".csv": read_csv, ".parquet": read_parquet,
    }  # fmt: skip
    read = readers.get(path.suffix.lower(), _read_lines)
    return read(path)


def read_directory(path: Path, split: str | None = None) -> Iterator[Row | BadRow]:
    """Reads the shards of a directory, in the order of their names; each row has its shard."""
    try:
        files = sorted(file for file in path.iterdir() if file.is_file() and is_file_name(file.name))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    files = [file for file in files if file.name not in _NO_SHARDS and not file.name.startswith(".")]
    chosen = [file for file in files if split is None or file.name.startswith(split)]
    if not chosen:
        which = "" if split is None else f" whose name begins with {split!r}"
        message = f"the directory has no file{which} that ends in {', '.join(SUFFIXES)}"
        raise InputError(message, path=path, hint=_NO_TASKS)
    kinds = sorted({file.suffix.lower().replace(".gz", ".jsonl") for file in chosen})
    if len(kinds) > 1:
        hint = "name one of its files, or move the others to another directory"
        raise InputError(f"the directory has files of several kinds: {', '.join(kinds)}", path=path, hint=hint)
    for file in chosen:
        for row in read_file(file):
            yield replace(row, path=str(file)) if isinstance(row, Row) else row


def file_set(path: str | Path) -> str:
    """What the rows of a file are numbered in: its name up to the first dot."""
    name = Path(path).name
    return name.partition(".")[0] or name


def is_file_name(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _read_lines(path: Path) -> Iterator[Row | BadRow]:
    return read_rows(path, max_line_bytes=MAX_PROBLEM_BYTES, is_foreign=True)


def read_json(path: Path) -> Iterator[Row | BadRow]:
    """Reads an array of JSON objects, numbered from 1; a file that begins otherwise is one of JSON lines."""
    with opened(path) as stream:
        begin = stream.read(4096).removeprefix(codecs.BOM_UTF8).lstrip()
    if begin[:1] != b"[":
        yield from _read_lines(path)
        return
    with opened(path) as stream, as_text(stream) as text:
        for number, value in enumerate(JsonStream(text, path, is_foreign=True).entries(), 1):
            if isinstance(value, dict):
                yield Row(number, value)
            else:
                message = f"expected a JSON object, found {type_name(value)}"
                yield BadRow(number, InputError(message, path=path, line=number))


def read_csv(path: Path) -> Iterator[Row | BadRow]:
    """Reads a table of CSV whose first line names the fields; its rows are numbered from 1."""
    with opened(path) as stream:
        for row in csv_rows(stream, path):
            yield replace(row, value=_values(row.value)) if isinstance(row, Row) else row


def csv_rows(stream: IO[bytes], path: str | Path) -> Iterator[Row | BadRow]:
    """Reads the rows of a table from an open file: cells that are not empty, as texts."""
    # A limit of the whole process, and a small one: the smallest that serves stays.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_PROBLEM_BYTES))
    with as_text(stream) as text:
        lines = csv.reader(text, strict=True)
        number = 0
        try:
            names = next(lines, [])
            if len(set(names)) < len(names):
                raise InputError("its first line names a field twice", path=path)
            for cells in lines:
                if not cells:
                    continue
                number += 1
                if len(cells) != len(names):
                    row = f"{len(cells)} cell" + ("" if len(cells) == 1 else "s")
                    head = f"{len(names)} name" + ("" if len(names) == 1 else "s")
                    message = f"the row has {row}, and the first line has {head}"
                    field = names[len(cells)] if len(cells) < len(names) else None
                    yield BadRow(number, InputError(message, path=path, line=number, field=field))
                else:
                    yield Row(number, {name: cell for name, cell in zip(names, cells, strict=True) if cell})
        except UnicodeDecodeError as error:
            raise InputError("invalid UTF-8", path=path, line=number + 1) from error
        except csv.Error as error:
            raise InputError(f"is not valid CSV: {error}", path=path, line=number + 1) from error
        except READ_FAILURES as error:
            raise InputError(read_failure(error), path=path, line=number + 1) from error


def _values(cells: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {name: _cell(cell) for name, cell in cells.items()}
    for name in row.keys() & {"timeout_seconds", "check_timeout_seconds"}:
        with contextlib.suppress(ValueError, TypeError):
            row[name] = float(row[name])
    return row


def _cell(text: str) -> Any:
    if text[:1] not in ("[", "{") or text[-1:] not in ("]", "}"):
        return text
    value: Any = None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = python_value(text)
    return value if isinstance(value, list | dict) else text


_CHUNK_CHARACTERS = 1 << 20
_BLANKS = re.compile(r"\s*")
# The longest token that the end of a piece can cut without the decoder saying so: an escaped surrogate pair.
_TOKEN_CHARACTERS = 16


class JsonStream:
    """A document of JSON that is read value by value, once; no value may have more than `most` characters.

    A value is decoded when its last character has been read, so memory holds one value and not the document. The
    standard decoder decodes it; more text is read as long as the value is not complete.
    """

    def __init__(
        self, stream: IO[str], path: str | Path, *, most: int = MAX_PROBLEM_BYTES, is_foreign: bool = False
    ) -> None:
        self._stream = stream
        self._path = path
        self._most = most
        self._decoder = object_decoder(is_foreign=is_foreign)
        self._buffer, self._position = "", 0
        self.number = 1
        """The entry that is being read, for messages."""

    def entries(self) -> Iterator[Any]:
        """The entries of the array that comes next, each counted."""
        self.take("[")
        while self.next_character() != "]":
            value = self.value("the array is cut off")
            yield value
            del value
            if (character := self.next_character()) not in ",]":
                raise self._broken("expecting `,` or `]` after it")
            self.number += 1
            if character == ",":
                self.take(",")
        self.take("]")

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; the caller reads the value of each before it goes on."""
        self.take("{")
        while self.next_character("the object is cut off") != "}":
            key = self.value("the object is cut off")
            if not isinstance(key, str) or self.next_character("the object is cut off") != ":":
                raise self._broken("expecting a name and `:`")
            self.take(":")
            yield key
            if (character := self.next_character("the object is cut off")) not in ",}":
                raise self._broken(f"expecting `,` or `}}` after the value, in field {key!r:.100}")
            if character == ",":
                self.take(",")
        self.take("}")

    def next_character(self, cut: str = "the array is cut off") -> str:
        """The first character that is no blank; it stays."""
        while (position := _BLANKS.match(self._buffer, self._position).end()) == len(self._buffer):  # type: ignore[union-attr]
            self._buffer, self._position = self._read(_CHUNK_CHARACTERS), 0
            if not self._buffer:
                raise self._broken(cut)
        self._position = position
        return self._buffer[position]

    def take(self, character: str) -> None:
        """Passes over a character that comes next."""
        if self.next_character() != character:
            raise self._broken(f"expecting `{character}`")
        self._position += 1

    def refuse_more(self) -> None:
        """Refuses what stands after the document."""
        while _BLANKS.match(self._buffer, self._position).end() == len(self._buffer):  # type: ignore[union-attr]
            self._buffer, self._position = self._read(_CHUNK_CHARACTERS), 0
            if not self._buffer:
                return
        raise self._broken("there is more after the end of the document")

    def value(self, cut: str = "the array is cut off") -> Any:
        """Decodes the value that comes next."""
        self.next_character(cut)
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._position)
                # A number at the end of what was read may go on.
                reason = "" if end < len(self._buffer) else cut
            except json.JSONDecodeError as error:
                reason = f"{error.msg.removesuffix(' at')}{last_field(error)}"
                is_string = error.msg.startswith("Unterminated string")
                if not is_string and error.pos < len(self._buffer) - _TOKEN_CHARACTERS:
                    # More text does not change this.
                    raise self._broken(reason) from error
            except RecursionError as error:
                raise self._broken("nested too deeply") from error
            except ValueError as error:
                raise self._broken(str(error).partition(";")[0]) from error
            if not reason:
                self._position = end
                return value
            self._buffer, self._position = self._buffer[self._position :], 0
            if len(self._buffer) > self._most:
                raise self._broken(f"{reason}, or it is longer than {self._most >> 20} MiB")
            # As much again, so that a large value is not decoded from its beginning for each piece.
            if not (more := self._read(max(len(self._buffer), _CHUNK_CHARACTERS))):
                raise self._broken(reason if reason == cut else f"{reason}; the text is cut off")
            self._buffer += more
            del more

    def _read(self, characters: int) -> str:
        try:
            return self._stream.read(characters)
        except UnicodeDecodeError as error:
            raise InputError("invalid UTF-8", path=self._path, line=self.number) from error
        except READ_FAILURES as error:
            raise InputError(read_failure(error), path=self._path, line=self.number) from error

    def _broken(self, reason: str) -> InputError:
        return InputError(f"broken JSON: {reason}", path=self._path, line=self.number)
