"""Spare sandboxes, started before they are needed.

A spare sandbox is a launch without a command. It is in the ledger and counts as held from its request on; the launch
that takes it uses its name from then on. Nothing waits for a spare, and a spare that failed, lives elsewhere or has too
little lifetime left is never handed out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from sandrl.sandboxes.session import Launch

# What a launch may need beyond its command's own time: the way there and back.
_MARGIN_SECONDS = 30.0


class Pool:
    """The spare sandboxes of a job, oldest first."""

    def __init__(self, max_lifetime_seconds: float) -> None:
        self._max_lifetime_seconds = max_lifetime_seconds
        self._spares: deque[Launch] = deque()

    def __len__(self) -> int:
        return len(self._spares)

    def add(self, spare: Launch) -> None:
        self._spares.append(spare)

    def take(self, timeout_seconds: float, address: str) -> Launch | None:
        found = next((spare for spare in self._spares if self._suits(spare, timeout_seconds, address)), None)
        if found is not None:
            self._spares.remove(found)
        return found

    def remove_unfit(self, timeout_seconds: float, address: str) -> list[Launch]:
        """Gives up the spares that do not suit a command of this length any more, and returns them."""
        return self.remove(lambda spare: not self._suits(spare, timeout_seconds, address))

    def remove(self, unwanted: Callable[[Launch], bool] = lambda _: True) -> list[Launch]:
        removed = [spare for spare in self._spares if unwanted(spare)]
        for spare in removed:
            self._spares.remove(spare)
        return removed

    def _suits(self, spare: Launch, timeout_seconds: float, address: str) -> bool:
        age_seconds = time.monotonic() - spare.launched_at
        lives_on = age_seconds + timeout_seconds + _MARGIN_SECONDS < self._max_lifetime_seconds
        return lives_on and spare.address == address and not spare.has_failed_to_start
