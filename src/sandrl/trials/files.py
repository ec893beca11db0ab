"""Programs that read and write a file as a user of a machine, and what their failure means."""

from __future__ import annotations

import errno
import os

NOT_FOUND, IS_DIRECTORY = 44, 47

READ = rf"""[ -e "$1" ] || exit {NOT_FOUND}
[ ! -d "$1" ] || exit {IS_DIRECTORY}
exec cat -- "$1" """
"""Writes the content of a file to its output."""

WRITE = rf"""[ ! -d "$1" ] || exit {IS_DIRECTORY}
case $1 in */*) mkdir -p -- "${{1%/*}}/";; esac && exec cat >"$1" """
"""Makes a file of its input, and the directories above it."""

_WORDS = {
    "permission denied": errno.EACCES,
    "operation not permitted": errno.EPERM,
    "read-only file system": errno.EROFS,
    "not a directory": errno.ENOTDIR,
    "no space left": errno.ENOSPC,
    "quota exceeded": errno.EDQUOT,
    "file name too long": errno.ENAMETOOLONG,
}


def error_of(exit_code: int | None, stderr: bytes, path: str) -> OSError:
    """The failure of such a program, as for a file of this machine."""
    number = {NOT_FOUND: errno.ENOENT, IS_DIRECTORY: errno.EISDIR}.get(exit_code or 0)
    said = stderr.decode("utf-8", "replace").strip()
    if number is None:
        number = next((each for words, each in _WORDS.items() if words in said.lower()), None)
    if number is None:
        return OSError(errno.EIO, said[-300:] or f"exit code {exit_code}", path)
    return OSError(number, os.strerror(number), path)
