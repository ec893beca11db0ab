"""The files of a store: blobs by digest and unpacked layers, each made once and never seen in part.

A process that needs a blob or a layer holds a shared lock of it until an image names it. Only the holder of an
exclusive lock makes or removes one. It is made under another name and renamed when it is complete, so the files of a
killed process are not part of the store; the next holder of the lock replaces them.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from io import BufferedRandom
from pathlib import Path

from sandrl.errors import InputError
from sandrl.files import sync_directory, write_whole
from sandrl.runtime.guest.storage import remove_tree
from sandrl.runtime.images import locks
from sandrl.runtime.images.archive import ArchiveError
from sandrl.runtime.images.compression import CompressionError
from sandrl.runtime.images.source import Descriptor, Source
from sandrl.runtime.images.unpack import NoSpaceError, unpack, unwritable
from sandrl.settings import private_directory

NEW, OLD = ".new-", ".old-"
"""Prefixes of directories beside the layers: those being made, and those being removed."""

_LAYER_DIGITS = 24
_CHUNK = 1 << 20
_WAIT_SECONDS = 0.02

Tell = Callable[[int], None]
"""Is told how many bytes of a blob are done."""


class Contents:
    """The directories of a store.

    Args:
        keeps_owners: Whether files of layers get the owners of their archives, which only root can give.

    Raises:
        SandrlError: If the directory cannot be made, or is not private.
    """

    def __init__(self, root: Path, *, keeps_owners: bool) -> None:
        self.root = root
        self.blobs = root / "blobs" / "sha256"
        self.layers = root / "layers"
        self.partial = root / "partial"
        self.sizes = root / "sizes"
        self.locks = root / "locks"
        self._keeps_owners = keeps_owners

    def make(self) -> None:
        """Makes the directories that are missing.

        Raises:
            SandrlError: If one cannot be made, or others can write to the store.
        """
        for directory in (self.root.parent, self.root):
            private_directory(directory, variable="SANDRL_CACHE_DIR")
        try:
            # Images have setuid programs, which other users must not reach.
            self.root.chmod(0o700)
            for directory in (self.blobs, self.layers, self.partial, self.sizes, self.locks):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.root, error) from error

    def blob(self, digest: str) -> Path:
        return self.blobs / digest.removeprefix("sha256:")

    def layer(self, diff_id: str) -> Path:
        return self.layers / layer_name(diff_id)

    def lock_of(self, content: Path) -> Path:
        """The file whose lock decides who may make or remove a blob or a layer."""
        return self.locks / f"{content.parent.name}-{content.name.removeprefix(NEW)}"

    def layer_bytes(self, name: str) -> int:
        """Bytes of the files of a layer, as they are stored."""
        try:
            return int((self.sizes / name).read_text("ascii"))
        except (OSError, ValueError):
            return 0

    def obtain_blob(self, source: Source, wanted: Descriptor, held: ExitStack, tell: Tell) -> Path:
        """Copies a blob to the store unless it is there; it stays there until `held` is closed.

        Raises:
            SandrlError: If the source cannot be read, or gives another content.
        """
        path = self.blob(wanted.digest)
        self._obtain(path, lambda: self._copy(source, wanted, path, tell), held)
        return path

    def obtain_layer(
        self, blob: Path, diff_id: str, below: Sequence[Path], held: ExitStack, tell: Tell, described: str
    ) -> Path:
        """Unpacks a layer unless it is there; it stays there until `held` is closed.

        `below` are the layers below it in the image, the highest first.

        Raises:
            SandrlError: If it is damaged, hostile, or there is no room.
        """
        path = self.layer(diff_id)
        self._obtain(path, lambda: self._unpack(blob, diff_id, path, below, tell, described), held)
        return path

    def _obtain(self, path: Path, make: Callable[[], None], held: ExitStack) -> None:
        lock = self.lock_of(path)
        while True:
            descriptor = locks.take_free(lock, exclusive=False)
            if descriptor is not None and path.exists():
                break
            if descriptor is not None:
                os.close(descriptor)
            descriptor = locks.take_free(lock, exclusive=True)
            if descriptor is None:
                # Nobody waits while holding an exclusive lock, so this one is let go at last.
                time.sleep(_WAIT_SECONDS)
                continue
            with ExitStack() as failed:
                failed.callback(os.close, descriptor)
                if not path.exists():
                    make()
                # Not in one step: another may have taken the lock between, and removed the content.
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                if path.exists():
                    failed.pop_all()
                    break
        held.callback(os.close, descriptor)

    def _copy(self, source: Source, wanted: Descriptor, path: Path, tell: Tell) -> None:
        partial = self.partial / path.name
        try:
            while True:
                with partial.open("a+b") as file:
                    resumed = _receive(file, source, wanted, tell)
                    is_right = _digest_of(file) == wanted.digest and file.tell() == wanted.size
                    os.fsync(file.fileno())
                if is_right:
                    partial.rename(path)
                    sync_directory(path.parent)
                    return
                partial.unlink()
                if not resumed:
                    raise _damaged(source, wanted)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise unwritable(self.root, error) from error

    def _unpack(self, blob: Path, diff_id: str, path: Path, below: Sequence[Path], tell: Tell, described: str) -> None:
        new = path.with_name(NEW + path.name)
        remove_tree(str(new))
        try:
            new.mkdir(mode=0o700)
            with blob.open("rb") as file:
                done = unpack(file, new, keeps_owners=self._keeps_owners, below=below, tell=lambda: tell(file.tell()))
                tell(file.seek(0, os.SEEK_END))
            if done.diff_id != diff_id:
                raise ArchiveError(f"its plain content is {done.diff_id}, but the configuration says {diff_id}")
            _synchronize(self.layers)
            write_whole(self.sizes / path.name, str(done.stored_bytes).encode())
            new.rename(path)
        except (ArchiveError, CompressionError) as error:
            raise InputError(f"layer sha256:{blob.name[:12]} {error}", path=described) from error
        except (OSError, NoSpaceError) as error:
            raise unwritable(self.root, error) from error
        finally:
            remove_tree(str(new))


def layer_name(diff_id: str) -> str:
    """The name of the directory of a layer."""
    return diff_id.removeprefix("sha256:")[:_LAYER_DIGITS]


def _receive(file: BufferedRandom, source: Source, wanted: Descriptor, tell: Tell) -> bool:
    # Whether it goes on after what an earlier process has received.
    start = done = file.seek(0, os.SEEK_END)
    if start < wanted.size or not start:
        for chunk in source.blob(wanted.digest, wanted.size, start):
            file.write(chunk)
            done += len(chunk)
            tell(done)
            if done > wanted.size:
                break
    file.flush()
    return start > 0


def _digest_of(file: BufferedRandom) -> str:
    file.seek(0)
    return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _damaged(source: Source, wanted: Descriptor) -> InputError:
    return InputError(
        f"is damaged: the content of {wanted.digest[:19]}… has another size or digest",
        path=source.describe(),
        hint="get the image again from where it comes from",
    )


def _synchronize(directory: Path) -> None:
    # A layer that is named must be whole after a power failure, too; a call for each file would take longer.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)
