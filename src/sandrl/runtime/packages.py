"""Read-only overlays of installed packages, for code that may import more than the standard library.

An overlay is a directory of hard links (copies where the file system has none) to the files of the named
distributions and what they require, taken from the environment that runs sandrl. Its name is a digest of exactly
that, so it is built once and shared by every sandbox that asks for the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import uuid
from collections.abc import Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from sandrl.errors import UsageError
from sandrl.installation import package_command
from sandrl.runtime.host.images import parse_reference
from sandrl.runtime.state import RuntimeDirectory


def build_overlay(names: Sequence[str], state_dir: Path, *, image: str) -> str:
    """Make sure the overlay of some packages exists.

    Args:
        names: Distributions, by the names pip knows them by.
        state_dir: The user's state directory.
        image: Image the overlay is for; its Python version must be the one that runs sandrl.

    Returns:
        The overlay's name, for the annotation `sandrl.dev/packages`.

    Raises:
        UsageError: If a package is not installed, has no files of its own, or was built for another Python.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if parse_reference(image) != own:
        raise UsageError(
            f"packages takes packages of Python {own}, which runs sandrl, and the image is {image}",
            hint=f"use `image` python:{own}",
            fields=("packages", "image"),
        )
    distributions = _closure(names)
    overlays = RuntimeDirectory(state_dir).overlays
    overlays.mkdir(mode=0o755, exist_ok=True)
    overlay = overlays / _digest(distributions)
    if not overlay.is_dir():
        building = overlays / f".{overlay.name}-{uuid.uuid4().hex}"
        try:
            for found in distributions.values():
                _add(found, building)
            _publish(building, overlay)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return overlay.name


def modules_of_packages(names: Sequence[str]) -> frozenset[str]:
    """The modules at the top level of an overlay of some packages.

    Raises:
        UsageError: If a package is not installed.
    """
    files = (file for found in _closure(names).values() for file in found.files or [])
    return frozenset(file.parts[0].partition(".")[0] for file in files)


def _publish(building: Path, overlay: Path) -> None:
    for directory, _, _ in os.walk(building):
        os.chmod(directory, 0o755)
    try:
        building.rename(overlay)
    except OSError:
        if not overlay.is_dir():  # another process was faster, with the same content
            raise


def _closure(names: Sequence[str]) -> dict[str, Distribution]:
    """The named distributions and everything they require here, by canonical name."""
    found: dict[str, Distribution] = {}
    waiting: list[tuple[str, frozenset[str], bool]] = []
    for name in names:
        try:
            asked = Requirement(name)
        except InvalidRequirement as error:
            raise UsageError(
                f"packages: {name!r} is not a package name", hint="as in `packages` numpy,pandas", fields=("packages",)
            ) from error
        waiting.append((asked.name, frozenset(asked.extras), True))
    while waiting:
        name, extras, asked_for = waiting.pop()
        key = canonicalize_name(name)
        if key in found and not extras:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError as error:
            if not asked_for:
                continue  # a requirement of another platform or an incomplete environment; importing it tells
            message = f"packages: {name!r} is not installed here"
            raise UsageError(message, hint=package_command(name), fields=("packages",)) from error
        for line in found[key].requires or []:
            requirement = Requirement(line)
            marker = requirement.marker
            wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}))
            if wanted and canonicalize_name(requirement.name) not in found:
                waiting.append((requirement.name, frozenset(requirement.extras), False))
    return found


def _digest(distributions: dict[str, Distribution]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in sorted(distributions):
        found = distributions[name]
        digest.update(f"{name} {found.version} {found.locate_file('')}\n".encode())
        digest.update((found.read_text("RECORD") or "").encode())
    return digest.hexdigest()[:32]


def _add(found: Distribution, overlay: Path) -> None:
    files = [file for file in found.files or [] if ".." not in file.parts and file.suffix != ".pth"]
    modules = [file for file in files if not file.parts[0].endswith((".dist-info", ".egg-info"))]
    if not modules and not _is_metapackage(found):
        raise UsageError(
            f"packages: {found.name!r} is installed without files of its own (an editable install?)",
            hint="install it normally",
            fields=("packages",),
        )
    for file in files:
        source = Path(str(found.locate_file(file)))
        if source.is_file():
            target = overlay / file
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(source, target)


def _is_metapackage(found: Distribution) -> bool:
    return bool(found.requires) and not found.read_text("direct_url.json")


def _link(source: Path, target: Path) -> None:
    readable = source.stat().st_mode & stat.S_IROTH
    try:
        if not readable:
            raise OSError("only a copy can be made readable")
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        target.chmod(0o644)
