"""A ledger in memory."""

from __future__ import annotations

from collections.abc import Sequence

from sandrl.sandboxes.journal import NoLedger


class Lines(NoLedger):
    """A ledger in memory: events with their tags, by sandbox."""

    def __init__(self) -> None:
        self.events: dict[str, list[str]] = {}
        self.tags: dict[str, list[tuple[str, ...]]] = {}

    def intend(self, key: str, tags: Sequence[str], owner: object = None, at: object = None) -> None:
        self.events[key] = ["intent"]
        self.tags[key] = [tuple(tags)]

    def taken(self, key: str, tags: Sequence[str]) -> None:
        self.events[key].append("taken")
        self.tags[key].append(tuple(tags))

    def created(self, key: str, sandbox_id: str) -> None:
        self.events[key].append("created")

    def stopped(self, key: str, sandbox_id: str | None, at: object = None, since: object = None) -> None:
        self.events[key].append("stopped")
