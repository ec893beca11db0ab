"""Rows from arrays of JSON, tables of CSV and directories of shards, one row in memory at a time.

No file is read whole, so that a large set needs only the memory of its largest row. A cell of CSV is text; a cell that
holds an array or an object as JSON (or as Python writes it, as pandas does) becomes that array or object.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import json
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
    opened,
    read_failure,
    read_rows,
    type_name,
)
from sandrl.problems.formats.texts import python_value
from sandrl.problems.hub import read_parquet
from sandrl.problems.json_stream import JsonStream

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".csv", ".parquet")
"""The endings of names of files of problems."""

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
        raise InputError(f"the directory has no file{which} that ends in {', '.join(SUFFIXES)}", path=path)
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
