"""Files of a task for its machine, and files that are collected from the machine for a verifier.

Collected files were written in a sandbox. They are never extracted on this machine, and links that leave the collected
path are left out, so that an artifact cannot be a link to the tests.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sandrl.errors import InfrastructureError, InputError
from sandrl.problems.tasks.content import TaskContent
from sandrl.problems.tasks.task import Artifact, Task
from sandrl.trials.entries import MOST_BYTES as LARGEST_INPUT
from sandrl.trials.entries import Entry, of_archive
from sandrl.trials.machine import Machine, TooLargeError

ARTIFACTS_DIRECTORY = "/logs/artifacts"
WORKING_DIRECTORY = Artifact(".", ".")
"""The working directory of the machine, as an artifact; nothing if that is the root."""

MOST_BYTES = 256 << 20
"""The most that is collected of one path; where there is more, nothing of it is."""


def files_of(task: Task, directories: Iterable[str], files: Iterable[tuple[str, bytes]] = ()) -> list[Entry]:
    """The content of directories of a task, one over the other, and further files.

    Raises:
        InputError: If a directory cannot be read, or has too much.
    """
    found: dict[str, Entry] = {}
    left = LARGEST_INPUT
    for directory in filter(None, directories):
        content = TaskContent(task.directory)
        for each in content.entries(directory):
            if each.target:
                found[each.name] = Entry(each.name, 0o777, target=each.target)
            elif each.is_directory:
                found[each.name] = Entry(each.name, each.mode)
            else:
                data = content.read(str(each.path), most_bytes=left)
                left -= len(data)
                found[each.name] = Entry(each.name, each.mode, data)
    for name, data in files:
        found[name] = Entry(name, 0o755 if data.startswith(b"#!") else 0o644, data)
    return list(found.values())


def collected(machine: Machine, artifacts: Iterable[Artifact], directory: str) -> list[tuple[str, list[Entry]]]:
    """Artifacts and `/logs/artifacts`, each with the directory that it is put into; best effort.

    Args:
        directory: The working directory; empty if none of them is that. The machine is not asked, because its shell may
            be the agent's.

    Raises:
        InfrastructureError, RuntimeLost: If the sandbox, or the runtime, was lost.
    """
    found: list[tuple[str, list[Entry]]] = []
    for artifact in (Artifact(ARTIFACTS_DIRECTORY), *artifacts):
        source = posixpath.normpath(posixpath.join(ARTIFACTS_DIRECTORY, artifact.source))
        if artifact is WORKING_DIRECTORY:
            source = posixpath.normpath(directory or "/")
            if source == "/":
                continue
        try:
            archive = machine.get(source, exclude=artifact.exclude, most_bytes=MOST_BYTES)
            if archive is not None:
                found.append((posixpath.dirname(source), _of_path(posixpath.basename(source), of_archive(archive))))
        except (InputError, TooLargeError):
            continue
        except InfrastructureError:
            if machine.is_lost:
                raise
    return found


def _of_path(root: str, entries: Sequence[Entry]) -> list[Entry]:
    # The program that made the archive may be the agent's: it has nothing but the path, nor anything "in" a link.
    # Files will be those of root, so one that runs as its owner would be a program of root.
    no_directories = {entry.name for entry in entries if not entry.is_directory}

    def is_below(name: str) -> bool:
        parts = name.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        return (not root or parts[0] == root) and no_directories.isdisjoint(above)

    return [
        replace(entry, mode=entry.mode & 0o777)
        for entry in entries
        if is_below(entry.name) and (entry.target is None or _stays(entry))
    ]


def _stays(link: Entry) -> bool:
    # The first entry is the collected path itself; no link in it may leave it.
    target = link.target or ""
    if not target or target.startswith("/"):
        return False
    parts = target.split("/")
    ups = next((place for place, part in enumerate(parts) if part not in ("..", ".", "")), len(parts))
    # The parents of an entry are directories, so `..` at the beginning means what it says; after a link it does not.
    root = link.name.split("/")[0]
    inner = posixpath.normpath(posixpath.join(posixpath.dirname(link.name), target))
    return ".." not in parts[ups:] and link.name != root and (inner == root or inner.startswith(f"{root}/"))
