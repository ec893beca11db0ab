"""The installed versions of sandrl, of its requirements and of its extras, read from metadata without an import."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sandrl import __version__
from sandrl.doctor.report import Check, State
from sandrl.installation import install_command, installed_version, package_command

_DISTRIBUTION = "sandrl"
_DEVELOPMENT = frozenset({"dev", "docs"})
_MOST_NAMED = 3


def version_checks() -> list[Check]:
    """The versions of sandrl, of the interpreter, of the kernel, and of every package sandrl always needs."""
    checks = [
        Check("sandrl", State.OK, __version__),
        Check("Python", State.OK, platform.python_version()),
        Check(platform.system(), State.OK, f"{platform.release()} {platform.machine()}"),
    ]
    for requirement in _requirements(_DISTRIBUTION, ""):
        installed = installed_version(requirement.name)
        fits = installed is not None and requirement.specifier.contains(installed, prereleases=True)
        detail = installed or "not installed"
        if installed is not None and not fits:
            detail = f"{installed}, but sandrl needs {requirement.specifier}"
        hint = None if fits else package_command(str(requirement))
        checks.append(Check(requirement.name, State.OK if fits else State.FAILED, detail, hint))
    return checks


def extra_checks() -> list[Check]:
    """Each extra: installed in versions that fit, or the line that installs it."""
    return [_extra_check(extra) for extra in _extras()]


def _extra_check(extra: str) -> Check:
    found: dict[str, str] = {}
    missing: list[str] = []
    unfit: list[str] = []
    for requirement in dict.fromkeys(_all_requirements(_DISTRIBUTION, extra)):
        installed = installed_version(requirement.name)
        if installed is None:
            missing.append(requirement.name)
        elif requirement.specifier.contains(installed, prereleases=True):
            found[requirement.name] = installed
        else:
            unfit.append(f"{requirement.name} {installed} (needs {requirement.specifier})")
    if not missing and not unfit:
        versions = [f"{name} {version}" for name, version in list(found.items())[: 2 * _MOST_NAMED]]
        return Check(extra, State.OK, ", ".join(versions))
    parts = [f"other version: {_some(unfit)}"] if unfit and (found or len(unfit) > len(missing)) else []
    parts += [f"not installed: {_some(missing)}"] if missing else []
    return Check(extra, State.ABSENT, "; ".join(parts), install_command(extra))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _extras() -> list[str]:
    try:
        known = metadata.metadata(_DISTRIBUTION).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return []  # run from its source, never installed
    return [extra for extra in known if extra not in _DEVELOPMENT]


def _all_requirements(distribution: str, extra: str) -> Iterator[Requirement]:
    """What an extra requires, and what the extras of those in turn do (`openpipe-art[tinker]`, `sandrl[grpo]`)."""
    for requirement in _requirements(distribution, extra):
        if canonicalize_name(requirement.name) != _DISTRIBUTION:
            yield requirement
        for inner in sorted(requirement.extras):
            if (canonicalize_name(requirement.name), inner) != (canonicalize_name(distribution), extra):
                yield from _all_requirements(requirement.name, inner)


def _requirements(distribution: str, extra: str) -> Iterator[Requirement]:
    """What a distribution requires for an extra alone; with an empty one, what it always does."""
    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        wanted = requirement.marker is not None and requirement.marker.evaluate({"extra": extra})
        if always if not extra else (wanted and not always):
            yield requirement
