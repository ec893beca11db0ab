"""The files of E2B's sandboxes, by commands of the shell as the user who asks, so that its permissions hold."""

from __future__ import annotations

import asyncio
import errno
import posixpath
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandrl.deadlines import in_background
from sandrl.service.e2b.connect import RpcError
from sandrl.service.e2b.sandboxes import E2BSandbox
from sandrl.trials.files import IS_DIRECTORY, NOT_FOUND, READ, WRITE, error_of
from sandrl.trials.guest import WROTE_TOO_MUCH

_EXISTS, _NOT_DIRECTORY = 45, 46
_MOST_DEPTH = 64
_LIST_BYTES = 4 << 20
_MOST_WATCHERS = 100
_LOOK_SECONDS = 0.5

# Numbers of the kernel, and names that the image gives to them.
_FORMAT = "%f|%s|%Y|%U|%G|%n"
_STAT = rf"""[ -e "$1" ] || [ -L "$1" ] || exit {NOT_FOUND}
show() {{
    for each; do
        printf %s "$mark"; stat -c '{_FORMAT}' -- "$each" || exit
        [ -L "$each" ] || continue
        printf %s "$mark>"; readlink -f -- "$each" || echo
        printf %s "$mark="; stat -L -c %f -- "$each" 2>/dev/null || echo
    done
}}
mark=$2"""
_ONE = f'{_STAT}\nshow "$1"'
_LIST = rf"""{_STAT}
[ -d "$1" ] || exit {_NOT_DIRECTORY}
find "$1/" -mindepth 1 -maxdepth "$3" -print0 >/dev/null 2>&1 || exit 1
export mark
find "$1/" -mindepth 1 -maxdepth "$3" -exec sh -c 'for each; do
    printf %s "$mark"; stat -c "{_FORMAT}" -- "$each" || continue
    [ -L "$each" ] || continue
    printf %s "$mark>"; readlink -f -- "$each" || echo
    printf %s "$mark="; stat -L -c %f -- "$each" 2>/dev/null || echo
done' sh {{}} +"""
_MAKE = rf"""[ ! -d "$1" ] || exit {_EXISTS}
[ ! -e "$1" ] || exit {_NOT_DIRECTORY}
mkdir -p -- "$1" """
_MOVE = rf"""[ -e "$1" ] || [ -L "$1" ] || exit {NOT_FOUND}
[ ! -d "$2" ] || [ -L "$2" ] || exit {_EXISTS}
mkdir -p -- "${{2%/*}}/" && mv -f -- "$1" "$2" """
_REMOVE = 'rm -rf -- "$1"'
_REASONS = {
    NOT_FOUND: ("not_found", "there is no file or directory {path!r}"),
    _EXISTS: ("already_exists", "there is a directory already: {path!r}"),
    _NOT_DIRECTORY: ("invalid_argument", "{path!r} is not a directory"),
    IS_DIRECTORY: ("invalid_argument", "{path!r} is a directory"),
}
_CODES = {
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOTDIR: "invalid_argument",
    errno.ENAMETOOLONG: "invalid_argument",
    errno.ENOSPC: "resource_exhausted",
    errno.EDQUOT: "resource_exhausted",
}
_KINDS = {0o040000: "FILE_TYPE_DIRECTORY", 0o100000: "FILE_TYPE_FILE", 0o120000: "FILE_TYPE_SYMLINK"}
_LETTERS = "rwxrwxrwx"
_FIELDS = re.compile(r"([0-9a-f]{1,8})\|(\d{1,19})\|-?(\d{1,11})\|([^|]*)\|([^|]*)\|(.+)", re.DOTALL)


class Files:
    """The files that a user of a sandbox may read and write.

    Args:
        user: None for the user of the image.
    """

    def __init__(self, sandbox: E2BSandbox, user: str | None) -> None:
        self._sandbox = sandbox
        self._user = user

    async def absolute(self, path: object) -> str:
        """A path of a request: relative ones begin at the working directory, and `~` is the user's home.

        Raises:
            RpcError: If it is none.
        """
        if not isinstance(path, str) or "\0" in path:
            raise RpcError("invalid_argument", "path: must be a text without NUL bytes")
        if path.startswith("/"):
            return _normal(path)
        is_of_home = path == "~" or path.startswith("~/")
        home = (await self._sandbox.becoming(self._user))[1].get("HOME", "") if is_of_home and self._user else ""
        result = await self._sandbox.run('cd -- "${1:-$HOME}" && pwd' if is_of_home else "pwd", home, user=self._user)
        start = result.stdout.decode("utf-8", "surrogateescape").removesuffix("\n") or "/"
        return _normal(posixpath.join(start, path[2:] if is_of_home else path))

    async def read(self, path: str, most_bytes: int) -> bytes:
        return await self._run(READ, path, most_bytes=most_bytes)

    async def write(self, path: str, content: bytes) -> dict[str, Any]:
        await self._run(WRITE, path, stdin=content)
        return {"name": posixpath.basename(path), "type": "file", "path": path}

    async def entry(self, path: str) -> dict[str, Any]:
        """A file or directory, as Connect's messages describe it."""
        mark = secrets.token_hex(16)
        found = _entries(await self._run(_ONE, path, mark), mark)
        if not found:
            raise RpcError("internal", f"{path!r} cannot be read: the image has no `stat`")
        return found[0]

    async def entries(self, path: str, depth: int) -> list[dict[str, Any]]:
        if not 0 <= depth <= _MOST_DEPTH:
            raise RpcError("invalid_argument", f"depth: must be from 1 to {_MOST_DEPTH}")
        mark = secrets.token_hex(16)
        content = await self._run(_LIST, path, mark, str(depth or 1), most_bytes=_LIST_BYTES)
        return await asyncio.wrap_future(
            in_background(lambda: sorted(_entries(content, mark), key=lambda each: str(each["path"])))
        )

    async def make_directory(self, path: str) -> dict[str, Any]:
        await self._run(_MAKE, path)
        return await self.entry(path)

    async def move(self, source: str, destination: str) -> dict[str, Any]:
        await self._run(_MOVE, source, destination)
        return await self.entry(destination)

    async def remove(self, path: str) -> None:
        if path == "/":
            raise RpcError("invalid_argument", "path: the root is not removed")
        await self._run(_REMOVE, path)

    async def _run(self, program: str, path: str, *more: str, stdin: bytes = b"", most_bytes: int = 1 << 20) -> bytes:
        result = await self._sandbox.run(program, path, *more, user=self._user, stdin=stdin, most_bytes=most_bytes)
        if result.exit_code == 0:
            return result.stdout
        if result.exit_code == WROTE_TOO_MUCH:
            raise RpcError("resource_exhausted", f"{path!r}: the answer is larger than {most_bytes} bytes")
        code, text = _REASONS.get(result.exit_code or 0, ("", ""))
        if code:
            raise RpcError(code, text.format(path=path))
        error = error_of(result.exit_code, result.stderr, path)
        code = _CODES.get(error.errno or 0, "internal")
        raise RpcError(code, f"{path!r}: {error.strerror}")


def _normal(path: str) -> str:
    return f"/{posixpath.normpath(path).lstrip('/')}"


@dataclass(eq=False)
class Watcher:
    """A directory that is looked at when somebody asks what has changed.

    Attributes:
        seen: Its entries at the last look, by their paths.
    """

    files: Files
    path: str
    is_recursive: bool
    seen: Mapping[str, dict[str, Any]]

    @classmethod
    async def of(cls, sandbox: E2BSandbox, user: str | None, body: Mapping[str, Any]) -> Watcher:
        if len(sandbox.watchers) >= _MOST_WATCHERS:
            raise RpcError("resource_exhausted", f"the sandbox has {_MOST_WATCHERS} watchers already")
        files = Files(sandbox, user)
        path = await files.absolute(body.get("path"))
        made = cls(files, path, body.get("recursive") is True, {})
        made.seen = await made._look()
        return made

    async def events(self) -> list[dict[str, Any]]:
        """What has changed since the last look."""
        before, now = self.seen, await self._look()
        self.seen = now
        found = []
        for path, entry in now.items():
            old = before.get(path)
            if old is None:
                found.append(self._event(path, "CREATE"))
            elif old["mode"] != entry["mode"]:
                found.append(self._event(path, "CHMOD"))
            if (old is None or _written(old) != _written(entry)) and entry["type"] == "FILE_TYPE_FILE":
                found.append(self._event(path, "WRITE"))
        return found + [self._event(path, "REMOVE") for path in before if path not in now]

    async def each(self) -> AsyncIterator[list[dict[str, Any]]]:
        while True:
            yield await self.events()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> dict[str, dict[str, Any]]:
        found = await self.files.entries(self.path, _MOST_DEPTH if self.is_recursive else 1)
        return {str(each["path"]): each for each in found}

    def _event(self, path: str, kind: str) -> dict[str, Any]:
        return {"name": posixpath.relpath(path, self.path), "type": f"EVENT_TYPE_{kind}"}


def _written(entry: Mapping[str, Any]) -> tuple[object, object]:
    return entry["modifiedTime"], entry["size"]


def _entries(content: bytes, mark: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in content.decode("utf-8", "replace").split(mark)[1:]:
        part = part.removesuffix("\n")
        if part[:1] == ">" and found:
            found[-1]["symlinkTarget"] = part[1:]
        elif part[:1] == "=" and found:
            # The type of what a link leads to, where that is there.
            found[-1]["type"] = _kind(part[1:]) or found[-1]["type"]
        elif (fields := _FIELDS.fullmatch(part)) is not None:
            found.append(_entry(*fields.groups()))
    return found


def _entry(mode: str, size: str, modified: str, owner: str, group: str, path: str) -> dict[str, Any]:
    number = int(mode, 16)
    path = posixpath.normpath(path)
    letters = "".join(letter if number & (1 << (8 - place)) else "-" for place, letter in enumerate(_LETTERS))
    kind = _kind(mode) or "FILE_TYPE_UNSPECIFIED"
    first = {"FILE_TYPE_DIRECTORY": "d", "FILE_TYPE_SYMLINK": "L"}.get(kind, "-")
    return {
        "name": posixpath.basename(path),
        "type": kind,
        "path": path,
        "size": size,
        "mode": number & 0o7777,
        "permissions": first + letters,
        "owner": owner,
        "group": group,
        "modifiedTime": datetime.fromtimestamp(int(modified), UTC).isoformat().replace("+00:00", "Z"),
    }


def _kind(mode: str) -> str | None:
    try:
        return _KINDS.get(int(mode, 16) & 0o170000)
    except ValueError:
        return None
