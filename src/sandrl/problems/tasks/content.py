"""The files of a task directory, which strangers have written: nothing is read outside of it, nor without a limit.

Links are never followed: they are copied as links, and mean something in the machine alone. Modes are those that git
keeps, so the same task has the same digest, and behaves the same, wherever it was checked out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandrl.errors import InputError
from sandrl.files import open_regular, read_regular

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MOST_TEXT_BYTES = 4 << 20
"""The largest size of a file of a task that is read as a text."""

MOST_ENTRIES = 100_000
MOST_BYTES = 8 << 30
"""How many files a task directory may have, and the size of all of them."""

IGNORE_FILE = ".harborignore"

_COPIED = ("tests", "solution", "steps")
_MOST_IGNORE_BYTES = 1 << 20
_MOST_DEPTH = 64
_CHUNK = 1 << 20
_PROGRAM, _FILE = 0o755, 0o644


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a directory or a link below a directory.

    Attributes:
        name: Its path relative to the directory.
        path: Where it is on this machine.
        mode: 0o755 for directories and files that can be run, else 0o644.
        size: Of a file, in bytes.
        target: Of a link, as it is written; empty for what is no link.
    """

    name: str
    path: Path
    mode: int
    size: int = 0
    target: str = ""
    is_directory: bool = False


class TaskContent:
    """The files of the directory of a task.

    Raises:
        InputError: If it is no directory.
    """

    def __init__(self, root: str | Path) -> None:
        try:
            self.root = Path(root).resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise InputError(f"cannot be read: {_reason(error)}", path=root) from error
        if not self.root.is_dir():
            raise InputError("is not a directory", path=root)

    def path(self, *parts: str) -> Path:
        """The place of a file or directory of the task, with all links followed; it need not exist.

        Raises:
            InputError: If it is outside of the task directory.
        """
        path = self.root.joinpath(*parts)
        try:
            found = path.resolve()
        except (OSError, RuntimeError) as error:
            raise InputError(f"cannot be read: {_reason(error)}", path=path) from error
        if not found.is_relative_to(self.root):
            raise InputError("leads out of the task directory", path=path, hint="a task has all of its files in it")
        return found

    def is_file(self, *parts: str) -> bool:
        return self.path(*parts).is_file()

    def is_directory(self, *parts: str) -> bool:
        return self.path(*parts).is_dir()

    def read(self, *parts: str, most_bytes: int = MOST_TEXT_BYTES) -> bytes:
        """The content of a file of the task.

        Raises:
            InputError: If it is missing, outside of the task directory, or too large.
        """
        path = self.path(*parts)
        try:
            return read_regular(path, most_bytes)
        except FileNotFoundError as error:
            raise InputError("is missing", path=self.root.joinpath(*parts)) from error
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error

    def text(self, *parts: str, most_bytes: int = MOST_TEXT_BYTES) -> str:
        """A text of the task, with line feeds as its line ends.

        Raises:
            InputError: As `read`, or if it is not UTF-8.
        """
        try:
            text = self.read(*parts, most_bytes=most_bytes).decode()
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise InputError("invalid UTF-8", path=self.root.joinpath(*parts), line=line) from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def entries(self, directory: str | Path = "", *, is_copied: bool = True) -> Iterator[Entry]:
        """What is below a directory of the task, parents first, in the order of the names.

        Args:
            directory: Absolute or relative to the task directory.
            is_copied: Whether it is what is copied to a machine: what `.harborignore` names is left out.

        Raises:
            InputError: If something is neither file, directory nor link, or a link in tests, solutions or steps leads
                out of the task directory, or there is too much.
        """
        base = self.path(str(directory))
        count = size = 0
        waiting = [(base, 0)]
        while waiting:
            current, depth = waiting.pop()
            if depth > _MOST_DEPTH:
                raise InputError(f"has more than {_MOST_DEPTH} directories within one another", path=base)
            below = []
            for name in sorted(_listed(current), key=os.fsencode):
                path = current / name
                if current == self.root and name == ".git":
                    continue
                if is_copied and self.is_ignored(path):
                    continue
                entry = self._entry(path, base)
                count, size = count + 1, size + entry.size
                if count > MOST_ENTRIES or size > MOST_BYTES:
                    most = f"{MOST_ENTRIES} files or {MOST_BYTES >> 30} GiB"
                    raise InputError(
                        f"has more than {most}", path=base, hint="remove from it what the task does not use"
                    )
                if entry.is_directory:
                    below.append((path, depth + 1))
                yield entry
            waiting += reversed(below)

    def is_ignored(self, path: Path) -> bool:
        """Whether a file of tests or solutions is not copied to machines, because `.harborignore` says so."""
        if path.name == IGNORE_FILE:
            return True
        parts = path.relative_to(self.root).parts
        first = _first_of_scope(parts)
        if first is None or not self._ignores:
            return False
        for length in range(first, len(parts) + 1):
            excluded = False
            for owner in range(first, length):
                spec = self._ignores.get(self.root.joinpath(*parts[:owner]))
                if spec is None:
                    continue
                place = self.root.joinpath(*parts[:length])
                slash = "/" if length < len(parts) or place.is_dir() else ""
                found = spec.check_file("/".join(parts[owner:length]) + slash).include
                excluded = excluded if found is None else bool(found)
            if excluded:
                return True
        return False

    def digest(self) -> str:
        """SHA-256 over the names, modes and contents of all files, in hexadecimal digits; `.git` is no part of it."""
        digest = hashlib.sha256()
        for entry in sorted(self.entries(is_copied=False), key=lambda each: os.fsencode(each.name)):
            kind = "directory" if entry.is_directory else "link" if entry.target else f"{entry.mode:o}"
            content = os.fsencode(entry.target) if entry.target or entry.is_directory else _digest_of(entry.path)
            for each in (kind.encode(), os.fsencode(entry.name), content):
                digest.update(len(each).to_bytes(8, "big") + each)
        return digest.hexdigest()

    def _entry(self, path: Path, base: Path) -> Entry:
        name = str(path.relative_to(base))
        try:
            found = path.lstat()
            target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        if target:
            if path.relative_to(self.root).parts[0] in _COPIED and not self.is_ignored(path):
                self.path(str(path))
            return Entry(name, path, _FILE, target=target)
        if stat.S_ISDIR(found.st_mode):
            return Entry(name, path, _PROGRAM, is_directory=True)
        if stat.S_ISREG(found.st_mode):
            return Entry(name, path, _PROGRAM if found.st_mode & 0o111 else _FILE, found.st_size)
        raise InputError("is neither a file, a directory nor a link", path=path, hint="remove it from the task")

    # The rules of each directory of tests and solutions that has some.
    @cached_property
    def _ignores(self) -> dict[Path, GitIgnoreSpec]:
        found: dict[Path, GitIgnoreSpec] = {}
        for top in _COPIED:
            base = self.path(top)
            if not base.is_dir():
                continue
            for folder, below, names in os.walk(base):
                directory = Path(folder)
                if len(directory.relative_to(base).parts) > _MOST_DEPTH:
                    below.clear()  # see `entries`
                if IGNORE_FILE in names and _first_of_scope((*directory.relative_to(self.root).parts, "x")) is not None:
                    from pathspec import GitIgnoreSpec

                    path = directory / IGNORE_FILE
                    lines = self.text(str(path), most_bytes=_MOST_IGNORE_BYTES).splitlines()
                    try:
                        found[directory] = GitIgnoreSpec.from_lines(lines)
                    except ValueError as error:
                        raise InputError(f"has a pattern that is none: {error}", path=path) from error
        return found


def _listed(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as found:
            names = []
            for entry in found:
                names.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    raise InputError(f"has more than {MOST_ENTRIES} files", path=directory)
            return names
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=directory) from error


# How many parts of a path name the directory of tests or solutions that it is in; None if it is in none.
def _first_of_scope(parts: tuple[str, ...]) -> int | None:
    if parts[:1] in (("tests",), ("solution",)):
        return 1
    if len(parts) >= 3 and parts[0] == "steps" and parts[2] in ("tests", "solution"):
        return 3
    return None


def _digest_of(path: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with os.fdopen(open_regular(path, follow=False), "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    return digest.digest()


def _reason(error: Any) -> str:
    is_loop = isinstance(error, RuntimeError) or error.errno == errno.ELOOP
    return "it is a link to itself" if is_loop else str(error.strerror)
