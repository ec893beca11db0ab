"""The page of a report: a skeleton, a style sheet, the code and a chart library, all in one file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from sandrl.errors import ServiceError
from sandrl.files import write_whole
from sandrl.runs.reader import RunReader
from sandrl.runs.report.document import report_document

REPORT_FILE = "report.html"

_LIBRARY = "vendor/chart.umd.min.js"
_SCRIPTS = ("text.js", "charts.js", "grid.js", "detail.js", "browser.js", "main.js")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def write_report(reader: RunReader, path: Path | None = None) -> Path:
    """Writes the report of a run.

    Args:
        reader: The run.
        path: Where to; `report.html` in the run directory unless given.

    Returns:
        The file.

    Raises:
        ServiceError: If it cannot be written.
    """
    path = reader.path / REPORT_FILE if path is None else path
    try:
        write_whole(path, report_page(report_document(reader)).encode("utf-8"))
    except OSError as error:
        raise ServiceError(
            f"{path}: cannot be written: {error.strerror}", hint="choose another file with `out`", fields=("out",)
        ) from error
    return path


def report_page(document: dict[str, Any]) -> str:
    """The page that shows a report's data.

    Args:
        document: What `report_document` gives.
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
        "data": _packed(document),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _asset("report.html"))


def _asset(name: str) -> str:
    return resources.files("sandrl.runs.report").joinpath("assets", name).read_text(encoding="utf-8")


def _packed(document: dict[str, Any]) -> str:
    """The data, compressed, in an alphabet that has no character of markup."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # The time is left out of the header, so that the same run gives the same page.
    return base64.b64encode(gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)).decode("ascii")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
