"""Tar archives of directories of a sandbox, written and read as streams, by a process of the sandbox itself.

An archive may hold anything that code of the sandbox has made, so it is made, and unpacked, inside. The host only keeps
it.
"""

from __future__ import annotations

import os
import stat
import tarfile
from typing import Any, BinaryIO

_BUFFER_BYTES = 1 << 18
_REMOVED, _OPAQUE = ".wh.", ".wh..wh..opq"
_OF_RUNTIME = frozenset(("./dev", "./proc", "./etc/hosts", "./etc/hostname", "./etc/resolv.conf", "./run/sandrl"))
# Directories that each sandbox has from the start: unless they were changed, those of the image stay as they are.
_MADE_BY_RUNTIME = {".": (0o755, 0, 0), "./etc": (0o755, 0, 0), "./tmp": (0o1777, 0, 0)}
_OWNER_READS, _OWNER_ENTERS = 0o400, 0o500
# Names of users would be looked up in the sandbox's own files, by libraries that this process cannot load.
_LIBRARY: Any = tarfile
_LIBRARY.pwd = _LIBRARY.grp = None


class _Padded:
    """A file of which at least as much is read as it had at first, with zeros where it has become shorter."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return self._file.read(size).ljust(size, b"\0")


def write(directory: str, output: int) -> None:
    """Write an archive of all that is in a directory, the directory itself included."""
    os.chdir(directory)
    _write(output, is_layer=False)


def write_layer(upper: int, output: int, left_out: frozenset[str] = frozenset()) -> None:
    """Write the upper directory of an overlay as a layer of an image.

    A layer has files named `.wh.NAME` where the kernel has devices without a number and attributes. It has nothing of
    what the runtime puts into each sandbox, and not the files `left_out`, nor directories of these names that have
    nothing else.
    """
    os.fchdir(upper)
    names = {f"./{each.strip('/')}" for each in left_out}
    _write(output, is_layer=True, left_out=frozenset(names))


def _write(output: int, *, is_layer: bool, left_out: frozenset[str] = frozenset()) -> None:
    form: Any = {"mode": "w|", "bufsize": _BUFFER_BYTES, "format": tarfile.PAX_FORMAT}
    with os.fdopen(output, "wb", closefd=False) as stream, tarfile.open(fileobj=stream, **form) as archive:
        _add(archive, ".", is_layer, left_out)


def _is_left_out(path: str, status: os.stat_result, left_out: frozenset[str]) -> bool:
    if path not in left_out:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return True
    below = [f"{path}/{name}" for name in _names(path)]
    return all(_is_left_out(each, os.lstat(each), left_out) for each in below)


def _add(archive: tarfile.TarFile, path: str, is_layer: bool, left_out: frozenset[str] = frozenset()) -> None:
    status = os.lstat(path)
    if _is_left_out(path, status, left_out):
        return
    if stat.S_ISSOCK(status.st_mode) or (is_layer and path in _OF_RUNTIME):
        return  # nobody listens after the sandbox
    if is_layer and stat.S_ISCHR(status.st_mode):
        directory, _, name = path.rpartition("/")
        archive.addfile(tarfile.TarInfo(f"{directory}/{_REMOVED}{name}"))
        return
    member = archive.gettarinfo(path)
    if member.isreg():
        with _opened(path) as file:
            archive.addfile(member, _Padded(file))  # type: ignore[arg-type] # it reads, and nothing else is needed
        return
    if not (is_layer and _MADE_BY_RUNTIME.get(path) == (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)):
        archive.addfile(member)
    if member.isdir():
        if is_layer and _is_opaque(path):
            archive.addfile(tarfile.TarInfo(f"{path}/{_OPAQUE}"))
        for name in sorted(_names(path)):
            try:
                _add(archive, f"{path}/{name}", is_layer, left_out)
            except FileNotFoundError:
                continue  # a program has removed it meanwhile


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, "user.overlay.opaque") == b"y"
    except OSError:
        return False


def _opened(path: str) -> BinaryIO:
    # Nothing but the owner's own permissions can be in the way.
    descriptor = _permitted(path, _OWNER_READS, lambda: os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    return os.fdopen(descriptor, "rb")


def _names(path: str) -> list[str]:
    return list(_permitted(path, _OWNER_ENTERS, lambda: os.listdir(path)))


def _permitted(path: str, mode: int, action: Any) -> Any:
    try:
        return action()
    except PermissionError:
        before = stat.S_IMODE(os.lstat(path).st_mode)
        os.chmod(path, before | mode)
        try:
            return action()
        finally:
            os.chmod(path, before)


def read(directory: str, source: int) -> None:
    """Unpack an archive in a directory."""
    with os.fdopen(source, "rb", closefd=False) as stream:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER_BYTES) as archive:
            # It may hold whatever a sandbox may do itself, and nothing is outside of the sandbox.
            archive.extraction_filter = lambda member, _path: member
            archive.extractall(directory)
        while stream.read(_BUFFER_BYTES):  # padding, without which the writer would meet a closed pipe
            continue
