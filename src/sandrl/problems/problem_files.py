"""Files of a problem: they exist in the working directory before an answer runs.

Contents are bytes and paths are relative, and both are checked when the problem is made, so that the code that writes
the files needs no checks. A text stands for its UTF-8, and `{"base64": …}` for other bytes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from sandrl.errors import InputError

MOST_BYTES = 64 << 20
"""The largest total size of the files of a problem; a sandbox has room for four times this size."""

_LONGEST_PATH = 1000


def files_of(given: object, taken: str, field: str = "files") -> tuple[tuple[str, bytes], ...]:
    """Files in the order of their paths; `taken` is the name that the answer's own file has."""
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, list | tuple) and all(isinstance(each, list | tuple) and len(each) == 2 for each in given):
        pairs = [(path, content) for path, content in given]
    else:
        raise InputError(f"must be an object with contents by path, not {given!r:.40}", field=field)
    found: dict[str, bytes] = {}
    for path, content in pairs:
        place = f"{field}[{path!r:.60}]"
        _check_path(path, taken, place)
        if path in found:
            raise InputError("is given twice", field=place)
        found[path] = _content(content, place)
    folders = {path[:position] for path in found for position, letter in enumerate(path) if letter == "/"}
    for path in found:
        if path in folders:
            raise InputError("is a file and a directory", field=f"{field}[{path!r:.60}]")
    if sum(map(len, found.values())) > MOST_BYTES:
        raise InputError(f"have more than {MOST_BYTES >> 20} MiB in all", field=field)
    return tuple(sorted(found.items()))


def file_name(given: Any, taken: str, field: str) -> str | None:
    """The name of a file in the working directory; None if there is none."""
    if given is None:
        return None
    _check_path(given, taken, field)
    if "/" in given:
        raise InputError("must be a name, without a directory", field=field)
    return str(given)


def file_rows(files: Iterable[tuple[str, bytes]]) -> dict[str, str | dict[str, str]]:
    return {path: _row(content) for path, content in files}


def _row(content: bytes) -> str | dict[str, str]:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _check_path(path: object, taken: str, field: str) -> None:
    if not isinstance(path, str):
        raise InputError("must be a path", field=field)
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise InputError("must be a path within the working directory", field=field)
    if "" in parts or "." in parts or "\0" in path or not path.isprintable() or len(path) > _LONGEST_PATH:
        raise InputError("must be a plain relative path", field=field)
    if max(len(part.encode("utf-8", "surrogatepass")) for part in parts) > 255:
        raise InputError("has a name of more than 255 bytes", field=field)
    if path == taken:
        raise InputError("is the file of the answer itself", field=field)


def _content(given: object, field: str) -> bytes:
    if isinstance(given, bytes):
        return given
    try:
        if isinstance(given, str):
            return given.encode("utf-8")
        if isinstance(given, Mapping) and list(given) == ["base64"] and isinstance(given["base64"], str):
            return base64.b64decode(given["base64"], validate=True)
    except UnicodeEncodeError as error:
        raise InputError("holds half of a surrogate pair, which is not valid text", field=field) from error
    except (binascii.Error, ValueError) as error:
        raise InputError("must be base64", field=f"{field}.base64") from error
    raise InputError(f'must be text or {{"base64": …}}, not {given!r:.40}', field=field)
