"""Entries in the registry of jobs."""

from __future__ import annotations

from sandrl.runs import OwnerRow
from sandrl.sandboxes.owner import Owner, current_owner
from sandrl.sandboxes.registry import JobEntry


def job_entry(
    owner: Owner | None = None, job_id: str = "job-0a1b2c3d", address: str = "http://127.0.0.1:1"
) -> JobEntry:
    """The entry of a job of this process, or of another owner."""
    owner = owner or current_owner()
    return JobEntry(
        job_id=job_id,
        owner=OwnerRow.model_validate(owner),
        owner_hash=owner.hash,
        command="reward",
        runtime="local",
        address=address,
        tags=(job_id, f"owner-{owner.hash}"),
        run_dir="/somewhere/runs/r",
        max_lifetime_seconds=300,
    )
