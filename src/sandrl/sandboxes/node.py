"""Functions that a machine of a cluster runs on the sandboxes of its own local runtime.

These functions run on the machine that has the sandboxes, with its state directory. So its registry and its kernel
decide whether an owner lives, and the answer travels with the sandbox (`SandboxInfo.owner`). No runtime is started for
a question: if none runs, there are no sandboxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandrl.errors import UnknownSandboxError
from sandrl.sandboxes.connection import find_connection
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.listing import Owners
from sandrl.sandboxes.providers.protocol import SandboxInfo
from sandrl.settings import RuntimeKind, load_settings


@dataclass(frozen=True, slots=True)
class StopResults:
    """The result of stopping several sandboxes.

    Attributes:
        failed: Reasons, by id, why sandboxes could not be stopped.
    """

    unknown: frozenset[str] = frozenset()
    failed: dict[str, str] = field(default_factory=dict)


def list_sandboxes(tags: Sequence[str], ended: bool) -> list[SandboxInfo]:
    """The sandboxes of this machine with all these tags.

    Raises:
        ServiceError: If the local runtime runs and does not answer.
    """
    inventory, state_dir = _inventory_here()
    owners = Owners(state_dir)
    found = [] if inventory is None else inventory.list(tags=tags, ended=ended)
    return [replace(each, owner=owners.facts(each)) for each in found]


def get_sandbox(sandbox_id: str) -> SandboxInfo | None:
    """One sandbox of this machine, also if it has ended and is still listed; None if there is none with this id.

    Raises:
        ServiceError: If the local runtime runs and does not answer.
    """
    inventory, state_dir = _inventory_here()
    if inventory is None:
        return None
    try:
        found = inventory.get(sandbox_id)
    except UnknownSandboxError:
        return None
    return replace(found, owner=Owners(state_dir).facts(found))


def stop_sandboxes(ids: Sequence[str]) -> StopResults:
    """Stops sandboxes of this machine, all at once, and waits until they have ended.

    Raises:
        ServiceError: If the local runtime runs and does not answer.
    """
    inventory, _ = _inventory_here()
    if inventory is None:
        return StopResults(frozenset(ids))
    there = {each.id for each in inventory.list()}
    ends = {each: inventory.stop(each) for each in dict.fromkeys(ids) if each in there}
    unknown, failed = {each for each in ids if each not in there}, {}
    for sandbox_id, end in ends.items():
        error = inventory.stop_error(end)
        if isinstance(error, UnknownSandboxError):
            unknown.add(sandbox_id)
        elif error is not None:
            failed[sandbox_id] = error.message
    return StopResults(frozenset(unknown), failed)


def _inventory_here() -> tuple[Inventory | None, Path]:
    settings = load_settings()
    connection = find_connection(settings, runtime=RuntimeKind.LOCAL)
    return None if connection is None else Inventory(connection), settings.state_dir
