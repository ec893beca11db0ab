"""Reads the rows of completions from every kind of file that the tools of the field write, one row in memory at a time.

The content of a file decides how it is read, and not its name: a file is opened once, so that a pipe can be read as
well, and its first bytes are looked at. Only a table of CSV is recognised by its name.
"""

from __future__ import annotations

import codecs
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from sandrl.errors import InputError
from sandrl.jsonl import (
    MAX_COMPLETION_BYTES,
    READ_FAILURES,
    STANDARD_INPUT,
    BadRow,
    Row,
    as_text,
    opened,
    parse_object,
    read_failure,
    rows_of,
)
from sandrl.problems.completion_formats import COMPLETION_FORMATS
from sandrl.problems.completion_formats.harnesses import ENTRY
from sandrl.problems.hub import read_parquet
from sandrl.problems.tables import JsonStream, csv_rows, is_file_name
from sandrl.runs.reader import Damage, RunReader

_HEAD_BYTES = 1 << 16
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_GZIP, _ZIP, _PARQUET, _ZSTD = b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"\x28\xb5\x2f\xfd"
_PACKED = (_GZIP, _ZIP, _PARQUET, _ZSTD)
# Text has no null byte, and text in another encoding has one soon.
_TEXT_BYTES = 64
# Fields of a document whose entries are rows, where these are objects.
_TABLES = frozenset({"samples", "results", "rows", "data", "completions", "outputs", "predictions", "responses"})
_FIELDS = frozenset(name for each in COMPLETION_FORMATS for group in each.needs for name in group) | {
    *("version", "status", "eval", "model", "prompt", "metadata", "config", "date", "job_id"),
    *_TABLES,
}
"""Keys that are fields; an object with other keys has completions by the names of their problems."""
_ZIP_ZSTD = 93
_LOCAL_HEADER = struct.Struct("<26xHH")
_SAMPLE = re.compile(r"samples/.+\.json")
_DIGITS = re.compile(r"(\d+)")


def read_completion_rows(source: str | Path, names: Collection[str] | None = None) -> Generator[Row | BadRow]:
    """Reads the rows of a file or a directory, each with its file where what is read has several.

    Args:
        source: A file, `-` for standard input, the directory of a run, a directory with the samples of EvalPlus
            (`TASK/N.py`), or a directory of files.
        names: The names of all problems, by which an object with completions by name is recognised, if they are known.

    Raises:
        InputError: If it cannot be read.
        MissingExtraError: If it takes a library to read that is not installed.
    """
    path = Path(source)
    if str(source) != STANDARD_INPUT and path.is_dir():
        yield from _directory(path, names)
        return
    with opened(source) as stream:
        # A pipe and a compressed file have no second beginning: what was looked at stays to be read.
        file: io.BufferedReader = io.BufferedReader(cast("Any", stream), _HEAD_BYTES)
        try:
            yield from _rows(file, source, names)
        finally:
            file.detach()


def _rows(file: io.BufferedReader, source: str | Path, names: Collection[str] | None) -> Iterator[Row | BadRow]:
    try:
        head = file.peek(_HEAD_BYTES)
    except READ_FAILURES as error:
        raise InputError(read_failure(error), path=source, line=1) from error
    if head.startswith(_UTF_16):
        hint = "convert it: iconv -f UTF-16 -t UTF-8"
        raise InputError("is text in UTF-16, and must be UTF-8", path=source, hint=hint)
    if b"\0" in head[:_TEXT_BYTES] and not head.startswith(_PACKED):
        raise InputError("is a binary file, or text in another encoding than UTF-8", path=source, line=1)
    if head.startswith(_GZIP):
        raise InputError("is a gzip file; end its name with .gz", path=source)
    if head.startswith(_ZSTD):
        raise InputError("is compressed with Zstandard; decompress it first", path=source, hint="unzstd FILE")
    if head.startswith((_ZIP, _PARQUET)):
        if not Path(source).is_file():
            raise InputError("is a zip or parquet file, which cannot be read from a pipe", path=source)
        yield from _log_of_inspect(Path(source)) if head.startswith(_ZIP) else read_parquet(Path(source))
        return
    name = str(source).lower().removesuffix(".gz")
    if name.endswith((".csv", ".eval", ".parquet")):
        if not name.endswith(".csv"):
            raise InputError(f"is no {name.rpartition('.')[2]} file, although its name ends so", path=source)
        yield from csv_rows(file, source)
        return
    begin = head.removeprefix(codecs.BOM_UTF8).lstrip()
    is_array = begin[:1] == b"["
    if is_array or (begin[:1] == b"{" and _is_document(begin, names)):
        with as_text(file) as text:
            stream = JsonStream(text, source, most=MAX_COMPLETION_BYTES, is_foreign=True)
            yield from _array(stream) if is_array else _document(stream, names)
    else:
        yield from rows_of(file, source, max_line_bytes=MAX_COMPLETION_BYTES, is_foreign=True)


def _is_document(begin: bytes, names: Collection[str] | None) -> bool:
    line, newline, rest = begin.partition(b"\n")
    line = line.strip()
    try:
        value = parse_object(line, is_foreign=True)
    except ValueError:
        if newline:
            return line.endswith((b"{", b"[", b","))
        # The line goes on: a long row begins with another field.
        try:
            key = next(JsonStream(io.StringIO(line.decode("utf-8", "ignore")), "").members())
        except (InputError, StopIteration):
            return False
        return key == "version" or _is_name(key, names)
    if rest.strip() or not value or any(each.has_fields(value) for each in COMPLETION_FORMATS):
        return False
    tables = (value.get(name) for name in _TABLES)
    has_table = any(isinstance(each, list) and each and isinstance(each[0], dict) for each in tables)
    return has_table or _is_name(next(iter(value)), names)


def _is_name(key: str, names: Collection[str] | None) -> bool:
    return key not in _FIELDS if names is None else key in names


def _array(stream: JsonStream) -> Iterator[Row | BadRow]:
    for value in stream.entries():
        if isinstance(value, dict):
            yield Row(stream.number, value)
        else:
            yield Row(stream.number, {ENTRY: value})
    stream.refuse_more()


def _document(stream: JsonStream, names: Collection[str] | None) -> Iterator[Row | BadRow]:
    value: dict[str, Any] = {}
    is_by_name = has_rows = False
    for number, key in enumerate(stream.members()):
        is_by_name = is_by_name if number else _is_name(key, names)
        if is_by_name:
            stream.number = number + 1
            found = stream.value("the object is cut off")
            row = found if isinstance(found, dict) else {"completion": found}
            yield Row(number + 1, {**row, "task_id": key})
        elif key in _TABLES and stream.next_character() == "[":
            others = []
            stream.number = 1
            for each in stream.entries():
                if isinstance(each, dict) and "task_id" not in value:
                    has_rows = True
                    yield Row(stream.number, each)
                else:
                    others.append(each)
            value[key] = others
        else:
            value[key] = stream.value("the object is cut off")
    stream.refuse_more()
    if not has_rows and not is_by_name:
        yield Row(1, value)


def _log_of_inspect(path: Path) -> Iterator[Row | BadRow]:
    try:
        with zipfile.ZipFile(path) as file:
            members = [info for info in file.infolist() if _SAMPLE.fullmatch(info.filename)]
            if not members:
                raise InputError("is a zip file without samples/*.json: no log of inspect", path=path)
            # A sample that was tried again is there twice; the later one counts.
            latest = {info.filename: info for info in members}
            for name in sorted(latest, key=_natural):
                place = f"{path}:{name}"
                try:
                    yield Row(1, parse_object(_content(file, latest[name], place), is_foreign=True), place)
                except ValueError as error:
                    yield BadRow(1, InputError(str(error), path=place, line=1))
                except InputError as error:
                    yield BadRow(1, error)
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"is a damaged zip file: {error}", path=path) from error


def _content(file: zipfile.ZipFile, info: zipfile.ZipInfo, place: str) -> bytes:
    if info.file_size > MAX_COMPLETION_BYTES:
        raise InputError(f"is larger than {MAX_COMPLETION_BYTES >> 20} MiB", path=place)
    try:
        if info.compress_type != _ZIP_ZSTD or hasattr(zipfile, "ZIP_ZSTANDARD"):
            return file.read(info)
        # Since 2026, inspect compresses by Zstandard, which the `zipfile` of Python before 3.14 does not know.
        import zstandard

        with Path(cast("str", file.filename)).open("rb") as raw:
            raw.seek(info.header_offset)
            raw.seek(sum(_LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))), io.SEEK_CUR)
            packed = io.BytesIO(raw.read(info.compress_size))
        try:
            with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
                content: bytes = reader.read(info.file_size + 1)
        except zstandard.ZstdError as error:
            raise InputError(f"is damaged: {error}", path=place) from error
        if zlib.crc32(content) != info.CRC:
            raise InputError("is damaged: its checksum is wrong", path=place)
        return content
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
        struct.error,
    ) as error:
        raise InputError(f"is damaged: {error}", path=place) from error


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() and len(part) < 19 else (-1, part) for part in _DIGITS.split(name)]


def _directory(path: Path, names: Collection[str] | None) -> Iterator[Row | BadRow]:
    if (path / "config.json").is_file() and (any(path.glob("trajectories*.jsonl")) or any(path.glob("answers*.jsonl"))):
        yield from _run(path)
        return
    try:
        entries = sorted(
            (each for each in path.iterdir() if each.name[:1] != "."), key=lambda each: _natural(each.name)
        )
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    samples = [file for folder in entries if folder.is_dir() for file in _samples_in(folder)]
    if samples:
        yield from _samples_of_evalplus(samples)
        return
    files = [each for each in entries if each.is_file() and is_completion_file(each.name)]
    if not files:
        hint = "a directory is a run, has samples of EvalPlus (TASK/N.py), or files of completions"
        raise InputError("the directory has no completions", path=path, hint=hint)
    for file in files:
        for row in read_completion_rows(file, names):
            yield replace(row, path=row.path or str(file)) if isinstance(row, Row) else row


def is_completion_file(name: str) -> bool:
    return is_file_name(name.lower().removesuffix(".gz")) or name.lower().endswith(".eval")


# The completions of a run; of an evaluation all answers, also those that were not scored.
def _run(path: Path) -> Iterator[Row | BadRow]:
    reader, damage = RunReader(path), Damage()
    is_evaluation = any(path.glob("answers*.jsonl"))
    rows: Iterator[Any] = iter(reader.answers().rows) if is_evaluation else reader.each_trajectory(damage)
    for number, row in enumerate(rows, 1):
        value = row.model_dump()
        if value.get("states") and (value.get("messages") or value.get("completion") is value.get("code") is None):
            # The answer of an episode on a task is what it left in the machine.
            value = {"task_id": value["task_id"], "states": [_state_file(path, digest) for digest in value["states"]]}
        yield Row(number, value)
    for error in damage.damaged:
        yield BadRow(error.line or 0, error)


# The name of a state over another one says of which; one that is not there any more is named all the same.
def _state_file(run: Path, digest: str) -> str:
    return str(min((run / "states").glob(f"{digest}.*tar.gz"), default=run / "states" / f"{digest}.tar.gz"))


def _samples_in(folder: Path) -> list[Path]:
    try:
        files = [each for each in folder.iterdir() if each.suffix == ".py" and each.stem.isdecimal()]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=folder) from error
    return sorted(files, key=lambda each: _natural(each.name))


# The samples of a directory `TASK/N.py`, in which the `/` of a name is `_`.
def _samples_of_evalplus(files: list[Path]) -> Iterator[Row | BadRow]:
    for file in files:
        try:
            with opened(file) as stream:
                content = stream.read(MAX_COMPLETION_BYTES + 1)
            if len(content) > MAX_COMPLETION_BYTES:
                raise InputError(f"is larger than {MAX_COMPLETION_BYTES >> 20} MiB", path=file)
            yield Row(1, {"task_id": file.parent.name, "solution": content.decode("utf-8-sig")}, str(file))
        except UnicodeDecodeError as error:
            yield BadRow(1, InputError(f"invalid UTF-8 at byte {error.start + 1}", path=file, line=1))
        except InputError as error:
            yield BadRow(1, error)
