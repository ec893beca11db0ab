"""Sets of tasks by name: `harbor:NAME@VERSION` of a registry, and `git+ADDRESS@REVISION#DIRECTORY` of a repository.

A registry is a JSON file, as Harbor has it: sets with a name and a version, and their tasks, each a directory of a git
repository at a commit, or one beside the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import httpx
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sandrl.errors import InputError, ServiceError
from sandrl.files import read_regular
from sandrl.problems.tasks.checkouts import checked_out, shown
from sandrl.problems.tasks.sources import find_tasks
from sandrl.settings import load_settings
from sandrl.suggestions import VALUES, near

HARBOR, GIT = "harbor:", "git+"
"""What the names of such sources begin with."""

PUBLIC_REGISTRY = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"
_MOST_BYTES = 256 << 20
_SECONDS = 60.0
_ANOTHER = "SANDRL_HARBOR_REGISTRY names another registry, a file or an address"


class _TaskEntry(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str | None = None
    git_url: str | None = None
    git_commit_id: str | None = None
    path: str


class _SetEntry(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    version: str
    tasks: list[_TaskEntry]


_REGISTRY = TypeAdapter(list[_SetEntry])


def found_tasks(source: str) -> list[tuple[str, Path]]:
    """The names and directories of the tasks of a source whose name begins with `harbor:` or `git+`.

    They are fetched if they are not on this machine.

    Raises:
        InputError: If there is no such set, or it names what cannot be used.
        ServiceError: If the registry or a repository cannot be reached.
    """
    return _of_repository(source) if source.startswith(GIT) else _of_registry(source.removeprefix(HARBOR))


def _of_repository(source: str) -> list[tuple[str, Path]]:
    address, _, path = source.removeprefix(GIT).partition("#")
    # A user may stand before the host.
    url, at, revision = address.rpartition("@")
    if not at or "/" not in url.partition("://")[2]:
        url, revision = address, ""
    [checkout] = checked_out(url, revision or None, [path])
    tasks = find_tasks(checkout.directory)
    if not tasks:
        raise InputError("has no tasks in it", path=shown(source), hint="name the directory of the tasks after a #")
    return tasks


def _of_registry(wanted: str) -> list[tuple[str, Path]]:
    location = load_settings().harbor_registry or PUBLIC_REGISTRY
    is_local = "://" not in location
    found: list[tuple[str, Path]] = []
    by_commit: dict[tuple[str, str | None], list[_TaskEntry]] = {}
    for task in _chosen(_read(location), wanted, location).tasks:
        if task.git_url is not None:
            by_commit.setdefault((task.git_url, task.git_commit_id), []).append(task)
            continue
        if not is_local:
            message = f"{task.path!r:.80} is a directory of this machine, which a registry of others cannot name"
            raise InputError(message, path=shown(location), field="path")
        directory = Path(location).resolve().parent / task.path
        found.append((task.name or directory.name, directory))
    for (url, commit), tasks in by_commit.items():
        checkouts = checked_out(url, commit, [task.path for task in tasks], local=is_local)
        found += [
            (task.name or place.directory.name, place.directory) for task, place in zip(tasks, checkouts, strict=True)
        ]
    if not found:
        raise InputError(f"the set {wanted!r:.80} has no tasks", path=shown(location))
    return found


def _chosen(sets: Sequence[_SetEntry], wanted: str, location: str) -> _SetEntry:
    name, _, version = wanted.partition("@")
    versions = {each.version: each for each in sets if each.name == name}
    if not versions:
        meant = near(name, [each.name for each in sets], VALUES)
        raise InputError(
            f"has no set {name!r:.80}{meant}",
            path=shown(location),
            hint=_ANOTHER,
        )
    if not version:
        return versions[max(versions, key=_order)]
    if version not in versions:
        known = ", ".join(sorted(versions, key=_order))
        raise InputError(
            f"has the set {name!r} in the versions {known:.300}, not {version!r:.80}", path=shown(location)
        )
    return versions[version]


# As Harbor chooses: `head`, else the highest version, else the last by letters.
def _order(version: str) -> tuple[int, Version, str]:
    try:
        return (2 if version == "head" else 1), Version(version), version
    except InvalidVersion:
        return (2 if version == "head" else 0), Version("0"), version


def _read(location: str) -> list[_SetEntry]:
    try:
        content = _downloaded(location) if "://" in location else read_regular(location, _MOST_BYTES)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=shown(location)) from error
    try:
        return _REGISTRY.validate_python(json.loads(content))
    except (ValueError, RecursionError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        hint = "a registry is an array of sets, each with name, version and tasks"
        raise InputError(f"is not a registry of tasks: {reason:.200}", path=shown(location), hint=hint) from error


def _downloaded(url: str) -> bytes:
    try:
        with httpx.stream("GET", url, timeout=_SECONDS, follow_redirects=True) as response:
            response.raise_for_status()
            content = bytearray()
            for part in response.iter_bytes():
                content += part
                if len(content) > _MOST_BYTES:
                    raise InputError(f"is larger than {_MOST_BYTES >> 20} MiB", path=shown(url))
            return bytes(content)
    except httpx.HTTPError as error:
        raise ServiceError(
            f"the registry {shown(url)} cannot be read: {shown(str(error)) or type(error).__name__}", hint=_ANOTHER
        ) from error
