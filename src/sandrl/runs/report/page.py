"""The page of a report: a skeleton, a style sheet, the code and a chart library, all in one file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from sandrl.errors import ServiceError
from sandrl.files import write_whole
from sandrl.runs.reader import Damage, RunReader
from sandrl.runs.report.document import report_document, report_trajectories

REPORT_FILE = "report.html"

_LIBRARY = "vendor/chart.umd.min.js"
_SCRIPTS = ("text.js", "charts.js", "grid.js", "detail.js", "browser.js", "main.js")
_PIECE_BYTES = 1 << 20
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def write_report(reader: RunReader, path: Path | None = None, *, damage: Damage | None = None) -> Path:
    """Writes the report of a run.

    Args:
        reader: The run.
        path: Where to; `report.html` in the run directory unless given.
        damage: Where to write down which trajectories cannot be read.

    Returns:
        The file.

    Raises:
        ServiceError: If it cannot be written.
    """
    path = reader.path / REPORT_FILE if path is None else path
    try:
        pages = report_page(report_document(reader, damage), report_trajectories(reader))
        write_whole(path, (piece.encode("utf-8") for piece in pages))
    except OSError as error:
        raise ServiceError(
            f"{path}: cannot be written: {error.strerror}", hint="choose another file with `out`", fields=("out",)
        ) from error
    return path


def report_page(document: dict[str, Any], trajectories: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The page that shows a report's data, piece by piece: a run may be larger than memory.

    Args:
        document: What `report_document` gives.
        trajectories: What `report_trajectories` gives.
    """
    style, library = _asset("report.css"), _asset(_LIBRARY).partition("\n//# sourceMappingURL")[0]
    code = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in _SCRIPTS) + "\n})();\n"
    scripts = " ".join(f"'{_digest(script)}'" for script in (library, code))
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(str(document["run"]["run_id"])),
        "policy": html.escape(policy, quote=True),
        "style": style,
        "library": library,
        "code": code,
    }
    # Odd pieces are names of places.
    for position, piece in enumerate(_PLACE.split(_asset("report.html"))):
        if position % 2 == 0:
            yield piece
        elif piece == "data":
            yield from _packed(document, trajectories)
        else:
            yield parts[piece]


def _asset(name: str) -> str:
    return resources.files("sandrl.runs.report").joinpath("assets", name).read_text(encoding="utf-8")


def _packed(document: dict[str, Any], trajectories: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The data, compressed, in an alphabet that has no character of markup."""
    buffer = io.BytesIO()
    # The time is left out of the header, so that the same run gives the same page.
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packer:
        for text in _written(document, trajectories):
            packer.write(text.encode("ascii"))
            if buffer.tell() >= _PIECE_BYTES:
                yield _drained(buffer, 3)
    yield _drained(buffer, 1)


def _written(document: dict[str, Any], trajectories: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The data as JSON, with the trajectories as its last entry."""
    yield _json(document)[:-1] + ',"trajectories":['
    for number, trajectory in enumerate(trajectories):
        yield "," * bool(number) + _json(trajectory)
    yield "]}"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _drained(buffer: io.BytesIO, unit: int) -> str:
    """Takes what a buffer holds, as far as it is a multiple of `unit` bytes, in base64."""
    data = buffer.getvalue()
    size = len(data) - len(data) % unit
    buffer.seek(0)
    buffer.truncate()
    buffer.write(data[size:])
    return base64.b64encode(data[:size]).decode("ascii")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
