"""Optional dependencies are asked for in one place, so that a missing one is always the same one-line error."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType

from sandrl.errors import MissingExtraError


def install_command(extra: str) -> str:
    """Returns the command that installs an extra."""
    return f"pip install 'sandrl[{extra}]'"


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
    return _imported(module, install_command(extra))


def require_framework(module: str, *, package: str) -> ModuleType:
    """Imports a framework that is the user's own, and no extra of sandrl.

    Args:
        module: Its import name, or that of a module that imports it.
        package: What brings it, as pip names it.

    Raises:
        MissingExtraError: If it is not installed, or one of its own dependencies is missing.
    """
    return _imported(module, f"pip install '{package}'")


def _imported(module: str, hint: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        missing = error.name or package
        message = f"the package {package!r} is not installed"
        if package == "sandrl":
            message = f"the package {missing.partition('.')[0]!r} is not installed"
        elif missing.partition(".")[0] != package:
            message = f"the package {package!r} cannot be imported: {missing!r} is not installed"
        raise MissingExtraError(message, hint=hint) from error


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
            raise MissingExtraError(f"the package {module!r} is not installed", hint=install_command(extra))
