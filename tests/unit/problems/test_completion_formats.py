from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.support.completion_shapes import BAD, CODES, RIGHT, SHAPES, TASK, WRONG, told, write, write_directory

from sandrl.errors import InputError, SandrlError, UsageError
from sandrl.problems import Completion, load_completions
from sandrl.problems.completions import named_tasks

ONE = {TASK: None}


def texts(path: Path, **options: Any) -> list[str]:
    loaded = load_completions(path, **{"task_ids": ONE, **options})
    assert [each.task_id for each in loaded.completions] == [TASK] * len(loaded.completions)
    return [each.code or each.completion or "" for each in loaded.completions]


def error_of(path: Path | str, **options: Any) -> str:
    with pytest.raises(SandrlError) as caught:
        load_completions(path, **{"task_ids": ONE, **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_read_and_its_samples_are_numbered(tmp_path: Path, shape: str) -> None:
    path = write(tmp_path, shape)
    found = load_completions(path, task_ids=ONE).completions
    assert [each.id for each in found] == [f"{TASK}#1", f"{TASK}#2"]
    assert [each in (code, told(code)) for each, code in zip(texts(path), CODES, strict=True)] == [True, True]
    # What only selects problems must not lose one.
    assert TASK in (named_tasks(str(path)) or ONE)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_wrong_value_is_named_by_line_and_field(tmp_path: Path, shape: str) -> None:
    path = write(tmp_path, shape, (RIGHT, BAD))
    field = SHAPES[shape][2]
    error = error_of(path)
    assert error.startswith(str(path))
    assert f"field {field!r}: " in error
    assert any(f":{number}: " in error for number in (1, 2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.35, 0.8, 0.97])
def test_a_truncated_file_is_refused_in_one_line_with_the_place(tmp_path: Path, shape: str, share: float) -> None:
    path = write(tmp_path, shape)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    error = error_of(path)
    assert error.startswith(f"{path}:")
    if content.startswith((b"\x1f\x8b", b"PK")):
        assert "damaged" in error
        return
    # The line, or the number of the entry, and the field in which the text ends.
    assert ":1: " in error or ":2: " in error
    assert shape == "csv" or ("broken JSON" in error and ("field" in error or "cut off" in error))


def test_a_directory_of_evalplus_is_read(tmp_path: Path) -> None:
    assert texts(write_directory(tmp_path)) == list(CODES)
    [folder] = (tmp_path / "humaneval" / "model_temp_0.0").iterdir()
    (folder / "10.py").write_bytes(b"\xff")
    assert error_of(folder.parent) == f"{folder / '10.py'}:1: invalid UTF-8 at byte 1"
    assert error_of(folder).endswith("the directory has no completions")


def test_a_directory_of_files_is_read_in_order(tmp_path: Path) -> None:
    for number, code in ((2, WRONG), (10, RIGHT), (1, RIGHT)):
        row = {"task_id": TASK, "code": code}
        (tmp_path / f"samples_{number}.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert texts(tmp_path) == [RIGHT, WRONG, RIGHT]
    (tmp_path / "samples_2.jsonl").write_text("{", encoding="utf-8")
    assert error_of(tmp_path).startswith(f"{tmp_path / 'samples_2.jsonl'}:1: broken JSON")


@pytest.mark.skipif(find_spec("datasets") is None, reason="`datasets` is not installed")
def test_a_parquet_file_is_read(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    rows = [{"task_id": TASK, "completion": [{"role": "assistant", "content": told(code)}]} for code in CODES]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert texts(path) == [told(code) for code in CODES]
    path.write_bytes(path.read_bytes()[:-20])
    assert "cannot be read as parquet" in error_of(path)


def test_shapes_may_be_mixed_in_one_file(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"task_id": TASK, "code": RIGHT},
        {"question_id": TASK, "responses": [WRONG, RIGHT]},
        {"custom_id": TASK, "error": {"code": "rate_limit"}, "response": None},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = load_completions(path, task_ids=ONE)
    assert [each.code or each.completion for each in found.completions] == [RIGHT, WRONG, RIGHT, None]
    assert found.completions[-1].loss == 'the request failed: {"code": "rate_limit"}'
    assert dict(found.formats) == {"sandrl's own": 1, "a row of samples": 1, "OpenAI's batch output": 1}


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"completion": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]}, "a"),
        ({"completion": '[{"role": "assistant", "content": "a"}]'}, "a"),
        ({"messages": [{"role": "user", "content": "q"}, {"role": "Assistant", "content": None}]}, ""),
        ({"messages": [{"role": "assistant", "content": [{"type": "thinking", "text": "x"}, {"text": "a"}]}]}, "a"),
        ({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}, "a"),
        ({"messages": [{"role": "user", "content": "q"}], "response": "a"}, "a"),
        ({"outputs": [{"text": "a", "token_ids": [1]}]}, "a"),
        ({"completion": "a", "output": "the expected output", "result": "passed"}, "a"),
        ({"response": "a", "answer": "42"}, "a"),
        ({"answer": "a"}, "a"),
        ({"response": {"choices": [{"message": {"content": "a", "role": "assistant"}}]}}, "a"),
        ({"completion": "[1, 2]"}, "[1, 2]"),
        ({"generations": '["a"]'}, "a"),
    ],
)
def test_the_answer_of_a_row_is_its_last_message_or_the_field_that_names_it(
    tmp_path: Path, value: dict[str, Any], answer: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"task_id": TASK, **value}), encoding="utf-8")
    assert texts(path) == [answer]


@pytest.mark.parametrize(
    ("row", "message", "hint"),
    [
        (
            {"task_id": TASK, "reply": "x"},
            "field 'completion': no known format of completions has the fields `task_id`, `reply`; the nearest is"
            " sandrl's own, which also needs `completion` or `code`",
            "name the fields with `completion_fields`",
        ),
        ({"completion": "x"}, "field 'task_id': no known format", f"the problems are named '{TASK}'; name the fields"),
        ({"doc_id": 0, "doc": {}}, "the nearest is lm-eval, which also needs `resps` or `filtered_resps`", ""),
        ({"custom_id": TASK, "reply": ""}, "the nearest is OpenAI's batch output, which also needs `response` or", ""),
        ({"id": TASK, "epoch": 1}, "the nearest is inspect, which also needs `output` or `error`", ""),
        ({}, "the row has no fields", ""),
        ({"task_id": TASK, "response": "x", "output": "y"}, "field 'output': the row has `output` and `response`", ""),
        ({"task_id": TASK, "messages": [{"role": "user", "content": "q"}]}, "has no message of the role", ""),
        ({"task_id": TASK, "response": {"score": 1}}, "field 'response': is an object without a text", ""),
        ({"task_id": "Add/1", "response": ""}, "field 'task_id': there is no problem 'Add/1'", ""),
        ({"id": "Add/1", "response": ""}, "field 'id': there is no problem 'Add/1'", ""),
        ({"task_id": TASK, "response": None, "meta": None}, "field 'response': is null", ""),
        ({"task_id": TASK, "completions": []}, "field 'completions': is empty: it has no sample", ""),
        ({"task_id": TASK, "code_list": []}, "field 'code_list': is empty: it has no sample", ""),
        ({"task_id": "", "response": ""}, "field 'task_id': must be a string that is not empty, or an integer", ""),
        ({"doc_id": 3, "doc": {}, "resps": [["x"]]}, "field 'doc_id': is the answer to problem 4", ""),
    ],
)
def test_the_error_of_a_row_names_the_field_and_the_nearest_format(
    tmp_path: Path, row: dict[str, Any], message: str, hint: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"task_id": "Add/0", "code": ""}\n' + json.dumps(row), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_completions(path, task_ids=ONE)
    assert message.replace("`output` and `response`", "`response` and `output`") in str(caught.value)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert (caught.value.hint or "").startswith(hint)


def test_fields_are_mapped_from_within_others(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"meta": {"task": TASK}, "id": 4, "reply": [{"text": RIGHT}, {"text": WRONG}], "completion": "the prompt"}
    path.write_text(json.dumps(row), encoding="utf-8")
    fields = ("task_id=meta.task", "completion=reply")
    assert texts(path, fields=fields) == [RIGHT, WRONG]
    assert set(named_tasks(str(path), fields) or ()) == {TASK, "Add", "4"}
    assert texts(path, fields=(f"task_id:={TASK}", "code=reply.1.text")) == [WRONG]
    assert "field 'meta.name': is missing" in error_of(path, fields=("task_id=meta.name", "completion=reply"))
    assert f"{path}:1: field 'id': must be a string" in error_of(path, fields=("task_id=meta.task", "completion=id"))
    assert f"{path}:1: field 'meta.task': there is no problem" in error_of(path, task_ids=["x"], fields=fields)
    with pytest.raises(UsageError, match="a completion has no field 'prompt'"):
        load_completions(path, fields=("prompt=reply",))


def test_entries_without_names_must_be_as_many_as_the_problems(tmp_path: Path) -> None:
    path = tmp_path / "generations.json"
    path.write_text(json.dumps([[RIGHT], [WRONG, RIGHT]]), encoding="utf-8")
    found = load_completions(path, task_ids=["b", "a"]).completions
    assert [each.id for each in found] == ["b", "a#1", "a#2"]
    assert "has 2 entries without names, and there are 3 problems" in error_of(path, task_ids=["a", "b", "c"])
    assert ":2: field 'the entry': is the answer to problem 2 by its position, and there are 1" in error_of(path)
    assert "they are not known" in error_of(path, task_ids=None)


def test_a_sample_of_inspect_that_failed_is_no_wrong_answer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"id": TASK, "epoch": 1, "output": {"choices": []}, "error": {"message": "no\nanswer"}}
    path.write_text(json.dumps(row), encoding="utf-8")
    [found] = load_completions(path, task_ids=ONE).completions
    assert found == Completion(TASK, TASK, loss="the sample failed: no answer")


def test_code_with_a_fence_in_a_string_is_code(tmp_path: Path) -> None:
    code = 'def add(a, b):\n    """Adds.\n\n    ```python\n    add(1, 2)\n    ```\n    """\n    return a + b\n'
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps({"task_id": TASK, "solution": each}) + "\n" for each in (code, told(code))), "utf-8"
    )
    found = load_completions(path, task_ids=ONE).completions
    assert [(each.code, each.completion) for each in found] == [(code, None), (None, told(code))]


def packed(**files: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as log:
        for name, content in files.items():
            log.writestr(name.replace("__", "/") + ".json", content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", ": the file is empty: it has no completions"),
        ("a.json", b" \n", ": the file is empty: it has no completions"),
        ("a.json", b"[]", ": the file is empty: it has no completions"),
        ("a.json", b"[] x", ":1: broken JSON: there is more after the end"),
        ("a.json", b"[[]", ":1: broken JSON: the array is cut off"),
        ("a.json", b"[3]", ":1: field 'the entry': must be a string, or a list"),
        ("a.json", b"{", ":1: broken JSON"),
        ("a.json", b"{\n", ":1: broken JSON: the object is cut off"),
        ("a.csv", b"", ": the file is empty: it has no completions"),
        ("a.csv", b"task_id,task_id\n", ": its first line names a field twice"),
        ("a.csv", b'task_id,code\nAdd/0,"x', ":1: is not valid CSV: unexpected end of data"),
        ("a.jsonl.gz", b"{}", ":1: is not a gzip file, although its name ends in .gz"),
        ("a.jsonl.gz", gzip.compress(b"{}\n" * 9)[:-9], ":1: the compressed file is cut off or damaged"),
        ("a.jsonl", gzip.compress(b"{}"), ": is a gzip file; end its name with .gz"),
        ("a.jsonl", b"\x28\xb5\x2f\xfd\x00", ": is compressed with Zstandard; decompress it first"),
        ("a.jsonl", "{}".encode("utf-16"), ": is text in UTF-16, and must be UTF-8"),
        ("a.jsonl", b"\x7fELF\x02\x01\xff", ":1: invalid UTF-8 at byte 7 of the line"),
        ("a.jsonl", bytes(range(256)) * 9, ":1: is a binary file, or text in another encoding than UTF-8"),
        ("a.jsonl", "{}".encode("utf-16-le"), ":1: is a binary file, or text in another encoding than UTF-8"),
        ("a.eval", b"{}", ": is no eval file, although its name ends so"),
        ("a.parquet", b"{}", ": is no parquet file, although its name ends so"),
        ("a.eval", packed(header="{}"), ": is a zip file without samples/*.json: no log of inspect"),
        ("a.eval", packed(samples__x='{"id": '), ":samples/x.json:1: broken JSON"),
        ("a.eval", packed(samples__x="{}")[:-30], ": is a damaged zip file"),
    ],
    # Not by content: archives hold the time, and all processes that run tests must name them alike.
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_a_file_that_is_something_else_is_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert error_of(path).startswith(f"{path}{message}")


def test_a_byte_order_mark_and_line_breaks_in_cells_are_no_content(tmp_path: Path) -> None:
    for name, content in (
        ("a.jsonl", json.dumps({"task_id": TASK, "code": RIGHT})),
        ("a.json", json.dumps([{"task_id": TASK, "code": RIGHT}])),
        ("b.json", json.dumps({"task_id": TASK, "code": RIGHT}, indent=2)),
        ("a.csv", f'task_id,code\r\n{TASK},"{RIGHT}"\r\n'),
    ):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + content.encode())
        assert texts(path) == [RIGHT]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_row_beyond_the_limit_is_a_bad_row(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandrl.problems.completion_files.MAX_COMPLETION_BYTES", 2 << 20)
    path = tmp_path / name
    row = json.dumps({"task_id": TASK, "code": "x" * (5 << 20)})
    path.write_text(row if name == "a.jsonl" else f"[{row}]", encoding="utf-8")
    assert error_of(path).startswith(f"{path}:1: ")
    assert "longer than 2 MiB" in error_of(path)


@pytest.mark.parametrize("content", [json.dumps([[RIGHT, WRONG]]), json.dumps({"task_id": TASK, "responses": CODES})])
def test_standard_input_is_recognised_too(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert [each.id for each in load_completions("-", task_ids=ONE).completions] == [f"{TASK}#1", f"{TASK}#2"]


def test_a_row_longer_than_what_is_looked_at_is_a_row_and_no_document(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = "x" * 100_000
    row = json.dumps({"task_id": TASK, "samples": [long, long]})
    path.write_text(f"{row}\n{row}\n", encoding="utf-8")
    assert texts(path) == [long] * 4
    by_name = tmp_path / "b.json"
    by_name.write_text(json.dumps({TASK: [long, long]}), encoding="utf-8")
    assert texts(by_name) == [long] * 2


def test_many_completions_are_kept_on_the_disk_with_the_names_that_few_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"task_id": task, "code": "x" * 500} for task in ("a", "b", "a", "a", "c#1", "c", "c")]
    rows.append({"task_id": "d", "code": "y", "id": "a#2"})
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    few = load_completions(path).completions
    monkeypatch.setattr("sandrl.problems.store.CompletionStore.__init__.__defaults__", (1000,))
    many = load_completions(path).completions
    assert isinstance(few, tuple)
    assert not isinstance(many, tuple)
    assert tuple(many) == few
    assert many[-1] == few[-1]
    assert many[1:3] == list(few[1:3])
    assert [each.id for each in few] == ["a#1", "b", "a#3", "a#4", "c#1", "c#2", "c#3", "a#2"]
