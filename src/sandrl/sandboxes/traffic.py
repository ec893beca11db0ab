"""The use of the network by the sandboxes of a job: each connection in the run, each refused host in one warning."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from sandrl.errors import SandrlError
from sandrl.events import Emit, Warned
from sandrl.runs.rows import ConnectionRow
from sandrl.runtime.limits import CONNECTIONS_TOLD
from sandrl.sandboxes.providers.protocol import Connection

_PAUSE_SECONDS = 1.0
_MOST_WARNINGS = 20


class Traffic:
    """Asks the runtime for connections that have ended, at most once a second.

    Args:
        tags: Those of the job's sandboxes, encoded.
        record: Writes a row into the run; None without one.
    """

    def __init__(self, job_id: str, tags: list[str], record: Callable[[ConnectionRow], None] | None) -> None:
        self._job_id = job_id
        self._tags = tags
        self._record = record
        self._address = ""
        self._last = 0
        self._looked_at = 0.0
        self._refused: set[tuple[str, int]] = set()

    def look(self, connection: Connection, emit: Emit, *, at_once: bool = False) -> None:
        """Records what has come since the last call; without an answer of the runtime, the next call does."""
        if connection.connections is None or not connection.has_network:
            return
        if not at_once and time.monotonic() - self._looked_at < _PAUSE_SECONDS:
            return
        self._looked_at = time.monotonic()
        if connection.address != self._address:
            self._address, self._last = connection.address, 0  # another runtime counts anew
        is_more = True
        while is_more:
            try:
                found, self._last = connection.connections(self._tags, self._last)
            except SandrlError:
                return
            is_more = len(found) >= CONNECTIONS_TOLD
            for each in found:
                ended = {**each, "time": datetime.fromtimestamp(each["time"], UTC)}
                row = ConnectionRow(job_id=self._job_id, **ended)
                if self._record is not None:
                    self._record(row)
                if not row.host:
                    emit(Warned(f"the network of sandbox {row.sandbox_id}: {row.error}"))
                elif row.refused:
                    self._warn(row, emit)

    def _warn(self, row: ConnectionRow, emit: Emit) -> None:
        key = row.host, row.port
        if key in self._refused or len(self._refused) > _MOST_WARNINGS:
            return
        self._refused.add(key)
        if len(self._refused) > _MOST_WARNINGS:
            emit(Warned("more hosts were refused to sandboxes; connections.jsonl of the run has all"))
            return
        name = f"{row.host}:{row.port}" if row.port else row.host
        emit(
            Warned(
                f"host {name} was refused to a sandbox: {row.refused}",
                "`allow_hosts` names hosts of the Internet, `private_hosts` those of this machine and its networks",
                ("allow_hosts", "private_hosts"),
            )
        )
