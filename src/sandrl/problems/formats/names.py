"""How a row is named: by its own id, or by its set and its position."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems.fields import Identifier, InputRow, parse_row

ID_FIELDS = ("task_id", "id", "question_id", "problem_id", "name")
"""Fields that name a row; the first there is does."""


class _NamedRow(InputRow):
    task_id: Identifier | None = None
    id: Identifier | None = None
    question_id: Identifier | None = None
    problem_id: Identifier | None = None
    name: Identifier | None = None


def id_field(value: Mapping[str, Any]) -> str:
    """The field that names a row; the first of all where it has none."""
    return next((field for field in ID_FIELDS if value.get(field) is not None), ID_FIELDS[0])


def identifier_of(row: Row, field: str, path: str | Path) -> str:
    """The name in one of the `ID_FIELDS` of a row."""
    named = parse_row(_NamedRow, Row(row.line, {field: row.value[field]}), path)
    return str(getattr(named, field))


def row_name(row: Row, set_name: str) -> str:
    """The name of a row: its own, or its number in a set; without a set it must have its own."""
    field = id_field(row.value)
    if row.value.get(field) is not None:
        return identifier_of(row, field, "")
    if not set_name:
        raise InputError("is missing", field=field)
    return f"{set_name}/{row.line}"
