"""Files of completions as the tools of the field write them: each has a right answer and a wrong one to one problem.

`SHAPES` has a writer for each; the order of the answers is right, wrong. `BROKEN` has one that spoils a field of the
last answer: what the error must name.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

TASK = "Add/0"
PROBLEM = {
    "task_id": TASK,
    "prompt": "Write add(a, b).",
    "tests": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"],
}
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
CODES = (RIGHT, WRONG)
BAD = 17
"""In place of an answer: no text."""


def told(code: Any) -> Any:
    """What a model says around its code."""
    return f"Here it is:\n```python\n{code}```\n" if isinstance(code, str) else code


def message(code: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": told(code), "reasoning_content": "```python\nassert False\n```"}


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def inspect_samples(codes: tuple[Any, ...]) -> list[dict[str, Any]]:
    def output(code: Any) -> dict[str, Any]:
        return {"model": "m", "choices": [{"message": message(code), "stop_reason": "stop"}], "completion": ""}

    return [
        {"id": TASK, "epoch": epoch, "input": "Add.", "target": "", "messages": [], "output": output(code)}
        for epoch, code in enumerate(codes, 1)
    ]


def inspect_json(codes: tuple[Any, ...]) -> bytes:
    head = {"version": 2, "status": "success", "eval": {"task": "t", "samples": [1]}, "plan": {}, "stats": {}}
    return json.dumps({**head, "score": float("nan"), "samples": inspect_samples(codes)}, indent=2).encode()


def inspect_zip(codes: tuple[Any, ...]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr("header.json", json.dumps({"version": 2, "status": "success", "eval": {}}))
        for sample in inspect_samples(codes):
            log.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return file.getvalue()


def zstandard_zip(codes: tuple[Any, ...]) -> bytes:
    """The same as inspect compresses it since 2026, by a method that `zipfile` cannot write before Python 3.14."""
    content, directory = b"", b""
    samples = inspect_samples(codes)
    for sample in samples:
        name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json".encode()
        plain = json.dumps(sample).encode()
        packed = zstandard.ZstdCompressor().compress(plain)
        common = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, zlib.crc32(plain), len(packed), len(plain), len(name), 0)
        directory += b"PK\1\2" + struct.pack("<H", 63) + common + struct.pack("<HHHII", 0, 0, 0, 0, len(content)) + name
        content += b"PK\3\4" + common + name + packed
    count = len(samples)
    return (
        content + directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(content), 0)
    )


def batch(codes: tuple[Any, ...]) -> bytes:
    def body(code: Any) -> dict[str, Any]:
        return {"object": "chat.completion", "choices": [{"index": 0, "message": message(code)}]}

    return lines(
        [
            {
                "id": f"batch_req_{number}",
                "custom_id": f"{TASK}-{number}",
                "response": {"status_code": 200, "request_id": "r", "body": body(code)},
                "error": None,
            }
            for number, code in enumerate(codes)
        ]
    )


def lm_eval(codes: tuple[Any, ...]) -> bytes:
    common = {"doc_id": 0, "doc": {"task_id": TASK, "prompt": "def add"}, "target": "", "pass@1": float("nan")}
    return lines(
        [
            {**common, "filter": name, "resps": [list(codes)], "filtered_resps": [list(codes)]}
            for name in ("create_test", "none")
        ]
    )


def table(codes: tuple[Any, ...]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("task_id", "n", "response"))
    for code in codes:
        writer.writerow((TASK, 1, told(code)) if isinstance(code, str) else (TASK,))
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def rows_of(make: Callable[[Any], dict[str, Any]]) -> Callable[[tuple[Any, ...]], bytes]:
    return lambda codes: lines([make(code) for code in codes])


def one_row(make: Callable[[list[Any]], dict[str, Any]]) -> Callable[[tuple[Any, ...]], bytes]:
    return lambda codes: lines([make(list(codes))])


def named(**more: Any) -> dict[str, Any]:
    return {"task_id": TASK, **more}


def array(
    rows: Callable[[tuple[Any, ...]], list[Any]], *, indent: int | None = None
) -> Callable[[tuple[Any, ...]], bytes]:
    return lambda codes: json.dumps(rows(codes), indent=indent).encode()


SHAPES: dict[str, tuple[str, Callable[[tuple[Any, ...]], bytes], str]] = {
    "own": ("a.jsonl", rows_of(lambda code: named(completion=told(code))), "completion"),
    "EvalPlus": ("a.jsonl", rows_of(lambda code: named(solution=code)), "solution"),
    "generations": ("a.jsonl", one_row(lambda codes: named(generations=codes)), "generations[1]"),
    "completions": (
        "a.jsonl",
        one_row(lambda codes: named(completions=[told(each) for each in codes])),
        "completions[1]",
    ),
    "output list": ("a.jsonl", one_row(lambda codes: named(output=[told(each) for each in codes])), "output[1]"),
    "bigcode": ("a.json", array(lambda codes: [list(codes)]), "the entry[1]"),
    "lm-eval": ("samples_humaneval_2026.jsonl", lm_eval, "filtered_resps[0][1]"),
    "LiveCodeBench": (
        "a.json",
        array(
            lambda codes: [
                {"question_id": TASK, "code_list": list(codes), "output_list": [told(each) for each in codes]}
            ],
            indent=4,
        ),
        "code_list[1]",
    ),
    "inspect JSON": ("a.json", inspect_json, "output.choices[0].message.content"),
    "inspect log": ("a.eval", inspect_zip, "output.choices[0].message.content"),
    "inspect log in Zstandard": ("a.eval", zstandard_zip, "output.choices[0].message.content"),
    "OpenAI batch": ("batch_output.jsonl", batch, "response.body.choices[0].message.content"),
    "messages": (
        "a.jsonl",
        rows_of(lambda code: named(messages=[{"role": "user", "content": "Add."}, message(code)])),
        "messages[1].content",
    ),
    "TRL": (
        "a.jsonl",
        rows_of(lambda code: named(prompt=[{"role": "user"}], completion=[message(code)])),
        "completion[0].content",
    ),
    "response": ("a.jsonl", rows_of(lambda code: {"id": TASK, "response": told(code)}), "response"),
    "csv": ("a.csv", table, "n"),
    "JSON array": ("a.json", array(lambda codes: [named(prediction=told(each)) for each in codes]), "prediction"),
    "gzip": ("a.jsonl.gz", lambda codes: gzip.compress(rows_of(lambda code: named(code=code))(codes)), "code"),
    "by name": (
        "a.json",
        lambda codes: json.dumps({TASK: [told(each) for each in codes]}, indent=1).encode(),
        "completion[1]",
    ),
}
"""By what writes it: the name of the file, its content with these codes, and the field of the second answer."""


def write(folder: Path, shape: str, codes: tuple[Any, ...] = CODES) -> Path:
    """Writes the file of a shape."""
    name, content, _ = SHAPES[shape]
    path = folder / name
    path.write_bytes(content(codes))
    return path


def write_directory(folder: Path) -> Path:
    """Writes samples of EvalPlus as its directories have them."""
    samples = folder / "humaneval" / "model_temp_0.0"
    place = samples / TASK.replace("/", "_")
    place.mkdir(parents=True)
    for number, code in enumerate(CODES):
        (place / f"{number}.py").write_text(code, encoding="utf-8")
    return samples
