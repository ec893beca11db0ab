"""A ledger in memory."""

from __future__ import annotations

from sandrl.runs.rows import SandboxRow


class Lines:
    """A ledger in memory: events with their tags, by sandbox."""

    def __init__(self) -> None:
        self.events: dict[str, list[str]] = {}
        self.tags: dict[str, list[tuple[str, ...]]] = {}

    def __call__(self, row: SandboxRow) -> None:
        self.events.setdefault(row.key, []).append(row.event.value)
        if row.tags:
            self.tags.setdefault(row.key, []).append(row.tags)
