"""The sandboxes of a machine of a cluster, as the driver lists and stops them.

These calls run on the machine that has the sandboxes, with its state directory. So its registry and its kernel
decide whether an owner lives, and the answer travels with the sandbox (`SandboxInfo.owner`). No runtime is started for
a question: if none runs, there are no sandboxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sandrl.errors import UnknownSandboxError
from sandrl.sandboxes.connection import find_connection
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.listing import Owners
from sandrl.sandboxes.providers.protocol import SandboxInfo
from sandrl.settings import RuntimeKind, load_settings


class NodeSandboxes:
    """Calls raise a `ServiceError` if the local runtime of this machine runs and does not answer."""

    def __init__(self) -> None:
        self._settings = load_settings()
        self._inventory: Inventory | None = None

    def list(self, tags: Sequence[str], ended: bool) -> list[SandboxInfo]:
        owners = Owners(self._settings.state_dir)
        inventory = self._found()
        found = [] if inventory is None else inventory.list(tags=tags, ended=ended)
        return [replace(each, owner=owners.facts(each)) for each in found]

    def get(self, sandbox_id: str) -> SandboxInfo | None:
        """One sandbox, also if it has ended and is still listed; None if there is none with this id."""
        inventory = self._found()
        if inventory is None:
            return None
        try:
            found = inventory.get(sandbox_id)
        except UnknownSandboxError:
            return None
        return replace(found, owner=Owners(self._settings.state_dir).facts(found))

    def stop(self, sandbox_id: str) -> bool:
        """Stops a sandbox that was listed or got, and waits until it has ended; returns whether it existed."""
        inventory = self._inventory
        if inventory is None:
            return False
        error = inventory.stop_error(inventory.stop(sandbox_id))
        if error is not None and not isinstance(error, UnknownSandboxError):
            raise error
        return error is None

    def _found(self) -> Inventory | None:
        connection = find_connection(self._settings, runtime=RuntimeKind.LOCAL)
        self._inventory = None if connection is None else Inventory(connection)
        return self._inventory
