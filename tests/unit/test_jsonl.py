from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandrl.errors import InputError, ServiceError
from sandrl.jsonl import MAX_LINE_BYTES, BadRow, Row, RowAppender, read_rows

JSON_OBJECTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20), st.lists),
    max_size=4,
)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _repeated(times: int, call: Callable[[bytes], object], argument: bytes) -> None:
    for _ in range(times):
        call(argument)


def values(path: Path, **limits: Any) -> list[dict[str, Any]]:
    return [row.value for row in read_rows(path, **limits) if isinstance(row, Row)]


def only_error(path: Path) -> str:
    [row] = read_rows(path)
    assert isinstance(row, BadRow)
    return str(row.error)


def test_rows_carry_their_line_number_and_blank_lines_count(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", b'{"a": 1}\r\n\n  \n{"a": 2}')
    assert list(read_rows(path)) == [Row(1, {"a": 1}), Row(4, {"a": 2})]


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    assert values(written(tmp_path / "x.jsonl", b'\xef\xbb\xbf{"a": 1}\n')) == [{"a": 1}]


def test_a_bad_line_does_not_end_the_reading(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", b'{"a": 1}\n{"a": \n{"a": 3}\n')
    first, second, third = read_rows(path)
    assert isinstance(second, BadRow)
    assert str(second.error).startswith(f"{path}:2: broken JSON")
    assert not second.is_unfinished
    assert (first, third) == (Row(1, {"a": 1}), Row(3, {"a": 3}))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": 1', "broken JSON: Expecting ',' delimiter at character 8"),
        (b'{"a": "\xff"}', "invalid UTF-8 at byte 8"),
        (b"[1, 2]", "expected a JSON object, found an array"),
        (b"null", "expected a JSON object, found null"),
        (b'{"a": NaN}', "broken JSON: NaN is not a JSON number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "broken JSON: Exceeds the limit (4300 digits)"),
    ],
)
def test_a_line_that_is_no_object_says_why(tmp_path: Path, content: bytes, reason: str) -> None:
    message = only_error(written(tmp_path / "x.jsonl", content))
    assert reason in message
    assert "\n" not in message
    assert len(message) < 300


def test_a_line_beyond_the_limit_is_named_and_the_next_one_still_read(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", b'{"a": "' + b"x" * 10_000_000 + b'"}\n{"a": 2}\n')
    long, short = read_rows(path)
    assert isinstance(long, BadRow)
    assert str(long.error) == f"{path}:1: the line is longer than 8 MiB ({MAX_LINE_BYTES} bytes)"
    assert short == Row(2, {"a": 2})


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize(("excess", "readable"), [(0, 1), (1, 0)])
def test_the_limit_does_not_count_the_line_break(tmp_path: Path, ending: bytes, excess: int, readable: int) -> None:
    row = b'{"a": "' + b"x" * (100 - 9 + excess) + b'"}'
    path = written(tmp_path / "x.jsonl", row + ending + (b'{"b": 1}' if ending else b""))
    assert len(values(path, max_line_bytes=100)) == readable + bool(ending)


def test_a_compressed_file_reads_like_any_other(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl.gz", gzip.compress(b'{"a": 1}\n'))
    assert values(path) == [{"a": 1}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"plain text\n", "is not a gzip file, although its name ends in .gz"),
        (gzip.compress(b'{"a": 1}\n' * 1000)[:-9], "cut off or damaged"),
    ],
    # The second has the time in it, and tests must have the same names in every process.
    ids=["plain text", "cut off"],
)
def test_a_damaged_compressed_file_is_an_input_error(tmp_path: Path, content: bytes, reason: str) -> None:
    path = written(tmp_path / "x.jsonl.gz", content)
    with pytest.raises(InputError, match=reason):
        list(read_rows(path))


def test_a_missing_file_and_a_directory_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_rows(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match="is a directory"):
        list(read_rows(tmp_path))


@given(rows=st.lists(JSON_OBJECTS, min_size=1, max_size=3), data=st.data())
@settings(max_examples=30, deadline=None)
def test_cutting_a_file_anywhere_loses_at_most_its_last_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    content = b"".join(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for row in rows)
    cut = data.draw(st.integers(min_value=0, max_value=len(content)))
    path = written(tmp_path_factory.getbasetemp() / "cut.jsonl", content[:cut])
    whole = content[:cut].count(b"\n")
    read = list(read_rows(path))
    assert all(isinstance(row, Row) for row in read[:whole])
    assert len(read) in (whole, whole + 1)
    assert all(row.is_unfinished for row in read[whole:] if isinstance(row, BadRow))


def test_a_line_that_is_being_written_is_unfinished_and_the_rest_of_it_is_no_line(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", b'{"a": 1}\n{"a": "x')
    rows = read_rows(path)
    assert next(rows) == Row(1, {"a": 1})
    half = next(rows)
    assert isinstance(half, BadRow)
    assert half.is_unfinished
    with path.open("ab") as file:
        file.write(b'y"}\n')
    assert list(rows) == []
    assert [row.value for row in read_rows(path) if isinstance(row, Row)] == [{"a": 1}, {"a": "xy"}]


def test_appending_after_a_killed_writer_spoils_only_the_row_that_it_left_unfinished(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", b'{"a": 1}\n{"a": ')
    with RowAppender(path) as appender:
        appender.append(b'{"a": 3}')
    assert values(path) == [{"a": 1}, {"a": 3}]


def test_threads_can_share_an_appender(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with RowAppender(path) as appender:
        threads = [threading.Thread(target=_repeated, args=(200, appender.append, b'{"n": %d}' % n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(value["n"] for value in values(path)) == sorted(list(range(8)) * 200)


def test_a_full_disk_is_a_service_error_that_names_the_file() -> None:
    with RowAppender("/dev/full") as appender, pytest.raises(ServiceError, match=r"/dev/full: .*No space left"):
        appender.append(b"{}")
