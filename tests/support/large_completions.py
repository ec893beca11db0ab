"""A large file of completions, in a shape: `python -m tests.support.large_completions SHAPE PATH BYTES [SIZE]`.

Several shapes, because each has a reader of its own: lines, rows of many samples, an array, a document in one line, and
a table.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

TASK = "add"
SHAPES = ("lines", "lists", "array", "inspect", "csv")


def texts(count: int, size: int) -> Iterator[str]:
    """Texts of models, with code of a few kinds at their ends."""
    thought = "Let me think about ä. " * max((size - 100) // 22, 1)
    for number in range(count):
        yield f"{thought}\n```python\ndef add(a, b):\n    return a + b  # {number % 5}\n```\n"


def write(shape: str, path: Path, total_bytes: int, size: int) -> None:
    """Writes a file of this many bytes, or a little more."""
    found = texts(total_bytes // size + 1, size)
    with path.open("w", encoding="utf-8", newline="") as file:
        if shape == "csv":
            writer = csv.writer(file)
            writer.writerow(("task_id", "response"))
            writer.writerows((TASK, text) for text in found)
            return
        if shape == "lists":
            rows: Iterator[dict[str, Any]] = (
                {"task_id": TASK, "completions": each} for each in iter(lambda: list(islice(found, 50)), [])
            )
        elif shape == "inspect":
            rows = (
                {"id": TASK, "epoch": 1, "output": {"choices": [{"message": {"role": "assistant", "content": each}}]}}
                for each in found
            )
        else:
            rows = ({"task_id": TASK, "completion": each} for each in found)
        file.write({"array": "[\n", "inspect": '{"version": 2, "status": "success", "samples": ['}.get(shape, ""))
        is_document = shape in ("array", "inspect")
        for number, row in enumerate(rows):
            file.write(", " if is_document and number else "")
            file.write(json.dumps(row, ensure_ascii=False) + ("" if is_document else "\n"))
        file.write({"array": "]", "inspect": "]}"}.get(shape, ""))


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), *map(int, [*sys.argv[3:], "2000"][:2]))
