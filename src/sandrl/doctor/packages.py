"""The installed versions of sandrl, of its requirements and of its extras, and whether they can be imported.

Versions come from metadata. Metadata is there even if a file or a shared library is missing, so a complete extra is
reported as installed only after its packages were imported, in another process (`sandrl.doctor.imports`).
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sandrl import __version__
from sandrl.doctor.report import Check, State
from sandrl.installation import again_command, install_command, installed_version, package_command

_DISTRIBUTION = "sandrl"
_DEVELOPMENT = frozenset({"dev", "docs"})
_MOST_NAMED = 3
# Other lines of the report say that these are installed.
_TORCH = "torch"
_ALONE = ("openpipe-art", "tinker", "wandb", _TORCH)
_NONE_BROKEN: Mapping[str, str] = {}


def vouched_packages() -> list[str]:
    """The packages that the report calls installed, as pip names them: sandrl's own, and those of complete extras."""
    names = [requirement.name for requirement in _requirements(_DISTRIBUTION, "")]
    for extra in _extras():
        of_extra = [requirement.name for requirement in _all_requirements(_DISTRIBUTION, extra)]
        if all(installed_version(name) is not None for name in of_extra):
            names += of_extra
    return [*dict.fromkeys([*names, *(name for name in _ALONE if installed_version(name) is not None)])]


def version_checks(broken: Mapping[str, str] = _NONE_BROKEN) -> list[Check]:
    """The versions of sandrl, of the interpreter, of the kernel, and of every package sandrl always needs.

    Args:
        broken: Why packages cannot be imported, by their name.
    """
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
        if fits and requirement.name in broken:
            fits, detail, hint = False, _of_broken(requirement.name, broken), again_command(requirement.name)
        checks.append(Check(requirement.name, State.OK if fits else State.FAILED, detail, hint))
    return checks


def extra_checks(broken: Mapping[str, str] = _NONE_BROKEN) -> list[Check]:
    checks = [_extra_check(extra, broken) for extra in _extras()]
    if _TORCH in broken and not any(check.state is State.FAILED for check in checks):
        # No extra is complete, so no line says that it is there.
        checks.append(Check(_TORCH, State.FAILED, _of_broken(_TORCH, broken), again_command(_TORCH)))
    return checks


def _of_broken(package: str, broken: Mapping[str, str]) -> str:
    return f"{package} {installed_version(package)} cannot be imported: {broken[package]}"


def _extra_check(extra: str, broken: Mapping[str, str]) -> Check:
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
    # The first in the order of imports, because those that need it fail with it.
    unusable = next((name for name in broken if name in found), None)
    if unusable is not None and not missing:
        return Check(extra, State.FAILED, _of_broken(unusable, broken), again_command(unusable))
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
    for requirement in _requirements(distribution, extra):
        if canonicalize_name(requirement.name) != _DISTRIBUTION:
            yield requirement
        for inner in sorted(requirement.extras):
            if (canonicalize_name(requirement.name), inner) != (canonicalize_name(distribution), extra):
                yield from _all_requirements(requirement.name, inner)


def _requirements(distribution: str, extra: str) -> Iterator[Requirement]:
    # What a distribution requires for an extra alone; with an empty one, what it always does.
    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        wanted = requirement.marker is not None and requirement.marker.evaluate({"extra": extra})
        if always if not extra else (wanted and not always):
            yield requirement
