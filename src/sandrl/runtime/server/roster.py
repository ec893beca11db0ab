"""The roster: a file with the living sandboxes, for shells that complete their ids and tags.

A shell that waits for TAB has no time to call a daemon, so the daemon leaves a small file. It is written at most once a
second and only after a change, even if many sandboxes start and end in between. Only completion reads it, and nothing
depends on the file being there or right.
"""

from __future__ import annotations

import asyncio
import logging

from sandrl.runtime.server.records import Registry
from sandrl.runtime.state import RuntimeDirectory

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0
_MOST_SANDBOXES = 500


class Roster:
    """Keeps the file of one daemon."""

    def __init__(self, directory: RuntimeDirectory, registry: Registry) -> None:
        self._directory = directory
        self._registry = registry
        self._planned: asyncio.TimerHandle | None = None

    def note_change(self) -> None:
        """A sandbox came or went: the file is written soon, if it is not about to be anyway."""
        if self._planned is None:
            self._planned = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._write)

    def _write(self) -> None:
        self._planned = None
        newest = self._registry.living()[-_MOST_SANDBOXES:]
        try:
            self._directory.write_roster([(record.sandbox_id, list(record.spec.tags)) for record in newest])
        except OSError as error:
            logger.warning("the roster of sandboxes cannot be written: %s", error.strerror)

    def close(self) -> None:
        if self._planned is not None:
            self._planned.cancel()
