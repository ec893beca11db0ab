"""Which sandboxes exist, which job owns each, and which are orphans.

Nothing is guessed. An owner is `gone` only where that is proven on its own machine (see `sandrl.sandboxes.owner`): on
this one, or on the one that has the sandbox and reports the owner (`SandboxInfo.owner`). A sandbox is an orphan only if
it names such an owner, or if its lifetime has passed by more than clocks can differ. A sandbox that names no owner was
not made by sandrl and is never an orphan.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from sandrl.errors import InputError
from sandrl.prefixes import find_id
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.owner import Liveness, Owner, OwnerFacts, liveness
from sandrl.sandboxes.providers.protocol import ENDED_STATUSES, PENDING_STATUSES, SandboxInfo
from sandrl.sandboxes.registry import JobEntry, read_jobs
from sandrl.sandboxes.tags import TRAINING_TAG, encode_tag

_OWNER_PREFIX = "owner-"
_JOB_PREFIX = "job-"
# The service's clock and ours.
_CLOCK_TOLERANCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class SandboxSelection:
    """Which sandboxes are selected; all conditions must hold.

    Attributes:
        tags: Texts of tags, encoded here as they were when the sandboxes were created.
        statuses: One of these; empty for any.
        ended: Also those that have ended; a status of ended sandboxes implies it.
        job: Only those of this job: its id, or the beginning of it, with or without `job-`.
    """

    tags: tuple[str, ...] = ()
    statuses: frozenset[str] = frozenset()
    orphans: bool = False
    older_than_seconds: float | None = None
    ended: bool = False
    job: str | None = None


@dataclass(frozen=True, slots=True)
class OwnedSandbox:
    """A sandbox with its job and owner, as far as they are known here.

    Attributes:
        job_id: The job that it belongs to; None if its tags name none.
        owner: Whether its owner lives; None if its tags name none.
        process: The owner; None if it is not in a registry.
        is_orphan: Whether its owner has ended, or its lifetime has passed.
    """

    sandbox: SandboxInfo
    job_id: str | None = None
    owner: Liveness | None = None
    process: Owner | None = None
    is_orphan: bool = False

    @property
    def own_tags(self) -> tuple[str, ...]:
        hidden = {TRAINING_TAG, self.job_id}
        return tuple(tag for tag in self.sandbox.tags if tag not in hidden and not tag.startswith(_OWNER_PREFIX))


@dataclass
class Owners:
    """The owners of sandboxes, as far as this machine can determine them; each is looked for once."""

    state_dir: Path
    _jobs: dict[str, list[JobEntry]] = field(init=False)
    _found: dict[str, Liveness] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._jobs = defaultdict(list)
        for entry in read_jobs(self.state_dir):
            self._jobs[entry.owner_hash].append(entry)

    @property
    def job_ids(self) -> tuple[str, ...]:
        return tuple(entry.job_id for entries in self._jobs.values() for entry in entries)

    def facts(self, sandbox: SandboxInfo) -> OwnerFacts | None:
        """The facts that this machine has about the owner of a sandbox; None if the sandbox names none."""
        owner_tag = next((tag for tag in sandbox.tags if tag.startswith(_OWNER_PREFIX)), None)
        if owner_tag is None:
            return None
        entries = self._jobs.get(owner_tag.removeprefix(_OWNER_PREFIX), [])
        process = entries[0].process if entries else None
        if owner_tag not in self._found:
            self._found[owner_tag] = liveness(process)
        job_id = next((entry.job_id for entry in entries if entry.job_id in sandbox.tags), None)
        return OwnerFacts(self._found[owner_tag], process, job_id)

    def describe(self, sandbox: SandboxInfo, at: datetime) -> OwnedSandbox:
        """A sandbox with its job and owner at a given time, as this or the sandbox's machine determines them."""
        owner = sandbox.owner or self.facts(sandbox)
        if owner is None:
            return OwnedSandbox(sandbox, _job_among(sandbox.tags))
        return OwnedSandbox(
            sandbox,
            owner.job_id or _job_among(sandbox.tags),
            owner.liveness,
            owner.process,
            is_orphan=not sandbox.has_ended and (owner.liveness is Liveness.GONE or _is_over(sandbox, at)),
        )


def list_sandboxes(inventory: Inventory, selection: SandboxSelection, owners: Owners) -> list[OwnedSandbox]:
    """The selected sandboxes, oldest first.

    Raises:
        ServiceError: If the service does not answer or refuses.
        InputError: If several jobs match `job`, or none does.
    """
    ended = selection.ended or not selection.statuses.isdisjoint(ENDED_STATUSES)
    at = datetime.now(UTC)
    found = inventory.list(tags=[encode_tag(tag) for tag in selection.tags], ended=ended)
    listed = [owners.describe(sandbox, at) for sandbox in found]
    if selection.job is not None:
        known = (each.job_id for each in listed if each.job_id is not None)
        job = find_id(selection.job, (*known, *owners.job_ids), noun="job", optional=_JOB_PREFIX)
        if job is None:
            raise InputError(f"no job begins with {selection.job!r}", hint="sandrl sandboxes ls -o wide lists the jobs")
        listed = [each for each in listed if each.job_id == job]
    return [each for each in listed if _is_meant(each, selection, at)]


@dataclass(frozen=True, slots=True)
class Count:
    """Numbers of sandboxes.

    Attributes:
        total: All that have not ended, including those that are paused or being stopped.
    """

    running: int = 0
    pending: int = 0
    total: int = 0


def count(listed: Iterable[OwnedSandbox]) -> Count:
    statuses = Counter(each.sandbox.status for each in listed if not each.sandbox.has_ended)
    return Count(statuses["running"], sum(statuses[status] for status in PENDING_STATUSES), statuses.total())


def count_by_tag(listed: Iterable[OwnedSandbox]) -> dict[str, Count]:
    """Counts sandboxes for each of their tags, the most frequent first."""
    with_tag: defaultdict[str, list[OwnedSandbox]] = defaultdict(list)
    for each in listed:
        for tag in each.sandbox.tags:
            with_tag[tag].append(each)
    counts = {tag: count(having) for tag, having in with_tag.items()}
    return dict(sorted(counts.items(), key=lambda item: (-item[1].total, item[0])))


def _is_meant(each: OwnedSandbox, selection: SandboxSelection, at: datetime) -> bool:
    if selection.statuses and each.sandbox.status not in selection.statuses:
        return False
    if selection.orphans and not each.is_orphan:
        return False
    if selection.older_than_seconds is None:
        return True
    age = each.sandbox.age_seconds(at)
    return age is not None and age > selection.older_than_seconds


def _is_over(sandbox: SandboxInfo, at: datetime) -> bool:
    return sandbox.expires_at is not None and at > sandbox.expires_at + _CLOCK_TOLERANCE


def _job_among(tags: tuple[str, ...]) -> str | None:
    # The job among tags, as `job_tags` orders them: a job id of the user's own comes right before the owner.
    named = next((tag for tag in tags if tag.startswith(_JOB_PREFIX)), None)
    if named is not None:
        return named
    for before, tag in pairwise(tags):
        if tag.startswith(_OWNER_PREFIX) and before != TRAINING_TAG:
            return before
    return None
