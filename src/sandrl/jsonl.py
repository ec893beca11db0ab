"""Reads and writes JSON lines, in the same way everywhere.

A bad line is a value, not an exception: a reader yields it between the good lines, and the caller decides whether it
ends the work (input files), is counted (`--skip-bad-rows`) or is expected (the last line of a file whose writer was
killed). A line is never loaded beyond the limit.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import stat
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from sandrl import forks
from sandrl.closing import Closing
from sandrl.errors import InputError, ServiceError
from sandrl.files import open_regular

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line of an input file; a longer one is a bad row."""

MAX_COMPLETION_BYTES = 64 * 1024 * 1024
"""Longest row of a file of completions, which may hold many samples."""

MAX_PROBLEM_BYTES = 128 * 1024 * 1024
"""Longest line of a file of problems: a row of LiveCodeBench has tens of megabytes of tests."""

READ_FAILURES = (OSError, EOFError, zlib.error)
"""What reading a file raises that is damaged, compressed or not."""

STANDARD_INPUT = "-"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EXCERPT_CHARACTERS = 40
# Where the field of an error is looked for.
_FIELD_CHARACTERS = 20_000
_KEY = re.compile(r'"([^"\\]{1,100})"\s*:')


@dataclass(frozen=True, slots=True)
class Row:
    """One JSON object of a file.

    Attributes:
        line: Its line number, from 1; of an array or a table, the number of its entry.
        path: The file, where what was read has several.
    """

    line: int
    value: dict[str, Any]
    path: str = ""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that is no JSON object.

    Attributes:
        is_unfinished: It is the last line and has no line break: its writer was cut off, or is still writing.
    """

    line: int
    error: InputError
    is_unfinished: bool = False


def read_rows(
    source: str | Path,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    is_stored: bool = False,
    is_foreign: bool = False,
) -> Iterator[Row | BadRow]:
    """Reads a `.jsonl` or `.jsonl.gz` file, or standard input (`-`), line by line; blank lines are left out.

    A stored file is one of a run directory, which must be a regular one; a user's may be a pipe. A foreign one was
    written by another program, which may write NaN for a number.

    Yields:
        Every line, as the object it holds or as what is wrong with it.

    Raises:
        InputError: If the file cannot be read at all.
    """
    with opened(source, is_stored=is_stored) as stream:
        yield from rows_of(stream, source, max_line_bytes=max_line_bytes, is_foreign=is_foreign)


def rows_of(
    stream: IO[bytes], source: str | Path, *, max_line_bytes: int = MAX_LINE_BYTES, is_foreign: bool = False
) -> Iterator[Row | BadRow]:
    """Reads JSON lines from an open file, as `read_rows` does; errors name its source.

    Yields:
        Every line, as the object it holds or as what is wrong with it.

    Raises:
        InputError: If the file cannot be read.
    """
    name = str(source)
    number = 0
    while True:
        number += 1
        try:
            data = stream.readline(max_line_bytes + 2)
        except READ_FAILURES as error:
            raise InputError(read_failure(error), path=name, line=number) from error
        if not data:
            return
        is_long = len(data.rstrip(b"\r\n")) > max_line_bytes
        if is_long and b"\0" in data:
            raise InputError("is a binary file, not lines of JSON", path=name, line=number)
        if is_long and not data.endswith(b"\n"):
            data = _skip_line(stream)
        is_unfinished = data[-1:] != b"\n"
        text = data.strip()
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        if is_long:
            message = f"the line is longer than {max_line_bytes // (1024 * 1024)} MiB ({max_line_bytes} bytes)"
            yield BadRow(number, InputError(message, path=name, line=number), is_unfinished=is_unfinished)
        elif text:
            # The line may be most of the memory there is; its object takes as much again.
            del data
            try:
                row = Row(number, parse_object(text, is_foreign=is_foreign))
            except ValueError as error:
                place = InputError(str(error), path=name, line=number)
                yield BadRow(number, place, is_unfinished=is_unfinished)
            else:
                del text
                yield row
                del row
        if is_unfinished:
            return  # the end; what a writer appends from now on belongs to this line


def parse_object(text: bytes, *, is_foreign: bool = False) -> dict[str, Any]:
    """Parses one line; a foreign one was written by another program (see `object_decoder`).

    Raises:
        ValueError: If it is no JSON object in UTF-8; the message says why in a few words.
    """
    try:
        value = object_decoder(is_foreign=is_foreign).decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"invalid UTF-8 at byte {error.start + 1} of the line") from error
    except json.JSONDecodeError as error:
        raise ValueError(
            f"broken JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}{last_field(error)}"
            f" ({_excerpt(text)})"
        ) from error
    except RecursionError as error:
        raise ValueError("broken JSON: nested too deeply") from error
    except ValueError as error:
        # Ours, or: Python refuses to convert integers of more than some thousand digits.
        raise ValueError(f"broken JSON: {str(error).partition(';')[0]}") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {type_name(value)} ({_excerpt(text)})")
    return value


def object_decoder(*, is_foreign: bool = False) -> json.JSONDecoder:
    """A decoder that refuses keys given twice, and constants that are no JSON.

    What is foreign was written by another program, which may write NaN in a field that nobody reads: it is accepted.
    """
    if is_foreign:
        return json.JSONDecoder(object_pairs_hook=_unique)
    return json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique)


def last_field(error: json.JSONDecodeError) -> str:
    """The field in which JSON is broken, as a part of a message; nothing if there is none before the place."""
    before = error.doc[max(error.pos - _FIELD_CHARACTERS, 0) : error.pos]
    name = None
    for name in _KEY.finditer(before):  # noqa: B007
        pass
    return "" if name is None else f", in field {name[1]!r}"


def type_name(value: object) -> str:
    """Names the JSON type of a value, with its article, as messages use it."""
    names = {
        dict: "an object", list: "an array", str: "a string", bool: "a boolean", int: "an integer", float: "a number",
        type(None): "null",
    }  # fmt: skip
    return names.get(type(value), type(value).__name__)


class RowAppender(Closing):
    """Appends rows to a file, each whole and handed to the kernel before the call returns.

    What was appended survives the death of the process, `kill -9` included. It is not forced to the disk: a sandbox's
    ledger line would then cost more than its sandbox, and a host that loses power is found by tags instead. Threads may
    share one appender; processes may share a file, because every row is one `O_APPEND` write. A new file is for its
    user alone; a last line that a killed writer left unfinished is ended first.

    Raises:
        ServiceError: If the file cannot be opened or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _ends_unfinished(self._descriptor):
                os.write(self._descriptor, b"\n")
        except OSError as error:
            raise _write_failure(self.path, error) from error
        forks.watch(self)

    def after_fork(self) -> None:
        """Replaces the lock; every row is one write, so parent and child may both append."""
        self._lock = threading.Lock()

    def append(self, row: bytes) -> None:
        """Appends one row: JSON in UTF-8 without a line break.

        Raises:
            ServiceError: If the row could not be written, for example because the disk is full.
        """
        data = memoryview(row + b"\n")
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                raise _write_failure(self.path, error) from error

    def close(self) -> None:
        """Closes the file; closing twice is fine."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


@contextmanager
def opened(name: str | Path, *, is_stored: bool = False) -> Iterator[IO[bytes]]:
    """Opens a file, compressed if its name says so, or standard input.

    Raises:
        InputError: If it cannot be opened.
    """
    name = str(name)
    if name == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        file = os.fdopen(open_regular(name), "rb") if is_stored else Path(name).open("rb")  # noqa: SIM115
        if stat.S_ISCHR(os.fstat(file.fileno()).st_mode) and not file.isatty():
            file.close()
            raise InputError("is a device, not a file", path=name)
        stream = cast("IO[bytes]", gzip.open(file) if name.endswith(".gz") else file)  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise InputError(_open_failure(error), path=name) from error
    with file, stream:
        yield stream


@contextmanager
def as_text(stream: IO[bytes]) -> Iterator[IO[str]]:
    """An open file as text in UTF-8, with or without a byte order mark; who opened it closes it."""
    text = io.TextIOWrapper(cast("io.BufferedReader", stream), "utf-8-sig", newline="")
    try:
        yield text
    finally:
        text.detach()


def _write_failure(path: Path, error: OSError) -> ServiceError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "free disk space, or write to another place" if is_full else None
    return ServiceError(f"{path}: cannot be written: {error.strerror}", hint=hint)


def _open_failure(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "no such file"
        case IsADirectoryError():
            return "is a directory, not a file"
        case OSError():
            return f"cannot be read: {error.strerror or error}"
    return f"cannot be read: {error}"


def read_failure(error: Exception) -> str:
    """Says why a file that is open cannot be read: one of `READ_FAILURES`."""
    if isinstance(error, gzip.BadGzipFile):
        return "is not a gzip file, although its name ends in .gz"
    if isinstance(error, EOFError | zlib.error):
        return "the compressed file is cut off or damaged"
    return _open_failure(error) if isinstance(error, OSError) else str(error)


def _skip_line(stream: IO[bytes]) -> bytes:
    # Reads past the rest of a line in small pieces; returns its last byte.
    last = b""
    while piece := stream.readline(64 * 1024):
        last = piece[-1:]
        if last == b"\n":
            break
    return last


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # An object whose keys all differ; which of two values was meant, nobody knows.
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!r} occurs more than once in one object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _excerpt(text: bytes) -> str:
    shown = text[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace")
    return repr(shown if len(shown) <= _EXCERPT_CHARACTERS else shown[:_EXCERPT_CHARACTERS] + "…")


def _ends_unfinished(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
