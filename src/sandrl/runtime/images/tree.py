"""Writes the files of a layer below one directory, as an overlay takes them, and nowhere else.

An archive names files by paths, and may make a link first and then name a file through it. So each path is walked from
the directory of the layer, one component at a time, without following links in the kernel: a link is resolved here, as
if the layer's directory were the root.

A whiteout becomes a character device 0:0, which any user may make, and an opaque directory gets an attribute. Both hide
files of lower layers only, not those of the same layer. Devices are left out.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sandrl.runtime.images.archive import ArchiveError, Entry

OPAQUE = "user.overlay.opaque"
"""The attribute of a directory whose content in lower layers is hidden, in a mount with `userxattr`."""

_WHITEOUT, _SPECIAL_WHITEOUT, _OPAQUE_WHITEOUT = b".wh.", b".wh..wh.", b".wh..wh..opq"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_MOST_DEPTH = 200
_MOST_PATH_BYTES = 4096
_MODES = 0o7777
_SHOWN_BYTES = 200
_FOREIGN = (b"user.overlay.", b"user.fuseoverlayfs.", b"user.containers.")
# The file system has no attributes, not so many, or this user may not set one.
_NO_ATTRIBUTE = frozenset({errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.E2BIG, errno.ERANGE, errno.EINVAL})
_IMPOSSIBLE = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EMLINK,
        errno.EILSEQ,
        errno.EFBIG,
    }
)
# Of directories that no archive names.
_DEFAULTS = Entry(b"", tarfile.DIRTYPE, 0o755, 0, 0, 0, 0, 0, b"")


class Tree:
    """The directory of one layer while its archive is unpacked.

    Args:
        root: A descriptor of the directory, which is empty.
        keeps_owners: Whether files get the owners that the archive says; else all belong to this user.
        below: The directories of the layers below, the highest first: a directory that the archive does not name, but
            has files of, is like that of a lower layer.
    """

    def __init__(self, root: int, *, keeps_owners: bool, below: Sequence[Path] = ()) -> None:
        self._root = root
        self._keeps_owners = keeps_owners
        self._below = below
        # By inode, because a directory may be reached by several paths.
        self._directories: dict[int, Entry | None] = {}
        self._opaque: set[int] = set()
        self._above: tuple[bytes, ...] | None = ()
        self._parent = os.dup(root)
        self.stored_bytes = 0
        """Bytes of the files on the disk, without what the file system adds."""

    def close(self) -> None:
        """Closes what is open; the descriptor of the root stays open."""
        os.close(self._parent)

    def add(self, entry: Entry, content: Iterator[bytes]) -> None:
        """Writes one entry.

        Raises:
            ArchiveError: If it would lie outside of the directory, or cannot exist.
            OSError: If it cannot be written.
        """
        *above, name = _components(entry.name) or [b""]
        with _possible(entry.name):
            parent = self._open_parent(tuple(above))
            if name.startswith(_WHITEOUT):
                self._hide(parent, name)
            elif not name:
                self._set_root(entry)
            else:
                self._write(parent, name, entry, content)

    def finish(self) -> None:
        """Gives directories their owners, modes and times, after the last entry.

        Raises:
            ArchiveError: If one cannot exist.
            OSError: If that fails.
        """
        for path, _, _, descriptor in os.fwalk(b".", topdown=False, follow_symlinks=False, dir_fd=self._root):
            inode = os.fstat(descriptor).st_ino
            if inode in self._opaque:
                os.setxattr(descriptor, OPAQUE, b"y")
            with _possible(path):
                self._describe(descriptor, self._directories.get(inode) or self._inherited(path))

    def _write(self, parent: int, name: bytes, entry: Entry, content: Iterator[bytes]) -> None:
        match entry.kind:
            case tarfile.DIRTYPE:
                self._make_directory(parent, name, entry)
            case tarfile.REGTYPE:
                self._make_room(parent, name)
                self._write_file(parent, name, entry, content)
            case tarfile.SYMTYPE:
                self._make_room(parent, name)
                os.symlink(entry.link, name, dir_fd=parent)
                self._own(parent, name, entry)
            case tarfile.LNKTYPE:
                self._link(parent, name, entry)
            case tarfile.FIFOTYPE:
                self._make_room(parent, name)
                os.mkfifo(name, 0o600, dir_fd=parent)
                self._own(parent, name, entry)
                # Right after it was made, it is no link.
                os.chmod(name, entry.mode & _MODES, dir_fd=parent)
            case tarfile.CHRTYPE | tarfile.BLKTYPE:
                pass
            case _:
                raise ArchiveError(f"has an entry of an unknown type: {shown(entry.name)}")

    def _open_parent(self, above: tuple[bytes, ...]) -> int:
        if above != self._above:
            descriptor = self._walk(above, make=True)
            os.close(self._parent)
            self._above, self._parent = above, descriptor
        return self._parent

    def _walk(self, path: tuple[bytes, ...], *, make: bool) -> int:
        # The descriptors of the directories from the root to here.
        opened = [os.dup(self._root)]
        pending, links = list(reversed(path)), 0
        try:
            while pending:
                part = pending.pop()
                if part == b"..":
                    if len(opened) > 1:
                        os.close(opened.pop())
                    continue
                try:
                    opened.append(self._step(opened[-1], part, make=make))
                except NotADirectoryError:
                    target = os.readlink(part, dir_fd=opened[-1])
                    links += 1
                    if target.startswith(b"/"):
                        while len(opened) > 1:
                            os.close(opened.pop())
                    pending += [each for each in reversed(target.split(b"/")) if each not in (b"", b".")]
                if links > _MOST_LINKS or len(opened) > _MOST_DEPTH:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            return os.dup(opened[-1])
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _step(self, parent: int, name: bytes, *, make: bool) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            if not make:
                raise
            self._new_directory(parent, name, None)
        except NotADirectoryError:
            if not make or not _is_whiteout(os.stat(name, dir_fd=parent, follow_symlinks=False)):
                raise
            self._make_directory(parent, name, None)
        return os.open(name, _DIRECTORY, dir_fd=parent)

    def _make_directory(self, parent: int, name: bytes, entry: Entry | None) -> None:
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self._keep(parent, name, found.st_ino, entry)
                return
            self._remove(parent, name)
            # What is removed hid a directory of lower layers, which this one must not show.
            self._opaque.add(self._new_directory(parent, name, entry))
            return
        self._new_directory(parent, name, entry)

    def _new_directory(self, parent: int, name: bytes, entry: Entry | None) -> int:
        os.mkdir(name, 0o700, dir_fd=parent)
        inode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_ino
        self._keep(parent, name, inode, entry)
        self._opaque.discard(inode)
        return inode

    def _keep(self, parent: int, name: bytes, inode: int, entry: Entry | None) -> None:
        # Only what is small is kept until the end, because an archive may have many directories.
        if entry is not None and entry.attributes:
            descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
            try:
                _set_attributes(descriptor, entry)
            finally:
                os.close(descriptor)
        self._directories[inode] = entry and replace(entry, name=b"", link=b"", attributes=_DEFAULTS.attributes)

    def _inherited(self, path: bytes) -> Entry:
        for layer in self._below:
            try:
                found = _stat_below(layer, path)
            except FileNotFoundError:
                continue
            except OSError:
                break
            mode, times = stat.S_IMODE(found.st_mode), found.st_mtime_ns
            return replace(_DEFAULTS, mode=mode, user=found.st_uid, group=found.st_gid, modified=times)
        return _DEFAULTS

    def _set_root(self, entry: Entry) -> None:
        if entry.kind != tarfile.DIRTYPE:
            raise ArchiveError("has an entry for its root that is not a directory")
        self._keep(self._root, b".", os.fstat(self._root).st_ino, entry)

    def _write_file(self, parent: int, name: bytes, entry: Entry, content: Iterator[bytes]) -> None:
        descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=parent)
        try:
            _fill(descriptor, entry, content)
            self._describe(descriptor, entry)
        finally:
            os.close(descriptor)
        self.stored_bytes += entry.stored

    def _link(self, parent: int, name: bytes, entry: Entry) -> None:
        *above, source = _components(entry.link) or [b""]
        try:
            descriptor = self._walk(tuple(above), make=False)
        except OSError as error:
            raise ArchiveError(f"has a hard link to nothing in its layer: {shown(entry.name)}") from error
        try:
            found = os.stat(source, dir_fd=descriptor, follow_symlinks=False)
            if _is_whiteout(found) or stat.S_ISDIR(found.st_mode):
                raise FileNotFoundError
            with suppress(FileNotFoundError):
                if os.path.samestat(found, os.stat(name, dir_fd=parent, follow_symlinks=False)):
                    return
            self._make_room(parent, name)
            os.link(source, name, src_dir_fd=descriptor, dst_dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError as error:
            raise ArchiveError(f"has a hard link to nothing in its layer: {shown(entry.name)}") from error
        finally:
            os.close(descriptor)

    def _hide(self, parent: int, name: bytes) -> None:
        if name == _OPAQUE_WHITEOUT:
            self._opaque.add(os.fstat(parent).st_ino)
        elif not name.startswith(_SPECIAL_WHITEOUT):
            hidden = name.removeprefix(_WHITEOUT)
            if hidden in (b"", b".", b".."):
                raise ArchiveError("has a whiteout of nothing")
            try:
                found = os.stat(hidden, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                os.mknod(hidden, stat.S_IFCHR | 0o600, os.makedev(0, 0), dir_fd=parent)
            else:
                if stat.S_ISDIR(found.st_mode):
                    self._opaque.add(found.st_ino)

    def _make_room(self, parent: int, name: bytes) -> None:
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=parent, follow_symlinks=False)
            self._remove(parent, name)

    def _remove(self, parent: int, name: bytes) -> None:
        try:
            os.unlink(name, dir_fd=parent)
        except IsADirectoryError:
            shutil.rmtree(name, dir_fd=parent)
        # The same path may lead elsewhere now.
        self._above = None

    def _describe(self, descriptor: int, entry: Entry) -> None:
        # A change of the owner removes capabilities and setuid bits; a mode may forbid to set attributes.
        if self._keeps_owners:
            os.fchown(descriptor, entry.user, entry.group)
        _set_attributes(descriptor, entry)
        os.fchmod(descriptor, entry.mode & _MODES)
        os.utime(descriptor, ns=(entry.modified, entry.modified))

    def _own(self, parent: int, name: bytes, entry: Entry) -> None:
        if self._keeps_owners:
            os.chown(name, entry.user, entry.group, dir_fd=parent, follow_symlinks=False)
        os.utime(name, ns=(entry.modified, entry.modified), dir_fd=parent, follow_symlinks=False)


def shown(name: bytes) -> str:
    """A name of an archive as messages show it: of any bytes, and not long."""
    return ascii(name[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"))


@contextmanager
def _possible(name: bytes) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in _IMPOSSIBLE:
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArchiveError(f"has an entry that cannot exist: {shown(name)}: {reason}") from error


def _components(path: bytes) -> list[bytes]:
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise ArchiveError(f"has a name with `..`, which a layer cannot have: {shown(path)}")
    if len(path) > _MOST_PATH_BYTES or len(parts) > _MOST_DEPTH:
        raise ArchiveError(f"has a name that is too long or too deep: {shown(path)}")
    return parts


def _stat_below(root: Path, path: bytes) -> os.stat_result:
    # A directory, without following links.
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for part in _components(path):
            following = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = following
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _fill(descriptor: int, entry: Entry, content: Iterator[bytes]) -> None:
    if entry.extents is None:
        for chunk in content:
            _write_at(descriptor, chunk, None)
        return
    rest = b""
    for offset, length in entry.extents:
        while length:
            rest = rest or next(content)
            part, rest = rest[:length], rest[length:]
            _write_at(descriptor, part, offset)
            offset, length = offset + len(part), length - len(part)
    os.ftruncate(descriptor, entry.size)


def _write_at(descriptor: int, data: bytes, offset: int | None) -> None:
    view = memoryview(data)
    while view:
        written = os.write(descriptor, view) if offset is None else os.pwrite(descriptor, view, offset)
        offset = None if offset is None else offset + written
        view = view[written:]


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _set_attributes(descriptor: int, entry: Entry) -> None:
    for key, value in entry.attributes.items():
        if key != b"security.capability" and (not key.startswith(b"user.") or key.startswith(_FOREIGN)):
            continue
        try:
            os.setxattr(descriptor, key, value)
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTE:
                raise
