"""Arrays of JSON, tables of CSV and directories of shards."""

from __future__ import annotations

import csv
import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.jsonl import BadRow, Row
from sandrl.problems import load_problems
from sandrl.problems.tables import read_csv, read_file, read_json

ROW: dict[str, Any] = {"prompt": "Add one.", "tests": ["assert f(1) == 2"]}


def values(path: Path, text: str, read: Callable[[Path], Any] = read_file) -> list[dict[str, Any]]:
    path.write_text(text, encoding="utf-8")
    rows = list(read(path))
    assert [row.line for row in rows] == list(range(1, len(rows) + 1))
    assert all(isinstance(row, Row) for row in rows)
    return [row.value for row in rows]


@pytest.mark.parametrize("text", ['[{"a": 1}, {"b": "]["}]', '\ufeff \n[\n{"a": 1}\n,\n{"b": "]["}\n]\n'])
def test_an_array_has_a_row_for_each_entry(tmp_path: Path, text: str) -> None:
    assert values(tmp_path / "p.json", text) == [{"a": 1}, {"b": "]["}]


def test_a_json_file_of_lines_is_one_of_lines(tmp_path: Path) -> None:
    assert values(tmp_path / "p.json", '{"a": 1}\n{"a": 2}\n') == [{"a": 1}, {"a": 2}]
    assert values(tmp_path / "p.json", "[]") == []


def test_entries_of_every_size_are_found_wherever_the_pieces_that_are_read_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"n": n, "text": 'é"]},{[\\' * (n % 40)} for n in range(200)]
    for chunk in (1, 7, 64, 4096):
        monkeypatch.setattr("sandrl.problems.tables._CHUNK_CHARACTERS", chunk)
        for indent in (None, 2):
            assert values(tmp_path / "p.json", json.dumps(rows, indent=indent)) == rows


@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_numbers_that_json_lacks_are_read_and_a_field_that_is_none_is_missing(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    tests = '{"fn_name": "f", "inputs": [[NaN]], "outputs": [Infinity]}'
    row = f'{{"problem_id": 1.0, "question": "?", "input_output": {tests}, "starter_code": NaN}}'
    path.write_text(f"[{row}]" if name == "p.json" else row)
    [problem] = load_problems(path).problems.values()
    assert (problem.task_id, problem.starter_code) == ("1", "")
    assert [(call.arguments, call.expected) for call in problem.calls] == [("[nan]", "1e999")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", ":1: broken JSON"),
        ('[{"a": 1}', ":1: broken JSON: the array is cut off"),
        ('[{"a": 1},', ":2: broken JSON: the array is cut off"),
        ('[{"a": 1}, {"a"', ":2: broken JSON"),
        ('[{"a": 1} {"a": 1}]', ":1: broken JSON: expecting `,` or `]` after it"),
        ('[{"a": 1, "a": 2}]', ":1: broken JSON: the key 'a' occurs more than once in one object"),
        ("[" * 100_000, ":1: broken JSON: nested too deeply"),
    ],
)
def test_a_broken_array_is_refused_at_the_entry(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        list(read_json(path))
    assert f"{path}{message}" in caught.value.message


def test_an_entry_that_is_no_object_is_a_bad_row_and_reading_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('[1, {"a": 1}, [2], "x"]')
    assert [isinstance(row, BadRow) for row in read_json(path)] == [True, False, True, True]


def test_a_large_array_is_read_an_entry_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with path.open("w") as file:
        file.write("[" + ",".join(json.dumps({"text": "x" * 100_000}) for _ in range(400)) + "]")
    tracemalloc.start()
    count = sum(1 for _ in read_json(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, peak < 16_000_000) == (400, True), peak


def test_a_table_has_json_and_python_s_own_spelling_in_its_cells(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task_id", "prompt", "tests", "timeout_seconds", "setup"])
        writer.writerow(["a", "Add,\none.", json.dumps(ROW["tests"]), "3", ""])
        writer.writerow(["b", "[see below]", repr(ROW["tests"]), "", "import math"])
    first, second = load_problems(path).problems.values()
    assert (first.prompt, first.tests, first.timeout_seconds) == ("Add,\none.", ("assert f(1) == 2",), 3.0)
    assert (second.prompt, second.tests, second.setup) == ("[see below]", first.tests, "import math")


def _raise_for_bad_rows(rows: Iterator[Row | BadRow]) -> None:
    for row in rows:
        if isinstance(row, BadRow):
            raise row.error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a,b\n1\n", ":1: field 'b': the row has 1 cell, and the first line has 2 names"),
        (b"a\n1,2\n", ":1: the row has 2 cells, and the first line has 1 name"),
        (b"a,a\n1,2\n", ": its first line names a field twice"),
        (b'a,b\n1,"2\n', ":1: is not valid CSV: unexpected end of data"),
        (b"a,b\n1,\xff\n", ":1: invalid UTF-8"),
    ],
)
def test_a_broken_table_is_refused_at_the_row(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        _raise_for_bad_rows(read_csv(path))
    assert caught.value.message == f"{path}{message}"


def test_the_shards_of_a_directory_are_one_set_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "train-1.jsonl.gz").write_bytes(gzip.compress(json.dumps(ROW).encode()))
    (tmp_path / "train-0.jsonl").write_text(json.dumps(ROW) + "\n" + json.dumps(ROW))
    (tmp_path / "test-0.jsonl").write_text(json.dumps({**ROW, "id": "held-out"}))
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "dataset_info.json").write_text("{}")
    names = ["held-out", "train-0/1", "train-0/2", "train-1/1"]
    assert list(load_problems(tmp_path).problems) == list(load_problems(str(tmp_path)).problems) == names
    assert list(load_problems(f"{tmp_path}:train").problems) == names[1:]
    with pytest.raises(InputError, match="has no file whose name begins with 'dev'"):
        load_problems(f"{tmp_path}:dev")


def test_errors_in_shards_name_the_shard(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({**ROW, "id": 1}))
    (tmp_path / "b.jsonl").write_text(json.dumps({**ROW, "id": 1}))
    with pytest.raises(InputError) as caught:
        load_problems(tmp_path)
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    assert caught.value.message == f"{b}:1: field 'id': '1' is already used in {a}:1; it must be unique"
    b.write_text(json.dumps({"id": 2, "prompt": "?"}))
    with pytest.raises(InputError, match=r"b\.jsonl:1: no known format"):
        load_problems(tmp_path)
    (tmp_path / "c.csv").write_text("a\n")
    with pytest.raises(InputError, match=r"has files of several kinds: \.csv, \.jsonl"):
        load_problems(tmp_path)
