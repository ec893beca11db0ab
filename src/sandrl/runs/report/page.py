"""The page of a report: a skeleton, a style sheet, the code and its libraries, all in one file.

The same page shows a run that is embedded in it, runs from a server on this machine, and runs in files next to it. An
attribute of its skeleton selects one of the three.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from sandrl.errors import ServiceError
from sandrl.files import write_whole
from sandrl.runs.cards import card_document
from sandrl.runs.reader import Damage, RunReader
from sandrl.runs.report.document import report_document, report_problems, report_trajectories

REPORT_FILE = "report.html"

_PARTS = "parts.json"
_PIECE_BYTES = 1 << 20
_PLACE = re.compile(r"\{\{(\w+)\}\}")


class Source(StrEnum):
    """Where a page has its data from."""

    EMBEDDED = "embedded"
    HTTP = "http"
    """The server that also serves the page."""
    FILES = "files"
    """Scripts in the folder `data` beside the page."""


_POLICIES = {
    Source.EMBEDDED: "script-src {scripts}",
    Source.HTTP: "script-src {scripts}; connect-src 'self'",
    # A page that is opened from a disk has no origin: its scripts are not `self`.
    Source.FILES: "script-src {scripts} 'self' file:",
}


def write_report(reader: RunReader, path: Path | None = None, *, damage: Damage | None = None) -> Path:
    """Writes the report of a run, `report.html` in its directory unless another path is given, and returns the file.

    Raises:
        ServiceError: If it cannot be written.
    """
    path = reader.path / REPORT_FILE if path is None else path
    document = {
        **report_document(reader, damage),
        "problems": report_problems(reader),
        "all_cards": [card_document(card) for card in reader.cards().rows],
    }
    try:
        pages = report_page(document, report_trajectories(reader))
        write_whole(path, (piece.encode("utf-8") for piece in pages))
    except OSError as error:
        raise ServiceError(
            f"{path}: cannot be written: {error.strerror}", hint="select another file with `out`", fields=("out",)
        ) from error
    return path


def report_page(document: dict[str, Any], trajectories: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The page that shows the data of `report_document`, with `problems` and `all_cards`, and of `report_trajectories`.

    It comes piece by piece, because a run may be larger than memory.
    """
    return _page(Source.EMBEDDED, str(document["run"]["run_id"]), _packed(document, trajectories))


def empty_page(source: Source) -> str:
    """The page without data, which it gets from elsewhere."""
    return "".join(_page(source, "runs", ()))


def content_policy(source: Source) -> str:
    """The content policy of a page: its own scripts, and no connection but to where its data is."""
    parts = _parts()
    scripts = " ".join(f"'{_digest(parts[name])}'" for name in ("library", "code"))
    return (
        f"default-src 'none'; {_POLICIES[source].format(scripts=scripts)}; style-src '{_digest(parts['style'])}'; "
        "base-uri 'none'; form-action 'none'"
    )


def packed(document: object) -> str:
    """A document compressed, in base64: an alphabet that has no character of markup."""
    return base64.b64encode(gzip.compress(_json(document).encode("ascii"), 6, mtime=0)).decode("ascii")


def _page(source: Source, title: str, data: Iterable[str]) -> Iterator[str]:
    parts = {
        **_parts(),
        "title": html.escape(title),
        "policy": html.escape(content_policy(source), quote=True),
        "source": source.value,
    }
    # Odd pieces are names of places.
    for position, piece in enumerate(_PLACE.split(_asset("report.html"))):
        if position % 2 == 0:
            yield piece
        elif piece == "data":
            yield from data
        else:
            yield parts[piece]


@cache
def _parts() -> dict[str, str]:
    parts = {
        name: "\n".join(_asset(file).partition("\n//# sourceMappingURL")[0] for file in files)
        for name, files in json.loads(_asset(_PARTS)).items()
    }
    return {**parts, "code": "(() => {\n'use strict';\n" + parts["code"] + "\n})();\n"}


def _asset(name: str) -> str:
    return resources.files("sandrl.runs.report").joinpath("assets", name).read_text(encoding="utf-8")


def _packed(document: dict[str, Any], trajectories: Iterable[dict[str, Any]]) -> Iterator[str]:
    # The data, compressed, in an alphabet that has no character of markup.
    buffer = io.BytesIO()
    # The time is left out of the header, so that the same run gives the same page.
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packer:
        for text in _written(document, trajectories):
            packer.write(text.encode("ascii"))
            if buffer.tell() >= _PIECE_BYTES:
                yield _drained(buffer, 3)
    yield _drained(buffer, 1)


def _written(document: dict[str, Any], trajectories: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield _json(document)[:-1] + ',"trajectories":['
    for number, trajectory in enumerate(trajectories):
        yield "," * bool(number) + _json(trajectory)
    yield "]}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _drained(buffer: io.BytesIO, unit: int) -> str:
    # Takes what a buffer holds, as far as it is a multiple of `unit` bytes, in base64.
    data = buffer.getvalue()
    size = len(data) - len(data) % unit
    buffer.seek(0)
    buffer.truncate()
    buffer.write(data[size:])
    return base64.b64encode(data[:size]).decode("ascii")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
