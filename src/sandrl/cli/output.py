"""Documents and tables on standard output, for every command the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import typer


def print_json(document: Any) -> None:
    """Prints one JSON document."""
    # ASCII: what a model wrote may hold lone surrogates and escape sequences, and this may be shown on a terminal.
    json.dump(document, sys.stdout, ensure_ascii=True, indent=2, default=str, allow_nan=False)
    sys.stdout.write("\n")


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Prints rows of plain text in columns, the first row being their titles."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
