"""Imports optional dependencies in one place, so that a missing one always causes the same one-line error."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType

from sandrl.errors import MissingExtraError


def require(module: str, *, extra: str) -> ModuleType:
    """Imports an optional dependency.

    Args:
        module: Its import name, for example `trl` or `trl.trainer`.
        extra: The extra of sandrl that brings it.

    Returns:
        The module.

    Raises:
        MissingExtraError: If it is not installed, or one of its own dependencies is missing.
    """
    return _imported(module, extra=extra)


def require_framework(module: str, *, package: str) -> ModuleType:
    """Imports a framework that is the user's own, and no extra of sandrl.

    Args:
        module: Its import name, or that of a module that imports it.
        package: What brings it, as pip names it.

    Raises:
        MissingExtraError: If it is not installed, or one of its own dependencies is missing.
    """
    return _imported(module, package=package)


def _imported(module: str, *, extra: str = "", package: str = "") -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        wanted = module.partition(".")[0]
        missing = error.name or wanted
        message = f"the package {wanted!r} is not installed"
        if wanted == "sandrl":
            message = f"the package {missing.partition('.')[0]!r} is not installed"
        elif missing.partition(".")[0] != wanted:
            message = f"the package {wanted!r} cannot be imported: {missing!r} is not installed"
        raise MissingExtraError(message, hint=_hint(extra, package)) from error


def check(modules: Iterable[str], *, extra: str) -> None:
    """Makes sure that optional dependencies are installed, without loading any of them.

    Args:
        modules: Their import names, top-level packages all.
        extra: The extra of sandrl that brings them.

    Raises:
        MissingExtraError: If one is not installed.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"the package {module!r} is not installed", hint=_hint(extra))


def _hint(extra: str, package: str = "") -> str:
    from sandrl.installation import install_command, package_command

    return install_command(extra) if extra else package_command(package)
