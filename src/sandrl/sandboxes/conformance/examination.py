"""Examines a provider: runs checks one after the other, and leaves no sandbox behind.

Its sandboxes have tags of their own, and nothing else is ever touched. It is in the registry as any job is, so if it is
killed, `sandrl sandboxes cleanup --orphans` finds them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sandrl.addresses import without_credentials
from sandrl.closing import Closing
from sandrl.errors import CleanupError, InterruptedRunError
from sandrl.events import Emit, ignore
from sandrl.runs.rows import OwnerRow
from sandrl.sandboxes.conformance.check import Check, DoesNotApply, Mismatch, named
from sandrl.sandboxes.conformance.trial import LIFETIME_SECONDS, PATIENCE_SECONDS, Trial, answer, listed, stop_all
from sandrl.sandboxes.interrupt import Interrupt, Level
from sandrl.sandboxes.owner import current_owner
from sandrl.sandboxes.providers.protocol import Client, Connection
from sandrl.sandboxes.registry import JobEntry, Registration
from sandrl.sandboxes.tags import job_tags, new_job_id
from sandrl.settings import Settings

# A creation that was in flight may show up later.
_LOOKS = (0.0, 0.5)


class State(StrEnum):
    """What a check has found."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "does not apply"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check has found of a provider.

    Attributes:
        what: What must hold.
        reason: Why it does not hold, or does not apply.
    """

    name: str
    what: str
    state: State
    reason: str = ""
    seconds: float = 0.0


class Examination(Closing):
    """Checks one provider, until the end of the `with` block.

    Args:
        connection: The runtime, which must be ready.
        settings: Those that the connection was made with.
        interrupt: A request to it ends the examination; only what cleans up is finished.

    Raises:
        ServiceError: If the runtime does not answer.
    """

    def __init__(
        self, connection: Connection, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
    ) -> None:
        self.job_id = new_job_id()
        self._connection = connection
        self._settings = settings
        self._runtime = connection.named()[0]
        self._interrupt = interrupt or Interrupt()
        owner = current_owner()
        self._tags = job_tags(self.job_id, owner.hash, ["conformance"])
        entry = JobEntry(
            job_id=self.job_id,
            owner=OwnerRow.model_validate(owner),
            owner_hash=owner.hash,
            command="runtime check",
            runtime=str(connection.kind),
            address=without_credentials(connection.address),
            tags=self._tags,
            max_lifetime_seconds=LIFETIME_SECONDS,
        )
        self._registration = Registration(entry, connection.state_dir, emit)
        self._client = connection.open(tags=self._tags)
        answer(self._client.ping())

    def run(self, check: Check) -> Outcome:
        """Runs one check; sandboxes that it leaves are stopped.

        Raises:
            InterruptedRunError: If the user asked to stop.
        """
        self._registration.renew()
        begun = time.monotonic()
        tags = (*self._tags, f"check-{secrets.token_hex(6)}")
        client = self._connection.open(tags=tags, max_lifetime_seconds=LIFETIME_SECONDS)
        state, reason = State.PASSED, ""
        try:
            check.function(Trial(self._connection, self._settings, self._runtime, tags, client))
        except DoesNotApply as error:
            state, reason = State.ABSENT, str(error)
        except Mismatch as error:
            state, reason = State.FAILED, str(error)
        except InterruptedRunError:
            raise
        except Exception as error:  # noqa: BLE001 - a provider is judged by whatever it raises
            state, reason = State.FAILED, named(error)
        finally:
            with self._interrupt.heard():
                left = self._stop(client, tags[-1:])
        if self._interrupt.level is not Level.NONE:
            # A check, or a provider, has caught the exception.
            raise InterruptedRunError("interrupted", signal_number=self._interrupt.signal_number)
        if left and state is State.PASSED:
            state, reason = State.FAILED, f"its sandboxes could not be stopped: {left}"
        return Outcome(check.name, check.what, state, reason, round(time.monotonic() - begun, 2))

    def _stop(self, client: Client, tags: Sequence[str]) -> str:
        # Why that failed; empty if it did not.
        try:
            try:
                stop_all(client, tags)
            finally:
                client.close(PATIENCE_SECONDS)
        except Exception as error:  # noqa: BLE001 - a provider is judged by whatever it raises
            return named(error)
        return ""

    def close(self) -> None:
        """Stops whatever is left, and makes sure that nothing is.

        Raises:
            CleanupError: If something is.
        """
        with self._interrupt.heard():
            for pause in _LOOKS:
                time.sleep(pause)
                left = self._stop(self._connection.open(), self._tags)
            try:
                found = [each.id for each in listed(self._client, self._tags)]
                self._client.close(PATIENCE_SECONDS)
            except Exception as error:  # noqa: BLE001 - as above
                left = left or named(error)
            else:
                left = left or ", ".join(map(str, found))
        if left:
            raise CleanupError(
                f"sandboxes of {self.job_id} could not be stopped: {left}",
                hint=f"sandrl sandboxes cleanup --runtime {self._runtime} --tag {self.job_id}",
            )
        self._registration.end()
