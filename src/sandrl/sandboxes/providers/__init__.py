"""Providers: one module per runtime, each behind the same protocol.

`RuntimeKind` is the list of providers. Each of its members but `auto` is the name of a module in this package that has
a `PROVIDER`; it is imported on use. To add a provider, write such a module, after `protocol.py`, and add a member.
Nothing else in sandrl has a list of providers.
"""

from __future__ import annotations

from importlib import import_module

from sandrl.sandboxes.providers.protocol import Provider
from sandrl.settings import RuntimeKind


def find_provider(kind: RuntimeKind) -> Provider:
    """The provider of a runtime.

    Args:
        kind: Its name; not `auto`, which `Settings.choose_runtime` decides.
    """
    provider: Provider = import_module(f"{__name__}.{kind.value}").PROVIDER
    return provider
