"""Optional dependencies are asked for in one place, so that a missing one is always the same one-line error."""

from __future__ import annotations

import importlib
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
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        missing = error.name or package
        message = f"the package {package!r} is not installed"
        if missing.partition(".")[0] != package:
            message = f"the package {package!r} cannot be imported: {missing!r} is not installed"
        raise MissingExtraError(message, hint=install_command(extra)) from error
