"""What is put into the machine of a task from its files, and what is collected from it for a verifier.

A collected archive was written in a sandbox: it is never extracted on this machine, and only files, directories and links
that stay inside of it are handed to a verifier, so that an artifact cannot be a link to the tests.
"""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterable
from contextlib import suppress

from sandrl.problems.tasks.content import TaskContent
from sandrl.problems.tasks.task import Artifact, Task
from sandrl.trials.machine import Machine

ARTIFACTS_DIRECTORY = "/logs/artifacts"
MOST_BYTES = 256 << 20
"""The most that is collected of one path; more is left out, as what cannot be read is."""

_MOST_ENTRIES = 100_000
_LINK_LENGTH = 4096


def archive_of(task: Task, directories: Iterable[str], files: Iterable[tuple[str, bytes]] = ()) -> bytes:
    """A tar archive of the content of directories of a task, one over the other, and of further files.

    Raises:
        InputError: If a directory cannot be read, or has too much.
    """
    content = io.BytesIO()
    directories = tuple(directories)
    if directories:
        TaskContent(task.directory).write_archive(content, directories, files)
        return content.getvalue()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files:
            member = _member(name, tarfile.REGTYPE, 0o755 if data.startswith(b"#!") else 0o644)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def collected(machine: Machine, artifacts: Iterable[Artifact]) -> list[tuple[str, bytes]]:
    """Archives of artifacts, and of `/logs/artifacts`, each with the directory that it is put into; best effort."""
    found: list[tuple[str, bytes]] = []
    for artifact in (Artifact(ARTIFACTS_DIRECTORY), *artifacts):
        source = posixpath.normpath(posixpath.join(ARTIFACTS_DIRECTORY, artifact.source))
        archive = None
        with suppress(ValueError):
            archive = machine.get(source, exclude=artifact.exclude, most_bytes=MOST_BYTES)
            archive = None if archive is None else harmless(archive)
        if archive is not None:
            found.append((posixpath.dirname(source), archive))
    return found


def harmless(content: bytes) -> bytes:
    """A collected archive without what may deceive a verifier: links that leave it, devices, and special modes.

    Raises:
        ValueError: If it is no archive, or has too many entries.
    """
    kept = io.BytesIO()
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive,
            tarfile.open(fileobj=kept, mode="w", format=tarfile.PAX_FORMAT) as copy,
        ):
            links: set[str] = set()
            for count, member in enumerate(archive):
                if count > _MOST_ENTRIES:
                    raise ValueError(f"has more than {_MOST_ENTRIES} entries")
                name = posixpath.normpath(member.name)
                if not _is_inside(name) or any(name == link or name.startswith(f"{link}/") for link in links):
                    continue
                new = _member(name, member.type, member.mode & 0o777)
                if member.isreg():
                    new.size = member.size
                    copy.addfile(new, archive.extractfile(member))
                elif member.isdir():
                    copy.addfile(new)
                elif member.issym() and _stays(name, member.linkname):
                    links.add(name)
                    new.linkname = member.linkname
                    copy.addfile(new)
                elif member.islnk() and _is_inside(target := posixpath.normpath(member.linkname)):
                    new.linkname = target
                    copy.addfile(new)
    except (tarfile.TarError, OSError) as error:
        raise ValueError(f"is no archive: {error}") from error
    return kept.getvalue()


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and name != ".." and not name.startswith("../")


def _stays(name: str, target: str) -> bool:
    if not target or target.startswith("/") or len(target) > _LINK_LENGTH:
        return False
    parts = target.split("/")
    ups = next((place for place, part in enumerate(parts) if part not in ("..", ".")), len(parts))
    # The parents of an entry are directories, so `..` at the beginning means what it says; after a link it does not.
    root, inner = name.split("/")[0], posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return ".." not in parts[ups:] and name != root and (inner == root or inner.startswith(f"{root}/"))
