"""Existing sandboxes, of any owner: list, enter and stop them.

Only the runtime shows which sandboxes exist, so every call asks it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime

from sandrl.errors import InfrastructureError, SandrlError
from sandrl.prefixes import find_id
from sandrl.sandboxes.providers.protocol import (
    AttachedProgram,
    Connection,
    Output,
    Sandbox,
    SandboxInfo,
    UnreachableNode,
)

# So long are ids that the service makes: no list of all sandboxes is needed for them.
_WHOLE_ID_CHARACTERS = 36


class Inventory:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._client = connection.open()
        self._known: dict[str, Sandbox] = {}

    @property
    def unreached(self) -> tuple[UnreachableNode, ...]:
        """The machines of the runtime that could not be asked so far; their sandboxes were not listed."""
        return self.connection.unreached()

    def list(self, *, tags: Sequence[str] = (), ended: bool = False) -> list[SandboxInfo]:
        """The sandboxes with all these tags, oldest first.

        Raises:
            ServiceError: If the runtime does not answer or refuses.
        """
        with self._hinted():
            found = self._client.list(tags, ended=ended).result()
        return sorted((self._seen(sandbox) for sandbox in found), key=_age_order)

    def get(self, sandbox_id: str) -> SandboxInfo:
        """One sandbox, also if it has ended and the runtime still lists it.

        Raises:
            UnknownSandboxError: If there is none with that id.
            ServiceError: If the runtime does not answer or refuses.
        """
        with self._hinted():
            return self._seen(self._client.get(sandbox_id).result())

    def find(self, given: str) -> str:
        """The id that begins with a text; a text that no id begins with is returned unchanged.

        Raises:
            InputError: If several ids begin with it.
            ServiceError: If the runtime does not answer or refuses.
        """
        if len(given) >= _WHOLE_ID_CHARACTERS:
            return given
        return find_id(given, (info.id for info in self.list(ended=True)), noun="sandbox") or given

    def stop(self, sandbox_id: str) -> Future[None]:
        """Begins to stop a sandbox that was listed or got; done when it has ended, see `stop_error`."""
        return self._known[sandbox_id].stop(missing_ok=False)

    def stop_error(self, ended: Future[None]) -> SandrlError | None:
        """Why an ended stop failed; None if it did not, `UnknownSandboxError` if the sandbox did not exist."""
        try:
            with self._hinted():
                ended.result()
        except SandrlError as error:
            return error
        return None

    def attach(
        self,
        sandbox_id: str,
        argv: Sequence[str],
        *,
        stdin: bool,
        stdout: Output,
        stderr: Output,
        timeout_seconds: float,
    ) -> AttachedProgram:
        return self._known[sandbox_id].attach(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, timeout_seconds=timeout_seconds
        )

    def logs(self, sandbox_id: str, *, follow: bool = False, tail_lines: int | None = None) -> Iterator[str]:
        """The output of a sandbox's main program, see `Sandbox.logs`; the sandbox must have been got."""
        with self._hinted():
            yield from self._known[sandbox_id].logs(follow=follow, tail_lines=tail_lines)

    @contextmanager
    def _hinted(self) -> Iterator[None]:
        try:
            yield
        except InfrastructureError as error:
            error.hint = error.hint or self.connection.way_out or None
            raise

    def _seen(self, sandbox: Sandbox) -> SandboxInfo:
        info = sandbox.info
        self._known[info.id] = sandbox
        return info


def _age_order(info: SandboxInfo) -> tuple[datetime, str]:
    return info.created_at or datetime.min.replace(tzinfo=UTC), info.id
