"""Providers: one module per runtime, each behind the same protocol.

Each member of `RuntimeKind` but `auto` is the name of a module in this package that has a `PROVIDER`. The provider of
any other name is an entry point of the group `sandrl.providers` in an installed package. Both are imported on use, and
nothing else in sandrl has a list of providers. The protocol, for packages, is `sandrl.providers`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sandrl.errors import UsageError
from sandrl.sandboxes.providers.protocol import Provider
from sandrl.settings import PROVIDERS_GROUP, RuntimeKind

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PARTS = ("summary", "needs", "connect", "find", "absence")


def find_provider(kind: str) -> Provider:
    """The provider of a runtime.

    Args:
        kind: Its name; not `auto`, which `Settings.choose_runtime` decides.

    Raises:
        UsageError: If the package that adds it cannot be loaded, or has no provider there.
    """
    if kind in set(RuntimeKind):
        own: Provider = import_module(f"{__name__}.{kind}").PROVIDER
        return own
    from importlib.metadata import entry_points  # slow to import

    found = tuple(entry_points(group=PROVIDERS_GROUP, name=kind))
    if len(found) != 1:
        packages = ", ".join(sorted(map(_package, found))) or "none"
        message = f"runtime {kind} must be in one installed package, and is in {packages}"
        raise UsageError(message, hint="keep one of them", fields=("runtime",))
    return _loaded(found[0])


def _loaded(point: EntryPoint) -> Provider:
    try:
        provider: Provider = point.load()
    except Exception as error:  # noqa: BLE001 # whatever the package does while it is imported
        reason = f"{type(error).__name__}: {error}"
    else:
        missing = [part for part in _PARTS if not hasattr(provider, part)]
        if not missing:
            return provider
        reason = f"{point.value} lacks {', '.join(missing)} of a provider"
    raise UsageError(
        f"runtime {point.name} cannot be loaded from the package {_package(point)}: {reason}",
        hint="install the package again, or use another `runtime`",
        fields=("runtime",),
    )


def _package(point: EntryPoint) -> str:
    return "?" if point.dist is None else f"{point.dist.name} {point.dist.version}"
