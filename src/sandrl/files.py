"""Opens and replaces files in directories that others can write to, and checks the limit of open files.

A file in a cache, a registry or a run directory may be a FIFO, which blocks its reader, a link to an endless device, or
larger than memory. So a file is opened without waiting, must be a regular file, and is read up to a limit.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sandrl.errors import InputError, UsageError

LEAST_FREE_DESCRIPTORS = 32
"""How many files a process must still be able to open to use sandboxes; it opens about half as many."""

_ENOUGH_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raises this process's limit of open files as far as it may, up to a number that is enough for anything."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def kept_secret(path: Path, secret: str) -> Iterator[Path]:
    """Keeps a secret in a file that only its user can read, for the length of a `with` block."""
    write_whole(path, secret.encode())
    try:
        yield path
    finally:
        with suppress(OSError, ValueError):
            # Unless another process has written its own there.
            if path.read_text("ascii") == secret:
                path.unlink()


def check_descriptors() -> None:
    """Refuses to go on where this process cannot open the files that it will need; gRPC would crash.

    Raises:
        UsageError: If its limit leaves too few.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        used = limit if error.errno == errno.EMFILE else 0
    if limit - used < LEAST_FREE_DESCRIPTORS:
        raise UsageError(
            f"too few files can be opened to use sandboxes: the limit of this process is {limit}, and {used} are open",
            hint="raise the limit: ulimit -n 4096",
        )


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A directory to be filled in a `with` block, at whose end it is there under its name, whole.

    Raises:
        InputError: If there is something under its name other than an empty directory, or it cannot be made.
    """
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError("already exists and is not empty", path=target, hint="choose another directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
            made = Path(temporary, "made")
            made.mkdir()
            yield made
            made.rename(target)
    except OSError as error:
        raise InputError(f"cannot be created: {error.strerror}", path=target) from error


def open_regular(path: str | Path, *, follow: bool = True) -> int:
    """Opens a regular file for reading, without waiting, or with `follow` a link to one; returns its descriptor.

    Raises:
        OSError: If it cannot be opened, or is something else than a regular file.
    """
    links = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | links)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file", str(path))


def read_regular(path: str | Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """The content of a regular file of a limited size; with `follow`, also of a link to one.

    Raises:
        OSError: If it cannot be read, is something else than a regular file, or is larger.
    """
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"is larger than {most_bytes} bytes", str(path))
    return content


def write_whole(path: Path, content: bytes | Iterable[bytes], *, mode: int = 0o600, durable: bool = False) -> None:
    """Writes a file so that no reader ever sees a part of it; `durable` forces it to the disk.

    `mode` is for a new file: the permissions of a file that is replaced stay as its user has set them.

    Raises:
        OSError: If it cannot be written; the old file is then untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            with suppress(OSError):
                before = path.lstat().st_mode
                if stat.S_ISREG(before):
                    os.fchmod(descriptor, stat.S_IMODE(before))
            file.writelines([content] if isinstance(content, bytes) else content)
            if durable:
                file.flush()
                os.fsync(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Forces the names of a directory's files to the disk.

    Raises:
        OSError: If it cannot be opened or written.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_entry(directory: Path, key: str, most_bytes: int) -> Any:
    """The plain content that a cache keeps under a name, a digest in hexadecimal digits.

    Raises:
        OSError: If there is no such entry, or it cannot be read.
        ValueError: If it is no JSON.
        RecursionError: If it is nested too deep.
    """
    return json.loads(read_regular(_entry(directory, key), most_bytes, follow=False))


def write_entry(directory: Path, key: str, content: object) -> None:
    """Keeps plain content under a name, for `read_entry`.

    Raises:
        OSError: If it cannot be written.
    """
    path = _entry(directory, key)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(path, json.dumps(content, ensure_ascii=True).encode("ascii"))


def _entry(directory: Path, key: str) -> Path:
    return directory / key[:2] / f"{key[2:]}.json"
